"""Places of all brokers by a metric, of a paper and of ours: also of those that stand in one of them only."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.rankings import RANKINGS

_BLOCK = ("metric", "of", "circumstances", "qos")


def rankings_table(values: DataFrame, *, ours: DataFrame, same: Sequence[str]) -> DataFrame:
    """One row per block of what may be compared and broker; `same` are names of ours that are one and the same.

    A metric that ours do not have is in no ranking; a bound such as <10 is no value, and what is not known has no
    place.
    """
    wanted = ours.select("metric", "lowest").dropDuplicates(["metric"])
    printed = values.where(F.col("value").isNotNull() & (F.col("bound") == "")).join(wanted, on="metric", how="inner")
    both = _printed(printed).unionByName(_measured(ours.where(F.col("our_value").isNotNull())))
    placed = _with_floor(both, same)
    return placed.coalesce(1).sortWithinPartitions(*_BLOCK, "place", "name").to(RANKINGS)


def _printed(values: DataFrame) -> DataFrame:
    where = F.concat_ws(", ", "environment", "statistic", "variant", "interval_ms")
    printed = values.select(
        "source", "metric", "lowest", "qos", "kind", "broker", "version", "value", "unit",
        F.substring_index("source", "/", 1).alias("of"),
        where.alias("circumstances"),
        F.col("printed_broker").alias("name"),
        *(F.lit(None).cast("double").alias(column) for column in ("low", "high")),
        F.lit(None).cast("int").alias("n"),
        F.lit(None).cast("boolean").alias("extrapolates"),
    )  # fmt: skip
    # One number in two tables (002's Tables 6 and 10) stands once, with the class that only one of the tables tells.
    tells = F.col("kind").isin("scalable", "non-scalable")
    same = W.partitionBy(*_BLOCK, "name").orderBy(F.desc_nulls_last(tells), "source", "version", "value")
    return _apart(printed).withColumn("nth", F.row_number().over(same)).where(F.col("nth") == 1).drop("nth", "source")


def _apart(printed: DataFrame) -> DataFrame:
    """Two tables that print different numbers of one broker (003's echo and loop) are two rankings, not one of both."""
    of_one, block = W.partitionBy(*_BLOCK, "name"), W.partitionBy(*_BLOCK)
    differs = (F.min("value").over(of_one) != F.max("value").over(of_one)) & (
        F.min("source").over(of_one) != F.max("source").over(of_one)
    )
    table = F.substring_index("source", "/", -1)
    told = F.concat_ws(", ", F.when(F.col("circumstances") != "", F.col("circumstances")), table)
    return (
        printed.withColumn("differs", differs)
        .withColumn("is_apart", F.bool_or("differs").over(block))
        .withColumn("circumstances", F.when(F.col("is_apart"), told).otherwise(F.col("circumstances")))
        .drop("differs", "is_apart")
    )


def _measured(ours: DataFrame) -> DataFrame:
    where = F.concat_ws(", ", F.when(F.col("others") != "", F.col("others")), "our_statistic")
    return ours.select(
        "metric", "lowest", F.col("our_qos").alias("qos"), "kind", "broker", F.col("our_version").alias("version"),
        F.col("our_value").alias("value"), F.col("our_unit").alias("unit"),
        F.lit("ours").alias("of"),
        where.alias("circumstances"),
        F.col("our_broker").alias("name"),
        F.col("our_low").alias("low"), F.col("our_high").alias("high"), F.col("our_n").alias("n"), "extrapolates",
    ).dropDuplicates()  # fmt: skip


def _with_floor(rows: DataFrame, same: Sequence[str]) -> DataFrame:
    key = F.when(F.col("lowest"), F.col("value")).otherwise(-F.col("value"))
    block = W.partitionBy(*_BLOCK)
    is_twin = (F.col("of") == "ours") & F.col("name").isin(list(same))
    twin: Column = F.when(is_twin, F.col("value"))
    of_one = W.partitionBy(*_BLOCK, "broker")
    apart = F.when(is_twin & (F.count(twin).over(of_one) > 1), F.max(twin).over(of_one) - F.min(twin).over(of_one))
    before = F.lag("value").over(block.orderBy(key, "name"))
    return (
        rows.withColumn("apart", apart)
        .withColumns({"floor": F.max("apart").over(block), "place": F.rank().over(block.orderBy(key)).cast("int")})
        .withColumn("is_tie", F.abs(F.col("value") - before) <= F.col("floor"))
    )
