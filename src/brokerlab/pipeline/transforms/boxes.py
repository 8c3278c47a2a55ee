"""Quartiles, whiskers and outliers of latency, of the runs of a cell together (M-27)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.boxes import BOXES

_NS_PER_MS = 1e6
_WHISKER = 1.5  # times the distance of the quartiles: Tukey's


def boxes_table(histogram: DataFrame, *, latency: DataFrame, runs: DataFrame) -> DataFrame:
    """One row per cell with a valid run that delivered something; the three are finished tables."""
    valid = runs.where(F.col("verdict") == "valid").select("run_id")
    counts = (
        _whole(histogram)
        .join(valid, on="run_id", how="left_semi")
        .groupBy("cell", "bucket")
        .agg(F.sum("n").alias("n"), (F.max("high_ns") / _NS_PER_MS).alias("edge_ms"))
    )
    placed = _with_quartiles(counts).withColumn("reach_ms", _WHISKER * (F.col("q3_ms") - F.col("q1_ms")))
    is_low = F.col("edge_ms") < F.col("q1_ms") - F.col("reach_ms")
    is_high = F.col("edge_ms") > F.col("q3_ms") + F.col("reach_ms")
    boxes = placed.groupBy("cell").agg(
        *(F.max(name).alias(name) for name in ("q1_ms", "median_ms", "q3_ms")),
        F.sum("n").alias("n"),
        F.min(F.when(~is_low, F.col("edge_ms"))).alias("low_whisker_ms"),
        F.max(F.when(~is_high, F.col("edge_ms"))).alias("high_whisker_ms"),
        F.sum(F.when(is_low | is_high, F.col("n")).otherwise(0)).alias("outliers"),
        F.sort_array(F.collect_set(F.when(is_low | is_high, F.col("edge_ms")))).alias("outliers_ms"),
    )
    ends = (
        _whole(latency)
        .join(valid, on="run_id", how="left_semi")
        .groupBy("cell")
        .agg(F.min("min_ms").alias("min_ms"), F.max("max_ms").alias("max_ms"))
    )
    return boxes.join(ends, on="cell", how="inner").to(BOXES)


def _whole(table: DataFrame) -> DataFrame:
    return table.where((F.col("kind") == "intended") & (F.col("group") == "all"))


def _with_quartiles(counts: DataFrame) -> DataFrame:
    cell = W.partitionBy("cell")
    so_far = cell.orderBy("bucket").rowsBetween(W.unboundedPreceding, W.currentRow)
    summed = counts.withColumns({"so_far": F.sum("n").over(so_far), "total": F.sum("n").over(cell)})

    def at(share: float) -> Column:
        return F.min(F.when(F.col("so_far") >= share * F.col("total"), F.col("edge_ms"))).over(cell)

    return summed.withColumns({"q1_ms": at(0.25), "median_ms": at(0.5), "q3_ms": at(0.75)})
