"""Runs second by second."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import bucket_middle, ms, reaches
from brokerlab.pipeline.schemas import TIMELINE
from brokerlab.pipeline.transforms import family

_KEY = ("run_id", "second", "kind")


def timeline_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run and second, from the start of its warm-up to the end of its drain."""
    about = runs.select("run_id", "cell", "qos")
    ticks = family(partials, "tick")
    seconds = family(partials, "second").join(about, on="run_id", how="inner")
    seen = _counts(ticks).join(_quantiles(ticks), on=["run_id", "second"], how="left")
    counts = {name: F.coalesce(name, F.lit(0)) for name in ("published", "acknowledged", "delivered")}
    return (
        seconds.join(seen, on=["run_id", "second"], how="left")
        .withColumns({**counts, "acknowledged": F.when(F.col("qos") > 0, counts["acknowledged"])})
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
    """One row per run and second: the middle of the first bucket that reaches each quantile's rank."""
    up_to_here = W.partitionBy(*_KEY).orderBy("bucket").rowsBetween(W.unboundedPreceding, W.currentRow)
    whole = W.partitionBy(*_KEY)
    cumulative = (
        ticks.select(*_KEY, "min_ns", "max_ns", F.inline("buckets").alias("bucket", "low_ns", "high_ns", "in_bucket"))
        .groupBy(*_KEY, "bucket", "low_ns", "high_ns")
        .agg(F.sum("in_bucket").alias("in_bucket"), F.min("min_ns").alias("min_ns"), F.max("max_ns").alias("max_ns"))
        .withColumns(
            {
                "cumulative": F.sum("in_bucket").over(up_to_here),
                "n": F.sum("in_bucket").over(whole),
                "least_ns": F.min("min_ns").over(whole),
                "most_ns": F.max("max_ns").over(whole),
            }
        )
    )
    return cumulative.groupBy("run_id", "second").agg(
        _quantile("latency", parts_of_10000=5000).alias("latency_p50_ms"),
        _quantile("latency", parts_of_10000=9900).alias("latency_p99_ms"),
        _quantile("lag", parts_of_10000=9900).alias("schedule_lag_p99_ms"),
    )


def _quantile(kind: str, *, parts_of_10000: int) -> Column:
    is_reached = (F.col("kind") == kind) & reaches("cumulative", "n", parts_of_10000=parts_of_10000)
    return F.min(F.when(is_reached, ms(bucket_middle("least_ns", "most_ns"))))
