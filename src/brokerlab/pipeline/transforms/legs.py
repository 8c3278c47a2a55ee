"""Rates and responsiveness as captures see them (M-26, eq. 7 to 9 as design section 6 corrects them)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import accumulated, ms, quantile_ms, sample_sd, share, total
from brokerlab.pipeline.schemas.legs import FROM_BROKER, LEGS, THROUGH_BROKER, TO_BROKER
from brokerlab.pipeline.transforms import Analysis

_OTHERS = "others from broker"
_KEY = ("run_id", "tap", "leg")
_QUANTILES = {"p50_ms": 5000, "p95_ms": 9500, "p99_ms": 9900, "p99_9_ms": 9990}
_SUMS = ("messages", "payload_bytes", "unmatched", "ambiguous", "n", "negative_count")


def make(analysis: Analysis) -> DataFrame | None:
    if analysis.captures is None:
        return None
    return legs_table(analysis.captures.matched, runs=analysis.runs)


def legs_table(matched: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run, tap and leg with a message.

    Where a tap saw no message come, everything that left counts: it stands where only subscribers are.
    """
    merged = _merged(matched)
    whole = merged.groupBy("run_id", "tap").agg(
        _of(TO_BROKER, "messages").alias("came"),
        _of(THROUGH_BROKER, "n").alias("paired"),
        _of(TO_BROKER, "first_ns").alias("whole_first_ns"),
        F.coalesce(_of(FROM_BROKER, "last_ns"), _of(_OTHERS, "last_ns")).alias("whole_last_ns"),
    )
    came, leg = F.coalesce("came", F.lit(0)), F.col("leg")
    is_told = F.when(leg == FROM_BROKER, came > 0).when(leg == _OTHERS, came == 0).otherwise(F.lit(True))
    paired_alone = whole.where(F.col("paired") > 0).select("run_id", F.col("tap").alias("here"))
    rows = (
        merged.join(whole, on=["run_id", "tap"], how="left")
        .where(is_told & (F.col("messages") > 0))
        .withColumns(
            {
                "leg": F.when(leg == _OTHERS, FROM_BROKER).otherwise(leg),
                "here": F.when(F.col("tap").contains(" → "), F.split("tap", " → ")[0]),
            }
        )
        .join(paired_alone, on=["run_id", "here"], how="left_anti")
    )
    window_s = (F.col("last_ns") - F.col("first_ns")) / 1e9
    whole_s = (F.col("whole_last_ns") - F.col("whole_first_ns")) / 1e9
    is_through = F.col("leg") == THROUGH_BROKER
    return (
        rows.join(runs.select("run_id", "cell"), on="run_id", how="inner")
        .withColumns(
            {
                "payload_bytes": F.when(~is_through, F.col("payload_bytes")),
                "unmatched": F.when(is_through, F.col("unmatched")),
                "ambiguous": F.when(is_through, F.col("ambiguous")),
                "negative_count": F.when(is_through, F.col("negative_count")),
                "window_s": F.when(~is_through, window_s),
                "per_s": F.when(~is_through, _rate(window_s)),
                "whole_window_s": whole_s,
                "whole_per_s": F.when(~is_through, _rate(whole_s)),
                "mean_ms": ms(share(F.col("sum_ns"), F.when(F.col("n") > 0, F.col("n")))),
                "sd_ms": ms(sample_sd("n", "sum_ns", "sum_of_squares_ns2")),
                "min_ms": ms("min_ns"),
                "max_ms": ms("max_ns"),
            }
        )
        .join(_quantiles(matched), on=list(_KEY), how="left")
        .to(LEGS)
    )


def _rate(seconds: Column) -> Column:
    return share(F.col("messages"), F.when(seconds > 0, seconds))


def _of(leg: str, column: str) -> Column:
    return F.max(F.when(F.col("leg") == leg, F.col(column)))


def _merged(matched: DataFrame) -> DataFrame:
    """One row per run, tap and leg: the buckets of messages added up."""
    return matched.groupBy(*_KEY).agg(
        *(total(name).alias(name) for name in _SUMS),
        F.sum("sum_ns").alias("sum_ns"),
        F.sum("sum_of_squares_ns2").alias("sum_of_squares_ns2"),
        F.min("first_ns").alias("first_ns"),
        F.max("last_ns").alias("last_ns"),
        F.min("min_ns").alias("min_ns"),
        F.max("max_ns").alias("max_ns"),
    )


def _quantiles(matched: DataFrame) -> DataFrame:
    """One row per run, tap and leg with latencies."""
    timed = matched.where(F.col("leg") == THROUGH_BROKER)
    return (
        accumulated(timed, _KEY)
        .groupBy(*_KEY)
        .agg(*(quantile_ms(parts).alias(name) for name, parts in _QUANTILES.items()))
    )
