"""Every table from literal partial results: its schema, its grain, and the same answer however the rows lie."""

import pyarrow as pa
import pytest
from pipeline_example import write_example
from pipeline_runs import MS, S, new_study
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from brokerlab.pipeline.families import FAMILIES
from brokerlab.pipeline.manifests import manifests_table, read_runs
from brokerlab.pipeline.reduce.work import pieces_of, reduce_work
from brokerlab.pipeline.schemas import GRAIN, MANIFESTS, PARTIALS, TABLES
from brokerlab.pipeline.transforms.cells import METRICS, cells_table, run_values
from brokerlab.pipeline.transforms.counters import counters_table
from brokerlab.pipeline.transforms.delivery import delivery_table
from brokerlab.pipeline.transforms.jitter import jitter_table
from brokerlab.pipeline.transforms.latency import QUANTILES, histogram_table, latency_table
from brokerlab.pipeline.transforms.runs import runs_table
from brokerlab.pipeline.transforms.sessions import sessions_table
from brokerlab.pipeline.transforms.subscribers import subscribers_table
from brokerlab.pipeline.transforms.throughput import throughput_table
from brokerlab.pipeline.transforms.timeline import timeline_table
from brokerlab.pipeline.transforms.usage import resources_table
from brokerlab.stats.histogram import NEGATIVE_BUCKET, bucket_bounds, bucket_counts, histogram_quantile
from brokerlab.stats.interval import mean_interval, t_factor

pytestmark = pytest.mark.pipeline

T_FACTORS = {n: t_factor(n) for n in range(2, 6)}


MAKE = {
    "runs": lambda partials, runs: runs_table(runs, partials=partials),
    "delivery": lambda partials, runs: delivery_table(partials, runs=runs),
    "latency": lambda partials, runs: latency_table(partials, runs=runs),
    "histogram": lambda partials, runs: histogram_table(partials, runs=runs),
    "throughput": lambda partials, runs: throughput_table(partials, runs=runs),
    "timeline": lambda partials, runs: timeline_table(partials, runs=runs),
    "jitter": lambda partials, runs: jitter_table(partials, runs=runs),
    "subscribers": lambda partials, runs: subscribers_table(partials, runs=runs),
    "sessions": lambda partials, runs: sessions_table(partials, runs=runs),
    "resources": lambda partials, runs: resources_table(
        partials, runs=runs, throughput=throughput_table(partials, runs=runs)
    ),
    "counters": lambda partials, runs: counters_table(partials, runs=runs),
}
NAMES = pytest.mark.parametrize("name", list(MAKE))


@pytest.fixture(scope="module")
def example(tmp_path_factory, spark):
    """Partials and runs of the study that can be counted on paper."""
    study = new_study(tmp_path_factory.mktemp("transforms"))
    write_example(study)
    facts, _ = read_runs(study)
    batches = [batch for run in facts for work in pieces_of(run) for batch in reduce_work(work)]
    partials = spark.createDataFrame(pa.Table.from_batches(batches), schema=PARTIALS)
    return partials, spark.createDataFrame(manifests_table(facts), schema=MANIFESTS)


def partials_from(spark, *rows):
    """Rows as (run, family, columns); columns that are not given are null."""
    empty = dict.fromkeys(FAMILIES)
    content = [
        {"run_id": run, **empty, family: {**dict.fromkeys(FAMILIES[family].names), **columns}}
        for run, family, columns in rows
    ]
    return spark.createDataFrame(content, PARTIALS)


def runs_from(spark, *rows):
    defaults = {
        **dict.fromkeys(MANIFESTS.names),
        **{"cell": "c", "verdict": "valid", "reasons": [], "qos": 1, "is_cut_off": False, "other_publications": 0},
        **{"measure_start_ns": 2 * S, "measure_end_ns": 4 * S, "levels": {}, "counters": []},
    }
    asked = ({"qos_asked": row.get("qos", defaults["qos"])} for row in rows)
    return spark.createDataFrame([{**defaults, **own, **row} for own, row in zip(asked, rows, strict=True)], MANIFESTS)


