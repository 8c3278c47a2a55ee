"""Claims over the levels of factors: orders, changes and limits, one finding per claim and cell.

A claim is about one axis (`of`): brokers, or the levels of a factor such as locality, rtt, rate or join.
A cell is what the claim tells apart (`each`) and, of numbers of our own, whatever else varies (`splits`).
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.printed import FINDINGS


def order_findings(values: DataFrame, *, claims: DataFrame, is_complete: bool, splits: Sequence[str] = ()) -> DataFrame:
    """One row per claim and cell: whether brokers, or levels of a factor, stand in the claimed order by their means.

    Ties count as either order. `is_complete`: one that the numbers have and the claim leaves out contradicts it.
    """
    ranked = _ranked(_meant(values, claims=claims, splits=splits))
    items = F.transform("ranking", lambda entry: entry["item"])
    expected = F.filter("expected", lambda name: F.array_contains(items, name))
    left_out = F.array_except(F.transform("ranking", lambda e: e["label"]), _labels_of(expected))
    return ranked.select(
        "claim",
        "cell",
        _order_holds(expected, is_complete=is_complete).alias("holds"),
        F.concat(
            _in_cell(),
            F.array_join(F.transform("ranking", lambda e: F.concat_ws(" ", e["label"], number_text(e["value"]))), ", "),
            F.when(
                (F.col("asks") == "order") & (F.size(left_out) > 0) & F.lit(is_complete),
                F.concat(F.lit(" (left out: "), F.array_join(left_out, ", "), F.lit(")")),
            ).otherwise(""),
        ).alias("said"),
    ).to(FINDINGS)


def change_findings(values: DataFrame, *, claims: DataFrame, splits: Sequence[str] = ()) -> DataFrame:
    """One row per claim and cell: whether a metric got better from one level to another, or by how much it changed."""
    meant = _meant(values, claims=claims, splits=splits)

    def of(names: str) -> Column:
        return F.avg(F.when(F.array_contains(names, F.col("item")), F.col("value")))

    pairs = meant.groupBy("claim", "cell", "lowest", "at_least", "at_most").agg(
        of("before").alias("was"), of("after").alias("became")
    )
    is_better = F.when(F.col("lowest"), F.col("became") < F.col("was")).otherwise(F.col("became") > F.col("was"))
    ratio = F.try_divide("became", "was")  # null of nothing: by how much it changed cannot be said
    is_bounded = F.col("at_least").isNotNull() | F.col("at_most").isNotNull()
    holds = F.when(is_bounded, _is_within(ratio)).otherwise(is_better)
    told = F.concat(_in_cell(), number_text("was"), F.lit(" to "), number_text("became"))
    return (
        pairs.where(F.col("was").isNotNull() & F.col("became").isNotNull())
        .select("claim", "cell", holds.alias("holds"), told.alias("said"))
        .to(FINDINGS)
    )


def limit_findings(values: DataFrame, *, claims: DataFrame, splits: Sequence[str] = ()) -> DataFrame:
    """One row per claim and cell: whether the mean of a metric is within limits."""
    means = (
        _meant(values, claims=claims, splits=splits)
        .groupBy("claim", "cell", "at_least", "at_most")
        .agg(F.avg("value").alias("value"))
    )
    return means.select(
        "claim",
        "cell",
        _is_within(F.col("value")).alias("holds"),
        F.concat(_in_cell(), number_text("value")).alias("said"),
    ).to(FINDINGS)


def _meant(values: DataFrame, *, claims: DataFrame, splits: Sequence[str]) -> DataFrame:
    """One row per claim and value that it is about, with the cell, and what stands on the claim's axis there."""
    level = F.element_at("levels", F.col("of"))
    is_of_brokers = F.col("of") == "broker"
    return (
        values.join(claims, on="metric", how="inner")
        .where(_is_meant())
        .withColumns(
            {
                "item": level,
                "label": F.when(is_of_brokers, F.col("printed_broker")).otherwise(level),
                "cell": _cell(splits),
            }
        )
    )


