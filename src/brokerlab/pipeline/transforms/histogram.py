"""Latency as counts that merge without loss."""

from pyspark.sql import DataFrame

from brokerlab.pipeline.columns import total
from brokerlab.pipeline.schemas.histogram import HISTOGRAM
from brokerlab.pipeline.transforms import Analysis, family

_KEY = ("run_id", "kind", "group", "bucket", "low_ns", "high_ns")


def make(analysis: Analysis) -> DataFrame:
    return histogram_table(analysis.partials, runs=analysis.runs)


def histogram_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run, kind, group and bucket that holds a delivery."""
    merged = family(partials, "bucket").groupBy(*_KEY).agg(total("n").alias("n"))
    return merged.join(runs.select("run_id", "cell"), on="run_id", how="inner").to(HISTOGRAM)