@NAMES
def test_schema_is_the_declared_one(example, name):
    assertSchemaEqual(MAKE[name](*example).schema, TABLES[name])


@NAMES
def test_grain_is_unique_and_known(example, name):
    rows = MAKE[name](*example).select(*GRAIN[name]).collect()

    assert len(rows) == len(set(rows)) > 0
    assert all(part is not None for row in rows for part in row)


@NAMES
def test_reordered_and_repartitioned_input_gives_the_same(example, name):
    partials, runs = example
    shuffled = partials.repartition(5, F.hash("run_id", "bucket.bucket")).sortWithinPartitions(F.desc("run_id"))

    assertDataFrameEqual(MAKE[name](shuffled, runs.repartition(3)), MAKE[name](partials, runs))


@NAMES
def test_no_input_no_rows(spark, name):
    made = MAKE[name](spark.createDataFrame([], PARTIALS), spark.createDataFrame([], MANIFESTS))

    assert made.collect() == []
    assertSchemaEqual(made.schema, TABLES[name])


@NAMES
def test_partials_of_runs_that_cannot_be_read_are_left_out(spark, example, name):
    """Their manifests are not among the runs."""
    partials, _ = example

    assert MAKE[name](partials, spark.createDataFrame([], MANIFESTS)).collect() == []


def test_one_damaged_file_told_twice_is_one_reason(spark):
    damage = ("a/1", "problem", {"reason": "deliveries/x cannot be read"})
    runs = runs_from(spark, {"run_id": "a/1"}, {"run_id": "a/2"})

    made = runs_table(runs, partials=partials_from(spark, damage, damage)).orderBy("run_id").collect()

    assert [(row.verdict, row.reasons) for row in made] == [("invalid", ["deliveries/x cannot be read"]), ("valid", [])]


def flow(**counts):
    zero = dict.fromkeys(FAMILIES["flow"].names, 0)
    return {**zero, "qos_granted": 1, "last_received_ns": None, **counts}


@pytest.mark.parametrize(
    ("qos", "acknowledged", "delivered", "lost_after", "verdict"),
    [(0, 0, 5, None, "unknown"), (1, 5, 5, 0, "kept"), (1, 5, 3, 2, "broken"), (1, 4, 3, None, "unknown")],
)
def test_by_order_what_cannot_be_told_is_null(spark, qos, acknowledged, delivered, lost_after, verdict):
    """Where everything was acknowledged the lost ones were too; where not, nobody knows which were lost."""
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": acknowledged}),
        ("a/1", "expected", {"qos_granted": qos, "pairs": 5, "acknowledged_pairs": acknowledged}),
        ("a/1", "flow", flow(subscriber=0, delivered=delivered, acknowledged_delivered=3) | {"qos_granted": qos}),
    )
    about = {"run_id": "a/1", "qos": qos, "identity": "order"}

    (row,) = delivery_table(partials, runs=runs_from(spark, about)).collect()

    assert (row.delivered, row.lost, row.unexpected) == (delivered, 5 - delivered, 0)
    assert (row.duplicated, row.duplicated_flagged, row.reordered) == (None, None, None)
    assert (row.acknowledged_lost, row.verdict, row.identity) == (lost_after, verdict, "order")
    assert row.late == (0 if delivered == 5 else None)


def test_answers_are_judged_by_the_qos_that_they_were_asked_with(spark):
    """Published with QoS 2 and acknowledged; the answers were asked for with QoS 0, which may lose some."""
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": 0, "pairs": 5, "acknowledged_pairs": 5}),
        ("a/1", "flow", flow(subscriber=0, delivered=4, acknowledged_delivered=4, qos_granted=0)),
    )
    (row,) = delivery_table(partials, runs=runs_from(spark, {"run_id": "a/1", "qos": 2, "qos_asked": 0})).collect()

    assert (row.qos_asked, row.qos_granted, row.contract, row.verdict) == (0, 0, "at most once", "kept")
    assert (row.acknowledged, row.acknowledged_lost) == (5, 1)


