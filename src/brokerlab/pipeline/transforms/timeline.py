"""Runs second by second."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import accumulated, known, quantile_ms
from brokerlab.pipeline.origin import ACKNOWLEDGED, DELIVERED, PUBLISHED
from brokerlab.pipeline.schemas.timeline import TIMELINE
from brokerlab.pipeline.transforms import Analysis, family

_KEY = ("run_id", "second", "kind")


def make(analysis: Analysis) -> DataFrame:
    return timeline_table(analysis.partials, runs=analysis.runs)


def timeline_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run and second, from the start of its warm-up to the end of its drain."""
    about = runs.select("run_id", "cell", "qos", "unknown")
    ticks = family(partials, "tick")
    seconds = family(partials, "second").join(about, on="run_id", how="inner")
    seen = _counts(ticks).join(_quantiles(ticks), on=["run_id", "second"], how="left")
    counts = {name: F.coalesce(name, F.lit(0)) for name in ("published", "acknowledged", "delivered")}
    return (
        seconds.join(seen, on=["run_id", "second"], how="left")
        .withColumns(
            {
                **counts,
                "published": known(PUBLISHED, counts["published"]),
                "delivered": known(DELIVERED, counts["delivered"]),
                "acknowledged": F.when(F.col("qos") > 0, known(ACKNOWLEDGED, counts["acknowledged"])),
            }
        )
        .to(TIMELINE)
    )


def _counts(ticks: DataFrame) -> DataFrame:
    """One row per run and second in which something happened."""
    return ticks.groupBy("run_id", "second").agg(
        *(
            F.sum(F.when(F.col("kind") == kind, F.col("n"))).alias(name)
            for name, kind in (("published", "lag"), ("acknowledged", "acknowledged"), ("delivered", "latency"))
        )
    )


def _quantiles(ticks: DataFrame) -> DataFrame:
    """One row per run and second."""
    is_latency, is_lag = F.col("kind") == "latency", F.col("kind") == "lag"
    return (
        accumulated(ticks, _KEY)
        .groupBy("run_id", "second")
        .agg(
            quantile_ms(5000, of=is_latency).alias("latency_p50_ms"),
            quantile_ms(9900, of=is_latency).alias("latency_p99_ms"),
            quantile_ms(9900, of=is_lag).alias("schedule_lag_p99_ms"),
        )
    )
