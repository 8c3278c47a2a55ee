"""What each run came to, one number a metric: all that cells, comparisons and effects are made of."""

from collections.abc import Mapping
from functools import reduce
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import mean_if_all, share
from brokerlab.pipeline.reduce.groups import EARLIEST
from brokerlab.pipeline.schemas.values import VALUES
from brokerlab.pipeline.transforms import Analysis
from brokerlab.pipeline.transforms.resources import is_broker

_LATENCY = {
    "latency.mean": "mean_ms",
    "latency.p50": "p50_ms",
    "latency.p95": "p95_ms",
    "latency.p99": "p99_ms",
    "latency.p99_9": "p99_9_ms",
    "latency.max": "max_ms",
}


def make(analysis: Analysis) -> DataFrame:
    tables = analysis.tables
    measured = [
        _latency(tables["latency"]),
        _delivery(tables["delivery"]),
        *_throughput(tables["throughput"]),
        _jitter(tables["jitter"]),
        _long(tables["runs"], {"capacity.rate_per_s": F.col("capacity_per_s")}),
        _resources(tables["resources"]),
    ]
    return reduce(DataFrame.unionByName, measured).where(F.col("value").isNotNull()).to(VALUES)


def _latency(latency: DataFrame) -> DataFrame:
    """The resolution of a value is what it would be less if every message had come as early as it may have."""
    own = latency.where(F.col("group") == "all")
    earliest = own.where(F.col("kind") == EARLIEST).select(
        "run_id", F.col("n").alias("told"), *(F.col(name).alias(f"earliest_{name}") for name in _LATENCY.values())
    )
    both = own.where(F.col("kind") == "intended").join(earliest, on="run_id", how="left")
    is_told = F.col("told") == F.col("n")  # of every message
    resolutions = {
        name: F.when(is_told, F.greatest(F.col(column) - F.col(f"earliest_{column}"), F.lit(0.0)))
        for name, column in _LATENCY.items()
    }
    return _long(both, {name: F.col(column) for name, column in _LATENCY.items()}, resolutions)


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
    names = {"jitter.interarrival_sd": "interarrival_sd_ms", "jitter.rfc3550": "rfc3550_ms"}
    resolution = mean_if_all("resolution_mean_ms", where=F.col("n") > 0)
    by_run = jitter.groupBy("run_id").agg(
        *(F.avg(name).alias(name) for name in names.values()), resolution.alias("resolution")
    )
    columns = {name: F.col(column) for name, column in names.items()}
    return _long(by_run, columns, dict.fromkeys(names, F.col("resolution")))


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


def _long(
    wide: DataFrame, metrics: Mapping[str, Column], resolutions: Mapping[str, Column] = MappingProxyType({})
) -> DataFrame:
    """One row per run and metric of a frame with one row per run."""
    none = F.lit(None).cast("double")
    rows = [
        F.struct(F.lit(name).alias("metric"), value.alias("value"), resolutions.get(name, none).alias("resolution"))
        for name, value in metrics.items()
    ]
    return wide.select("run_id", F.inline(F.array(*rows)))