def test_flows_of_several_workers_add_up(spark):
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "publisher", {"publisher": 1, "published": 5, "acknowledged": 4}),
        ("a/1", "expected", {"qos_granted": 1, "pairs": 20, "acknowledged_pairs": 18}),
        ("a/1", "flow", flow(subscriber=0, delivered=9, acknowledged_delivered=9, duplicated=1)),
        ("a/1", "flow", flow(subscriber=1, delivered=8, acknowledged_delivered=8, reordered=2)),
        ("a/1", "unexpected", {"subscriber": 7, "qos_granted": None, "arrivals": 3}),
    )
    rows = delivery_table(partials, runs=runs_from(spark, {"run_id": "a/1"})).orderBy("qos_granted").collect()

    names = (
        "qos_granted",
        "published",
        "acknowledged",
        "expected",
        "delivered",
        "lost",
        "acknowledged_lost",
        "unexpected",
    )
    assert [tuple(row[name] for name in names) for row in rows] == [
        (None, 10, 9, 0, 0, 0, 0, 3),
        (1, 10, 9, 20, 17, 3, 1, 0),
    ]
    assert [row.failure_percent for row in rows] == [None, 15.0]
    assert [row.verdict for row in rows] == ["unknown", "broken"]


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


def usage(node, process, **more):
    known = {"seconds": 2.0, "cpu_ns": 0.0, "rss_mean_bytes": 0.0, "rss_max_bytes": 0}
    return ("a/1", "usage", {"node": node, "process": process, "phase": "measure", **known, **more})


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


def counted(spark, count, value, *partials, **more):
    """The row of one counter of a run that published 10 messages of 64 bytes to two subscribers, who got 17."""
    run = {"other_publications": 3, "proof_publications": 1, "other_bytes": 8, "payload_bytes": 64}
    claim = {"name": "n", "count": count, "has_proof": True, "has_sys": False, "why_not": None, "note": None}
    runs = runs_from(spark, {"run_id": "a/1", "counters": [claim | more], **run})
    told = {"node": "broker/0", "name": "n", "value": value, "told_before": 30}
    frame = partials_from(
        spark,
        ("a/1", "publisher", {"published": 10, "published_bytes": 640}),
        ("a/1", "expected", {"qos_granted": 1, "pairs": 20}),
        ("a/1", "flow", flow(subscriber=0, arrivals=10, delivered=9)),
        ("a/1", "flow", flow(subscriber=1, arrivals=8, delivered=8, stale=1)),
        ("a/1", "unexpected", {"subscriber": 1, "qos_granted": 1, "arrivals": 1}),
        *([] if value is None else [("a/1", "counter", told)]),
        *partials,
    )
    (row,) = counters_table(frame, runs=runs).collect()
    return row


@pytest.mark.parametrize(
    ("count", "value", "more", "expected"),
    [
        ("received", 13.0, {}, (13.0, 0.0, "equal")),
        ("received", 12.0, {"has_proof": False}, (12.0, 0.0, "equal")),
        ("received", 10.0, {}, (13.0, -3.0, "differs")),
        ("received_bytes", 648.0, {}, (648.0, 0.0, "equal")),
        ("sent", 21.0, {}, (21.0, 0.0, "equal")),
        ("sent", 51.0, {"has_sys": True}, (51.0, 0.0, "equal")),
        ("sent_bytes", 1280.0, {}, (1280.0, 0.0, "equal")),
        ("dropped", 3.0, {}, (3.0, 0.0, "equal")),
        ("dropped", 0.0, {}, (3.0, -3.0, "differs")),
        ("queued", 5.0, {"why_not": "no count"}, (None, None, "not comparable")),
    ],
)
def test_a_counter_is_held_against_the_ledger(spark, count, value, more, expected):
    row = counted(spark, count, value, **more)

    assert (row.our_value, row.difference, row.verdict) == expected
    assert row.broker_value == value
    assert row.why == more.get("why_not")


