"""Every table from literal partial results: its schema, its grain, and the same answer however the rows lie."""

import pyarrow as pa
import pytest
from pipeline_frames import Tables, flow, partials_from, runs_from
from pipeline_runs import MS, S
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from brokerlab.pipeline.schemas import TABLES
from brokerlab.pipeline.schemas.families import PARTIALS
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.tables import TABLE_NAMES
from brokerlab.pipeline.transforms.latency import QUANTILES, latency_table
from brokerlab.pipeline.transforms.overhead import overhead_table
from brokerlab.pipeline.transforms.resources import resources_table
from brokerlab.pipeline.transforms.runs import runs_table
from brokerlab.pipeline.transforms.throughput import throughput_table
from brokerlab.stats.histogram import NEGATIVE_BUCKET, bucket_bounds, bucket_counts, histogram_quantile

pytestmark = pytest.mark.pipeline


# Tables about runs; those about cells and levels are made of finished tables, and have files of their own.
# So have those that are made of captures.
OF_CAPTURES = ("traffic", "legs", "captures")
NAMES = pytest.mark.parametrize(
    "name", [name for name in TABLE_NAMES if "run_id" in TABLES[name].grain and name not in OF_CAPTURES]
)


@pytest.fixture(scope="module")
def tables(spark, example):
    """All tables of the example, of the same with its rows in another order, of nothing, and without its manifests."""
    partials, runs = example
    shuffled = partials.repartition(5, F.hash("run_id", "bucket.bucket")).sortWithinPartitions(F.desc("run_id"))
    no_partials, no_runs = spark.createDataFrame([], PARTIALS), spark.createDataFrame([], MANIFESTS)
    return {
        "example": Tables(partials, runs),
        "shuffled": Tables(shuffled, runs.repartition(3)),
        "nothing": Tables(no_partials, no_runs),
        "no manifests": Tables(partials, no_runs),
    }


@NAMES
def test_schema_and_grain_are_the_declared_ones_however_the_rows_lie(tables, name):
    made = tables["example"][name]
    rows = made.collect()
    grains = [tuple(row[column] for column in TABLES[name].grain) for row in rows]

    assertSchemaEqual(made.schema, TABLES[name].columns)
    assert len(grains) == len(set(grains)) > 0
    assert all(part is not None for grain in grains for part in grain)
    assertDataFrameEqual(tables["shuffled"][name], rows)


@NAMES
def test_no_input_no_rows(tables, name):
    made = tables["nothing"][name]

    assert made.collect() == []
    assertSchemaEqual(made.schema, TABLES[name].columns)


@NAMES
def test_partials_of_runs_that_cannot_be_read_are_left_out(tables, name):
    """Their manifests are not among the runs."""
    assert tables["no manifests"][name].collect() == []


def test_one_damaged_file_told_twice_is_one_reason(spark):
    damage = ("a/1", "problem", {"reason": "deliveries/x cannot be read"})
    runs = runs_from(spark, {"run_id": "a/1"}, {"run_id": "a/2"})

    made = runs_table(runs, partials=partials_from(spark, damage, damage)).orderBy("run_id").collect()

    assert [(row.verdict, row.reasons) for row in made] == [("invalid", ["deliveries/x cannot be read"]), ("valid", [])]


def test_delivery_window_never_ends_before_the_last_sending(spark):
    """Sent until 5 s, the last arrival at 3 s: both rates are over three seconds."""
    partials = partials_from(
        spark,
        (
            "a/1",
            "publisher",
            {"measured": 30, "measured_acknowledged": 3, "measured_bytes": 300, "last_sent_ns": 5 * S},
        ),
        ("a/1", "flow", flow(measured_delivered=15, measured_bytes=150, last_received_ns=3 * S)),
    )
    rows = throughput_table(partials, runs=runs_from(spark, {"run_id": "a/1"})).collect()

    assert {row.window: (row.seconds, row.published_per_s, row.delivered_per_s) for row in rows} == {
        "send": (3.0, 10.0, 5.0),
        "delivery": (3.0, 10.0, 5.0),
    }
    assert {row.window: row.payload_bytes_per_s for row in rows} == {"send": 100.0, "delivery": 50.0}


