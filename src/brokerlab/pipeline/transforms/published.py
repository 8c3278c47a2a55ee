"""Printed values beside ours: by ratios and places among the brokers of both, because times of two machines differ."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.published import TABLE

# What is compared stands in one block: the same printed metric in the same circumstances, the same levels of ours.
_BLOCK = ("source", "metric", "environment", "qos", "interval_ms", "statistic", "variant", "our_qos", "others")
_TOLD_APART = ("printed_broker", "printed_version", "printed_value")  # rows of a paper that are one broker of ours


def published_table(values: DataFrame, *, ours: DataFrame) -> DataFrame:
    """One row per printed value and cell of ours that stands beside it, or one where there is none.

    Only values that are numbers are compared, not bounds such as <10; of several names of one broker of ours the first.
    """
    printed = values.select(
        "source", "metric", "environment", "qos", "interval_ms", "statistic", "variant", "printed_broker",
        F.col("broker").alias("shared"),
        F.col("version").alias("printed_version"), "printed", F.col("value").alias("printed_value"), "bound",
        "unit", "note",
    )  # fmt: skip
    same_qos = F.col("qos").isNull() | F.array_contains(F.split("qos", r"\|"), F.col("our_qos"))
    one, two = printed.alias("paper"), ours.alias("lab")
    same = (F.col("paper.metric") == F.col("lab.metric")) & (F.col("shared") == F.col("lab.broker"))
    same_statistic = F.col("our_statistic").isNull() | F.col("our_statistic").eqNullSafe(F.col("statistic"))
    beside = one.join(two, on=same & same_qos & same_statistic, how="left").drop(
        F.col("lab.metric"), F.col("lab.broker")
    )
    is_comparable = (
        F.col("cell").isNotNull()
        & F.col("printed_value").isNotNull()
        & (F.col("bound") == "")
        & F.col("our_value").isNotNull()
    )
    names = W.partitionBy(*_BLOCK, "shared", "is_comparable").orderBy("our_broker", "cell", *_TOLD_APART)
    told = beside.withColumn("is_comparable", is_comparable).withColumn(
        "is_compared", F.col("is_comparable") & (F.row_number().over(names) == 1)
    )
    return _with_places(told).coalesce(1).sortWithinPartitions(*_order()).to(TABLE.columns)


def _with_places(told: DataFrame) -> DataFrame:
    block = W.partitionBy(*_BLOCK)
    compared = F.count_if("is_compared").over(block).cast("int")
    ranks = {
        "printed_rank": _rank(_BLOCK, "printed_value"),
        "our_rank": _rank(_BLOCK, "our_value"),
        "compared": F.when(F.col("is_compared"), compared),
    }
    placed = told.withColumns(ranks)
    # Of several that share the first place the one by name, however the rows lie.
    whole = block.orderBy("printed_rank", "shared").rowsBetween(W.unboundedPreceding, W.unboundedFollowing)

    def of_first(column: str) -> Column:
        is_first = F.col("is_compared") & (F.col("printed_rank") == 1)
        return F.first(F.when(is_first, F.col(column)), ignorenulls=True).over(whole)

    several = F.col("compared") > 1
    return placed.withColumns(
        {
            "printed_ratio": F.when(several, F.try_divide(F.col("printed_value"), of_first("printed_value"))),
            "our_ratio": F.when(several, F.try_divide(F.col("our_value"), of_first("our_value"))),
            "printed_rank": F.when(several, F.col("printed_rank")),
            "our_rank": F.when(several, F.col("our_rank")),
            "same_place": F.when(several, F.col("printed_rank") == F.col("our_rank")),
        }
    )


def _rank(block: tuple[str, ...], column: str) -> Column:
    """The place among those that are compared, the best first."""
    key = F.when(F.col("lowest"), F.col(column)).otherwise(-F.col(column))
    among = W.partitionBy(*block, "is_compared").orderBy(key)
    return F.when(F.col("is_compared"), F.rank().over(among).cast("int"))


def _order() -> list[Column | str]:
    rank = F.col("printed_rank").asc_nulls_last()
    return [
        "source",
        "metric",
        "environment",
        "qos",
        "interval_ms",
        "statistic",
        "variant",
        "our_qos",
        "others",
        rank,
        "printed_broker",
    ]