def test_a_counter_that_was_never_told_is_in_the_table(spark):
    row = counted(spark, "received", None)

    assert (row.node, row.broker_value, row.verdict) == ("broker/0", None, "not comparable")
    assert row.why == "the broker did not tell it"


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


def test_interval_of_a_cell_agrees_with_stats(spark):
    values = {"a/1": 3.0, "a/2": 4.5, "a/3": 9.0, "a/4": None, "a/5": 100.0}
    verdicts = {run: "invalid" if run == "a/5" else "valid" for run in values}
    frame = spark.createDataFrame(
        [(run, "latency.p99", value) for run, value in values.items()], "run_id string, metric string, value double"
    )
    runs = runs_from(spark, *({"run_id": run, "verdict": verdict} for run, verdict in verdicts.items()))

    made = cells_table(frame, runs=runs, t_factors=T_FACTORS, confidence_percent=95).collect()
    cell = next(row for row in made if row.metric == "latency.p99")
    expected = mean_interval([3.0, 4.5, 9.0])

    assert [row.metric for row in made if row.n] == ["latency.p99"]
    assert len(made) == len(METRICS)
    assert (cell.n, cell.invalid_runs, cell.confidence_percent) == (3, 1, 95.0)
    assert (cell.mean, cell.low, cell.high, cell.sd) == pytest.approx(
        (expected.mean, expected.low, expected.high, expected.sd), rel=1e-12
    )


def test_cells_have_their_schema_and_grain_and_do_not_depend_on_the_order_of_rows(spark):
    values = spark.createDataFrame(
        [(f"{cell}/{n}", metric, float(n * n)) for cell in "ab" for n in (1, 2, 3) for metric in METRICS],
        "run_id string, metric string, value double",
    )
    runs = runs_from(spark, *({"run_id": f"{cell}/{n}", "cell": cell} for cell in "ab" for n in (1, 2, 3)))
    made = cells_table(values, runs=runs, t_factors=T_FACTORS, confidence_percent=95)
    again = cells_table(values.repartition(3), runs=runs.repartition(2), t_factors=T_FACTORS, confidence_percent=95)
    keys = made.select(*GRAIN["cells"]).collect()

    assertSchemaEqual(made.schema, TABLES["cells"])
    assertDataFrameEqual(again, made)
    assert len(keys) == len(set(keys)) == 2 * len(METRICS)


def test_cells_of_nothing(spark):
    values = spark.createDataFrame([], "run_id string, metric string, value double")
    runs = spark.createDataFrame([], MANIFESTS)

    assert cells_table(values, runs=runs, t_factors={}, confidence_percent=95).collect() == []


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


def test_run_values_take_each_metric_from_its_table(example):
    """The ten messages, and a run whose broker was not sampled."""
    partials, runs = example
    throughput = throughput_table(partials, runs=runs)
    values = run_values(
        latency=latency_table(partials, runs=runs),
        delivery=delivery_table(partials, runs=runs),
        throughput=throughput,
        jitter=jitter_table(partials, runs=runs),
        resources=resources_table(partials, runs=runs, throughput=throughput),
        runs=runs,
    )
    of = {(row.run_id, row.metric): row.value for row in values.collect()}

    ten = {metric: of["broker-amqtt.qos-1/1", metric] for metric in METRICS}
    assert ten["latency.max"] == 110.0
    assert (ten["delivery.failure_percent"], ten["delivery.duplicated"]) == (20.0, 2.0)
    assert (ten["throughput.published_per_s"], ten["throughput.delivered_per_s"]) == (4.5, 3.5)
    assert (ten["resources.broker_cpu_percent"], ten["resources.broker_rss_max_mib"]) == (25.0, 70.0)
    assert ("broker-nats.qos-0/1", "resources.broker_cpu_percent") not in of
