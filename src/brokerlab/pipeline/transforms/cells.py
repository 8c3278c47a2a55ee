"""Metrics of cells: the mean over valid runs, with Student's t interval."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import share
from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.schemas.cells import CELLS
from brokerlab.pipeline.transforms import Analysis
from brokerlab.pipeline.transforms.resources import is_broker
from brokerlab.stats.interval import t_factor

_LATENCY = {
    "latency.mean": "mean_ms",
    "latency.p50": "p50_ms",
    "latency.p95": "p95_ms",
    "latency.p99": "p99_ms",
    "latency.p99_9": "p99_9_ms",
    "latency.max": "max_ms",
}


def make(analysis: Analysis) -> DataFrame:
    confidence_percent = analysis.confidence_percent
    factors = {n: t_factor(n, confidence_percent=confidence_percent) for n in range(2, analysis.most_runs + 1)}
    return cells_table(
        run_values(analysis.tables),
        runs=analysis.tables["runs"],
        t_factors=factors,
        confidence_percent=confidence_percent,
    )


def cells_table(
    values: DataFrame, *, runs: DataFrame, t_factors: Mapping[int, float], confidence_percent: float
) -> DataFrame:
    """One row per cell and metric, also where no run of the cell is valid; `runs` is the finished table.

    `t_factors` gives the half width of the interval in standard deviations, by the number of runs.
    """
    valid = runs.where(F.col("verdict") == "valid").select("run_id", "cell")
    half_width = F.col("sd") * _by_number(t_factors, F.col("n"))
    spread = (
        values.where(F.col("value").isNotNull())
        .join(valid, on="run_id", how="inner")
        .groupBy("cell", "metric")
        .agg(
            F.count("value").cast("int").alias("n"),
            F.avg("value").alias("mean"),
            F.stddev_samp("value").alias("sd"),
            F.min("value").alias("min"),
            F.max("value").alias("max"),
        )
    )
    return (
        _grid(runs)
        .join(spread, on=["cell", "metric"], how="left")
        .withColumns(
            {
                "n": F.coalesce("n", F.lit(0)),
                "low": F.col("mean") - half_width,
                "high": F.col("mean") + half_width,
                "confidence_percent": F.lit(float(confidence_percent)),
            }
        )
        .to(CELLS)
    )


def run_values(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run and metric, from the finished tables."""
    measured = [
        _latency(tables["latency"]),
        _delivery(tables["delivery"]),
        *_throughput(tables["throughput"]),
        _jitter(tables["jitter"]),
        _long(tables["runs"], {"capacity.rate_per_s": F.col("capacity_per_s")}),
        _resources(tables["resources"]),
    ]
    return reduce(DataFrame.unionByName, measured)


def _grid(runs: DataFrame) -> DataFrame:
    """One row per cell and metric."""
    metrics = F.array(
        *(F.struct(F.lit(name).alias("metric"), F.lit(unit).alias("unit")) for name, unit in UNITS.items())
    )
    about = runs.groupBy("cell").agg(
        *(F.min_by(name, "run_id").alias(name) for name in ("broker", "qos", "levels")),
        F.count_if(F.col("verdict") != "valid").cast("int").alias("invalid_runs"),
    )
    return about.select("*", F.inline(metrics))


def _latency(latency: DataFrame) -> DataFrame:
    chosen = latency.where((F.col("kind") == "intended") & (F.col("group") == "all"))
    return _long(chosen, {name: F.col(column) for name, column in _LATENCY.items()})


def _delivery(delivery: DataFrame) -> DataFrame:
    by_run = delivery.groupBy("run_id").agg(*(F.sum(name).alias(name) for name in ("lost", "expected", "duplicated")))
    return _long(
        by_run,
        {
            "delivery.failure_percent": 100 * share(F.col("lost"), F.col("expected")),
            "delivery.duplicated": F.col("duplicated").cast("double"),
        },
    )


def _throughput(throughput: DataFrame) -> list[DataFrame]:
    sent, arrived = (throughput.where(F.col("window") == window) for window in ("send", "delivery"))
    return [
        _long(sent, {"throughput.published_per_s": F.col("published_per_s")}),
        _long(arrived, {"throughput.delivered_per_s": F.col("delivered_per_s")}),
    ]


def _jitter(jitter: DataFrame) -> DataFrame:
    """The mean over the flows of a run; a flow with too few arrivals is not in it."""
    by_run = jitter.groupBy("run_id").agg(*(F.avg(name).alias(name) for name in ("interarrival_sd_ms", "rfc3550_ms")))
    return _long(
        by_run,
        {"jitter.interarrival_sd": F.col("interarrival_sd_ms"), "jitter.rfc3550": F.col("rfc3550_ms")},
    )


def _resources(resources: DataFrame) -> DataFrame:
    by_run = (
        resources.where((F.col("phase") == "measure") & is_broker())
        .groupBy("run_id")
        .agg(
            *(F.sum(name).alias(name) for name in ("cpu_percent", "rss_max_mib", "cpu_us_per_delivery")),
            F.sum("rss_kib_per_connection").alias("rss_kib_per_connection"),
        )
    )
    return _long(
        by_run,
        {
            "resources.broker_cpu_percent": F.col("cpu_percent"),
            "resources.broker_rss_max_mib": F.col("rss_max_mib"),
            "resources.cpu_us_per_delivery": F.col("cpu_us_per_delivery"),
            # Of an ensemble of nodes: what they deliver over what all of them are busy.
            "resources.deliveries_per_core_s": share(F.lit(1e6), F.col("cpu_us_per_delivery")),
            "resources.kib_per_connection": F.col("rss_kib_per_connection"),
        },
    )


def _long(wide: DataFrame, metrics: Mapping[str, Column]) -> DataFrame:
    """One row per run and metric of a frame with one row per run."""
    pairs = [F.struct(F.lit(name).alias("metric"), value.alias("value")) for name, value in metrics.items()]
    return wide.select("run_id", F.inline(F.array(*pairs)))


def _by_number(factors: Mapping[int, float], n: Column) -> Column:
    """The factor of n; null where there is none, as for a single run."""
    entries = [F.lit(part) for entry in {-1: 0.0, **factors}.items() for part in entry]  # a map needs an entry
    return F.try_element_at(F.create_map(*entries), n)
