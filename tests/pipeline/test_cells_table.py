"""Metrics of cells from the values of runs."""

import pytest
from pipeline_frames import made_of, runs_from
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from brokerlab.pipeline.metrics import UNITS as METRICS
from brokerlab.pipeline.schemas import TABLES
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.transforms.cells import cells_table
from brokerlab.stats.interval import mean_interval, t_factor

pytestmark = pytest.mark.pipeline

VALUES = "run_id string, metric string, value double, resolution double"
T_FACTORS = {n: t_factor(n) for n in range(2, 6)}


def test_interval_of_a_cell_agrees_with_stats(spark):
    values = {"a/1": 3.0, "a/2": 4.5, "a/3": 9.0, "a/4": None, "a/5": 100.0}
    verdicts = {run: "invalid" if run == "a/5" else "valid" for run in values}
    resolutions = {"a/1": 0.5, "a/2": 1.0, "a/3": 0.0, "a/4": None, "a/5": 9.0}
    rows = [(run, "latency.p99", value, resolutions[run]) for run, value in values.items()]
    rows += [(run, "latency.p50", 1.0, None if run == "a/2" else 0.5) for run in ("a/1", "a/2", "a/3")]
    frame = spark.createDataFrame(rows, VALUES)
    runs = runs_from(spark, *({"run_id": run, "verdict": verdict} for run, verdict in verdicts.items()))

    made = cells_table(frame, runs=runs, t_factors=T_FACTORS, confidence_percent=95).collect()
    cell, untold = (next(row for row in made if row.metric == name) for name in ("latency.p99", "latency.p50"))
    expected = mean_interval([3.0, 4.5, 9.0])

    assert {row.metric for row in made if row.n} == {"latency.p99", "latency.p50"}
    assert (cell.resolution, untold.mean, untold.resolution) == (0.5, 1.0, None)  # one that is not told is none of 0
    assert len(made) == len(METRICS)
    assert (cell.n, cell.invalid_runs, cell.confidence_percent) == (3, 1, 95.0)
    assert (cell.mean, cell.low, cell.high, cell.sd) == pytest.approx(
        (expected.mean, expected.low, expected.high, expected.sd), rel=1e-12
    )


def test_cells_have_their_schema_and_grain_and_do_not_depend_on_the_order_of_rows(spark):
    values = spark.createDataFrame(
        [(f"{cell}/{n}", metric, float(n * n), 0.5) for cell in "ab" for n in (1, 2, 3) for metric in METRICS], VALUES
    )
    runs = runs_from(spark, *({"run_id": f"{cell}/{n}", "cell": cell} for cell in "ab" for n in (1, 2, 3)))
    made = cells_table(values, runs=runs, t_factors=T_FACTORS, confidence_percent=95)
    again = cells_table(values.repartition(3), runs=runs.repartition(2), t_factors=T_FACTORS, confidence_percent=95)
    keys = made.select(*TABLES["cells"].grain).collect()

    assertSchemaEqual(made.schema, TABLES["cells"].columns)
    assertDataFrameEqual(again, made)
    assert len(keys) == len(set(keys)) == 2 * len(METRICS)


def test_cells_of_nothing(spark):
    values = spark.createDataFrame([], VALUES)
    runs = spark.createDataFrame([], MANIFESTS)

    assert cells_table(values, runs=runs, t_factors={}, confidence_percent=95).collect() == []


def test_values_take_each_metric_from_its_table(example):
    """The ten messages, and a run whose broker was not sampled."""
    of = {(row.run_id, row.metric): row.value for row in made_of("values", *example).collect()}

    ten = {metric: of.get(("broker-amqtt.qos-1/1", metric)) for metric in METRICS}
    assert ten["latency.max"] == 110.0
    assert (ten["delivery.failure_percent"], ten["delivery.duplicated"]) == (20.0, 2.0)
    assert (ten["throughput.published_per_s"], ten["throughput.delivered_per_s"]) == (4.5, 3.5)
    assert (ten["resources.broker_cpu_percent"], ten["resources.broker_rss_max_mib"]) == (25.0, 70.0)
    assert ("broker-nats.qos-0/1", "resources.broker_cpu_percent") not in of