def test_late_arrivals_make_the_delivery_window_longer(spark):
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"measured": 20, "last_sent_ns": 4 * S - 1}),
        ("a/1", "flow", flow(measured_delivered=20, last_received_ns=7 * S)),
    )
    rows = throughput_table(partials, runs=runs_from(spark, {"run_id": "a/1", "qos": 0})).collect()

    assert {row.window: (row.seconds, row.acknowledged) for row in rows} == {
        "send": (2.0, None),
        "delivery": (5.0, None),
    }


def test_a_run_without_a_measure_phase_has_no_rates_and_no_latency(spark):
    runs = runs_from(spark, {"run_id": "a/1", "measure_start_ns": None, "measure_end_ns": None})
    partials = partials_from(spark, ("a/1", "publisher", {"published": 3, "measured": 0}))

    assert throughput_table(partials, runs=runs).collect() == []
    assert latency_table(partials, runs=runs).collect() == []


def test_idle_traffic_is_taken_off_each_interface(spark):
    """B-12, B-21: 8 kbit/s without a client, 24 kbit/s with messages; an interface without such a phase has no such."""

    def inbound(interface, phase, rx_bytes):
        content = {"node": "router1", "interface": interface, "phase": phase, "seconds": 2.0, "rx_bytes": rx_bytes}
        return ("a/1", "inbound", content | {"rx_packets": 1.0, "rx_dropped": 0.0})

    partials = partials_from(
        spark, inbound("site2", "idle", 2000.0), inbound("site2", "measure", 6000.0), inbound("site3", "measure", 500.0)
    )
    made = overhead_table(partials, runs=runs_from(spark, {"run_id": "a/1"})).collect()

    assert {(row.interface, row.phase): (row.bits_per_s, row.above_idle_bits_per_s) for row in made} == {
        ("site2", "idle"): (8000.0, None),
        ("site2", "measure"): (24_000.0, 16_000.0),
        ("site3", "measure"): (2000.0, None),
    }


def usage(node, process, **more):
    known = {"seconds": 2.0, "cpu_ns": 0.0, "rss_mean_bytes": 0.0, "rss_max_bytes": 0}
    return ("a/1", "usage", {"node": node, "process": process, "phase": "measure", **known, **more})


def test_one_node_of_several_has_no_projected_rate(spark):
    """Half of the CPU at each of two nodes: what either would carry alone is not known."""
    partials = partials_from(
        spark,
        usage("broker/0", 1, cpu_ns=1.0 * S),
        usage("broker/1", 2, cpu_ns=1.0 * S),
        ("a/1", "flow", flow(measured_delivered=100)),
    )
    runs = runs_from(spark, {"run_id": "a/1"})
    made = resources_table(partials, runs=runs, throughput=throughput_table(partials, runs=runs)).collect()

    assert [(row.cpu_percent, row.projected_per_s) for row in made] == [(50.0, None)] * 2
    assert sum(row.cpu_us_per_delivery for row in made) == pytest.approx(20_000)


def test_processes_of_a_node_add_up_and_unknown_bytes_stay_unknown(spark):
    partials = partials_from(
        spark,
        usage("broker/0", 1, cpu_ns=1.0 * S, rss_max_bytes=2**20, read_bytes=10.0, written_bytes=1.0, threads_max=3),
        usage("broker/0", 2, cpu_ns=0.8 * S, rss_max_bytes=2**20, read_bytes=None, written_bytes=2.0, threads_max=4),
        usage("subscribers/0", 3, cpu_ns=0.0),
        ("a/1", "flow", flow(measured_delivered=100)),
    )
    runs = runs_from(spark, {"run_id": "a/1"})
    made = resources_table(partials, runs=runs, throughput=throughput_table(partials, runs=runs))
    rows = {row.node: row for row in made.collect()}

    broker, idle = rows["broker/0"], rows["subscribers/0"]
    assert (broker.cpu_s, broker.cpu_percent, broker.rss_max_mib) == (1.8, 90.0, 2.0)
    assert (broker.read_bytes, broker.written_bytes) == (None, 3)
    assert (broker.threads_max, broker.open_files_max) == (7, None)
    assert broker.projected_per_s == pytest.approx(50 / 0.9)
    assert broker.projection_is_extrapolation is False
    assert (idle.cpu_us_per_delivery, idle.deliveries_per_core_s, idle.projected_per_s) == (0.0, None, None)


