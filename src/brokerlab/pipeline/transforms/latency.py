"""Latency of first arrivals in the measure phase: histograms that merge, and what is read from them."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import bucket_middle, ms, reaches, sample_sd, share, total
from brokerlab.pipeline.schemas.latency import LATENCY
from brokerlab.pipeline.transforms import Analysis, family

KINDS = ("intended", "sent")
GROUPS = ("all",)  # that every run has; classes of payloads are those that arrived

# In parts of ten thousand, so that ranks are whole numbers.
QUANTILES = {"p50_ms": 5000, "p90_ms": 9000, "p95_ms": 9500, "p99_ms": 9900, "p99_9_ms": 9990, "p99_99_ms": 9999}

_KEY = ("run_id", "kind", "group")


def make(analysis: Analysis) -> DataFrame:
    return latency_table(analysis.partials, runs=analysis.runs)


def latency_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run that has a measure phase, kind and group; n is 0 where nothing arrived.

    What only some runs have (sizes, devices, a probe) has rows where there is something to say.
    """
    moments = _moments(partials)
    quantiles = _quantiles(family(partials, "bucket"), moments=moments)
    measured = moments.join(quantiles, on=list(_KEY), how="inner").select(
        *_KEY,
        "n",
        ms(share(F.col("sum_ns"), F.col("n"))).alias("mean_ms"),
        ms(sample_sd("n", "sum_ns", "sum_of_squares_ns2")).alias("sd_ms"),
        ms("min_ns").alias("min_ms"),
        *QUANTILES,
        ms("max_ns").alias("max_ms"),
        ms(share(F.col("resolution_sum_ns"), F.col("n"))).alias("resolution_mean_ms"),
        ms("resolution_max_ns").alias("resolution_max_ms"),
        "zero_count",
        "negative_count",
    )
    counts = {name: F.coalesce(name, F.lit(0)) for name in ("n", "zero_count", "negative_count")}
    grid = _grid(runs).join(measured, on=list(_KEY), how="left").withColumns(counts)
    is_other = ~(F.col("group").isin(*GROUPS) & F.col("kind").isin(*KINDS))
    return grid.unionByName(measured.where(is_other).join(runs.select("run_id", "cell"), on="run_id")).to(LATENCY)


def _grid(runs: DataFrame) -> DataFrame:
    """One row per run that has a measure phase, kind of times that its source tells, and group."""
    is_untold = F.array_contains(F.coalesce("unknown", F.array().cast("array<string>")), F.col("kind"))
    return (
        runs.where(F.col("measure_start_ns").isNotNull())
        .select("run_id", "cell", "unknown", _each(KINDS).alias("kind"))
        .where(~is_untold)
        .select("run_id", "cell", "kind", _each(GROUPS).alias("group"))
    )


def _each(names: tuple[str, ...]) -> Column:
    return F.explode(F.array(*(F.lit(name) for name in names)))


def _moments(partials: DataFrame) -> DataFrame:
    """One row per run, kind and group."""
    return (
        family(partials, "moments")
        .groupBy(*_KEY)
        .agg(
            total("n").alias("n"),
            F.sum("sum_ns").alias("sum_ns"),
            F.sum("sum_of_squares_ns2").alias("sum_of_squares_ns2"),
            F.min("min_ns").alias("min_ns"),
            F.max("max_ns").alias("max_ns"),
            _if_all("resolution_sum_ns", F.sum("resolution_sum_ns")).alias("resolution_sum_ns"),
            _if_all("resolution_max_ns", F.max("resolution_max_ns")).alias("resolution_max_ns"),
            total("zero_count").alias("zero_count"),
            total("negative_count").alias("negative_count"),
        )
    )


def _if_all(column: str, of: Column) -> Column:
    """An aggregate of a column that no worker left open; what one does not tell is not known of all."""
    return F.when(F.count_if(F.col(column).isNull()) == 0, of)


def _quantiles(buckets: DataFrame, *, moments: DataFrame) -> DataFrame:
    """One row per run, kind and group: the middle of the first bucket that reaches each quantile's rank."""
    up_to_here = W.partitionBy(*_KEY).orderBy("bucket").rowsBetween(W.unboundedPreceding, W.currentRow)
    merged = buckets.groupBy(*_KEY, "bucket", "low_ns", "high_ns").agg(F.sum("n").alias("in_bucket"))
    cumulative = merged.withColumn("cumulative", F.sum("in_bucket").over(up_to_here))
    extremes = moments.select(*_KEY, "n", "min_ns", "max_ns")
    middle_ms = ms(bucket_middle("min_ns", "max_ns"))
    return (
        cumulative.join(extremes, on=list(_KEY), how="inner")
        .groupBy(*_KEY)
        .agg(
            *(
                F.min(F.when(reaches("cumulative", "n", parts_of_10000=parts), middle_ms)).alias(name)
                for name, parts in QUANTILES.items()
            )
        )
    )