def _is_meant() -> Column:
    """Whether a value is one that the claim is about."""

    def is_in(names: str, column: str) -> Column:
        return F.col(names).isNull() | F.array_contains(names, F.col(column))

    without = F.col("without").isNull() | ~F.array_contains("without", F.col("broker"))
    chosen = is_in("sources", "source") & is_in("among", "broker") & without & F.col("value").isNotNull()
    under = F.forall(
        F.map_entries("where"),
        lambda each: F.coalesce(
            F.array_contains(each["value"], F.element_at(F.col("levels"), each["key"])), F.lit(False)
        ),
    )
    has_item = F.col("of").isNull() | F.element_at("levels", F.col("of")).isNotNull()
    return chosen & under & has_item


def _cell(splits: Sequence[str]) -> Column:
    """What tells a cell of a claim, as text: the levels in `each` and `splits`, but for the claim's own axis."""
    own = F.array_except(F.array(*(F.lit(name) for name in splits)).cast("array<string>"), F.array(F.lit("broker")))
    names = F.array_except(F.array_union("each", own), F.array(F.coalesce("of", F.lit(""))))
    level = F.transform(
        names,
        lambda name: (
            F.when(name == "source", F.col("source"))
            .when(name == "broker", F.col("printed_broker"))
            .otherwise(_level_text(name, F.element_at(F.col("levels"), name)))
        ),
    )
    return F.array_join(level, ", ")  # what is null is left out


def _level_text(name: Column, level: Column) -> Column:
    return F.when(name == "qos", F.concat(F.lit("QoS "), level)).otherwise(F.concat(name, F.lit(" "), level))


def _ranked(meant: DataFrame) -> DataFrame:
    """One row per claim and cell with what stands on its axis, from best to worst."""
    key = F.when(F.col("lowest"), F.col("value")).otherwise(-F.col("value"))
    means = meant.groupBy("claim", "cell", "lowest", "asks", "expected", "item").agg(
        F.avg("value").alias("value"), F.min("label").alias("label")
    )
    entry = F.struct(key.alias("key"), "label", "item", "value")
    return means.groupBy("claim", "cell", "asks", "expected").agg(F.array_sort(F.collect_list(entry)).alias("ranking"))


def _order_holds(expected: Column, *, is_complete: bool) -> Column:
    first, last = F.element_at("ranking", 1)["key"], F.element_at("ranking", -1)["key"]
    keys = F.transform(expected, _key_of)
    is_sorted = F.array_sort(keys) == keys
    has_all = F.size("ranking") <= F.size(expected) if is_complete else F.lit(True)
    nothing = F.lit(None).cast("boolean")
    return (
        F.when((F.size("ranking") < 2) | (F.size(expected) < 1), nothing)
        .when(F.col("asks") == "first", _key_of(F.element_at(expected, 1)) == first)
        .when(F.col("asks") == "last", _key_of(F.element_at(expected, 1)) == last)
        .when(F.size(expected) < 2, nothing)
        .otherwise(is_sorted & has_all)
    )


def _key_of(name: Column) -> Column:
    return F.element_at(F.filter("ranking", lambda entry: entry["item"] == name), 1)["key"]


def _labels_of(names: Column) -> Column:
    return F.transform(F.filter("ranking", lambda entry: F.array_contains(names, entry["item"])), lambda e: e["label"])


def _is_within(number: Column) -> Column:
    at_least = F.col("at_least").isNull() | (number >= F.col("at_least"))
    return at_least & (F.col("at_most").isNull() | (number <= F.col("at_most")))


def _in_cell() -> Column:
    return F.when(F.col("cell") == "", "").otherwise(F.concat("cell", F.lit(": ")))


def number_text(column: str | Column) -> Column:
    """As text, to two decimals and without a zero that says nothing."""
    value = F.col(column) if isinstance(column, str) else column
    return F.regexp_replace(F.format_string("%,.2f", value.cast("double")), r"\.?0+$", "")