def test_quantiles_agree_with_stats_on_many_values(spark):
    """Two halves of a histogram, merged by Spark, against the same histogram in one piece."""
    ns = pa.array([(seq * 7919) % 1009 * 1000 - 2000 for seq in range(5000)]).to_numpy()
    halves = [bucket_counts(ns[:2000]), bucket_counts(ns[2000:])]
    rows = [("a/1", "bucket", bucket_row(at, half[at])) for half in halves for at in half.nonzero()[0]]
    moments = {"kind": "sent", "group": "all", "n": 5000, "min_ns": int(ns.min()), "max_ns": int(ns.max())}
    sums = {"sum_ns": float(ns.sum()), "sum_of_squares_ns2": float((ns * ns).sum())}
    partials = partials_from(spark, *rows, ("a/1", "moments", {**moments, **sums}))
    made = {row.kind: row for row in latency_table(partials, runs=runs_from(spark, {"run_id": "a/1"})).collect()}

    counts = halves[0] + halves[1]
    filled = counts.nonzero()[0]
    for name, parts in QUANTILES.items():
        expected_ns = histogram_quantile(
            filled + NEGATIVE_BUCKET, counts[filled], quantile=parts / 10_000, min_ns=-2000, max_ns=int(ns.max())
        )
        assert made["sent"][name] == pytest.approx(expected_ns / MS, rel=1e-12)
    assert made["sent"].sd_ms == pytest.approx(ns.std(ddof=1) / MS, rel=1e-9)
    assert made["intended"].n == 0


def bucket_row(at, n):
    bucket = pa.array([int(at) + NEGATIVE_BUCKET]).to_numpy()
    low, high = bucket_bounds(bucket)
    is_negative = bucket[0] == NEGATIVE_BUCKET
    bounds = {"low_ns": None if is_negative else int(low[0]), "high_ns": int(high[0])}
    return {"kind": "sent", "group": "all", "bucket": int(bucket[0]), **bounds, "n": int(n)}


def test_energy_of_a_delivery_is_known_where_the_machine_counts_it(example):
    """F-16: 0.7 J for seven deliveries of the first run; null without a counter, never zero."""
    partials, runs = example
    counted = throughput_table(partials, runs=runs.withColumn("energy_j", F.lit(0.7)))
    rows = {(row.run_id, row.window): row for row in counted.collect()}
    first = min(run for run, _ in rows)

    assert rows[first, "delivery"].delivered == 7
    assert rows[first, "delivery"].millijoules_per_delivery == pytest.approx(100.0)
    assert rows[first, "send"].millijoules_per_delivery is None
    assert {row.millijoules_per_delivery for row in throughput_table(partials, runs=runs).collect()} == {None}


@pytest.mark.parametrize(
    ("is_scalable", "system_percent", "projected", "is_extrapolation"),
    [(True, 90.0, 350 / 90, False), (True, 40.0, 350 / 40, True), (True, None, None, None)],
)
def test_projection_takes_the_cpu_that_limits_the_broker(
    example, is_scalable, system_percent, projected, is_extrapolation
):
    """3.5/s at a quarter of a core: a broker with one thread is in the example, one that scales has the machine's."""
    partials, runs = example
    machine = F.lit(system_percent).cast("double")
    changed = runs.withColumns({"is_scalable": F.lit(is_scalable), "system_cpu_percent": machine})
    used = resources_table(partials, runs=changed, throughput=throughput_table(partials, runs=runs))

    (row,) = used.where((F.col("node") == "broker/0") & (F.col("phase") == "measure")).collect()
    assert row.projected_per_s == (None if projected is None else pytest.approx(projected))
    assert row.projection_is_extrapolation is is_extrapolation
