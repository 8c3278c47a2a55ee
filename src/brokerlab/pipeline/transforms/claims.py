"""Claims held against numbers: each rule gives one finding per claim and cell, and a claim is what its findings say."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.claims import TABLE
from brokerlab.pipeline.schemas.printed import FINDINGS

_SHOWN = 8  # cells that a claim which holds is told with; one that does not is told with all that contradict it
_DIGITS = 2


def order_findings(values: DataFrame, *, claims: DataFrame, is_complete: bool) -> DataFrame:
    """One row per claim and cell: whether brokers stand in the claimed order by the mean of a metric.

    Ties count as either order. `is_complete`: a broker that the numbers have and the claim leaves out contradicts it.
    """
    ranked = _ranked(values.join(claims, on="metric", how="inner").where(_is_meant()))
    brokers = F.transform("ranking", lambda entry: entry["broker"])
    expected = F.filter("expected", lambda name: F.array_contains(brokers, name))
    left_out = F.array_except(F.transform("ranking", lambda e: e["label"]), _labels_of(expected))
    return ranked.select(
        "claim",
        "cell",
        _order_holds(expected, is_complete=is_complete).alias("holds"),
        F.concat(
            _in_cell(),
            F.array_join(F.transform("ranking", lambda e: F.concat_ws(" ", e["label"], _number(e["value"]))), ", "),
            F.when(
                (F.col("asks") == "order") & (F.size(left_out) > 0) & F.lit(is_complete),
                F.concat(F.lit(" (left out: "), F.array_join(left_out, ", "), F.lit(")")),
            ).otherwise(""),
        ).alias("said"),
    ).to(FINDINGS)


def _is_meant() -> Column:
    """Whether a value is one that the claim is about."""

    def is_in(names: str, column: str) -> Column:
        return F.col(names).isNull() | F.array_contains(names, F.col(column))

    without = F.col("without").isNull() | ~F.array_contains("without", F.col("broker"))
    chosen = is_in("sources", "source") & is_in("qos_wanted", "qos") & is_in("intervals_ms", "interval_ms")
    return chosen & is_in("among", "broker") & without & F.col("value").isNotNull() & F.col("broker").isNotNull()


def _ranked(meant: DataFrame) -> DataFrame:
    """One row per claim and cell with its brokers from best to worst."""
    key = F.when(F.col("lowest"), F.col("value")).otherwise(-F.col("value"))
    means = (
        meant.withColumn("cell", _cell())
        .groupBy("claim", "cell", "lowest", "asks", "expected", "broker")
        .agg(F.avg("value").alias("value"), F.min("printed_broker").alias("label"))
    )
    entry = F.struct(key.alias("key"), "label", "broker", "value")
    return means.groupBy("claim", "cell", "asks", "expected").agg(F.array_sort(F.collect_list(entry)).alias("ranking"))


def _cell() -> Column:
    """What tells a cell of a claim, as text: the columns in `each` that have a value."""
    parts = {
        "source": F.col("source"),
        "qos": F.concat(F.lit("QoS "), F.col("qos")),
        "interval_ms": F.concat(F.col("interval_ms"), F.lit(" ms")),
    }
    shown = [F.when(F.array_contains("each", F.lit(name)), text) for name, text in parts.items()]
    return F.concat_ws(", ", *shown, "variant")


def _order_holds(expected: Column, *, is_complete: bool) -> Column:
    first, last = F.element_at("ranking", 1)["key"], F.element_at("ranking", -1)["key"]
    keys = F.transform(expected, _key_of)
    is_sorted = F.array_sort(keys) == keys
    has_all = F.size("ranking") <= F.size(expected) if is_complete else F.lit(True)
    return (
        F.when((F.size("ranking") < 2) | (F.size(expected) < 1), F.lit(None).cast("boolean"))
        .when(F.col("asks") == "first", _key_of(F.element_at(expected, 1)) == first)
        .when(F.col("asks") == "last", _key_of(F.element_at(expected, 1)) == last)
        .when(F.size(expected) < 2, F.lit(None).cast("boolean"))
        .otherwise(is_sorted & has_all)
    )


def _key_of(name: Column) -> Column:
    return F.element_at(F.filter("ranking", lambda entry: entry["broker"] == name), 1)["key"]


def _labels_of(names: Column) -> Column:
    return F.transform(
        F.filter("ranking", lambda entry: F.array_contains(names, entry["broker"])), lambda e: e["label"]
    )


def change_findings(values: DataFrame, *, claims: DataFrame) -> DataFrame:
    """One row per claim, broker and QoS: whether a metric improved from one environment to another."""
    meant = values.join(claims, on="metric", how="inner").where(
        (F.col("sources").isNull() | F.array_contains("sources", F.col("source"))) & F.col("value").isNotNull()
    )

    def of(environment: Column) -> Column:
        return F.avg(F.when(F.col("environment") == environment, F.col("value")))

    pairs = meant.groupBy("claim", "lowest", "broker", "qos").agg(
        F.min("printed_broker").alias("label"),
        of(F.col("before")).alias("was"),
        of(F.col("after")).alias("became"),
    )
    is_better = F.when(F.col("lowest"), F.col("became") < F.col("was")).otherwise(F.col("became") > F.col("was"))
    told = F.concat(
        F.col("label"), F.lit(", QoS "), F.col("qos"), F.lit(": "), _number("was"), F.lit(" to "), _number("became")
    )
    both = F.col("was").isNotNull() & F.col("became").isNotNull()
    return (
        pairs.where(both)
        .select("claim", F.concat_ws(", ", "broker", "qos").alias("cell"), is_better.alias("holds"), told.alias("said"))
        .to(FINDINGS)
    )


def formula_findings(values: DataFrame, *, claim: str, rule: Mapping[str, Any]) -> DataFrame:
    """One row per cell of one claim: what the expression gives, against a printed value or a limit."""
    each, names = list(rule["each"]), list(rule["of"])
    cells = (
        values.where(F.col("source").isin(list(rule["source"])) & F.col("metric").isin(names))
        .groupBy(*each)
        .agg(
            F.min("printed_broker").alias("label"),
            *(F.max(F.when(F.col("metric") == name, F.col("value"))).alias(name) for name in names),
            *(F.max(F.when(F.col("metric") == name, F.col("bound"))).alias(f"{name}_bound") for name in names),
        )
        .dropna(subset=names)
        .withColumn("computed", F.expr(str(rule["expression"])))
    )
    place = [F.concat(F.lit("QoS "), F.col("qos"))] if "qos" in each else []
    place += [F.concat(F.col("interval_ms"), F.lit(" ms"))] if "interval_ms" in each else []
    place += [F.col("source")] if "source" in each else []
    holds, told = _formula_holds(rule)
    return cells.select(
        F.lit(claim).alias("claim"),
        F.concat_ws(", ", "label", *place).alias("cell"),
        holds.alias("holds"),
        F.concat(F.concat_ws(", ", "label", *place), F.lit(": "), told, _also(rule)).alias("said"),
    ).to(FINDINGS)


def _formula_holds(rule: Mapping[str, Any]) -> tuple[Column, Column]:
    computed = F.col("computed")
    if "below" in rule:
        return computed < float(rule["below"]), _number("computed")
    if "above" in rule:
        return computed >= float(rule["above"]), _number("computed")
    printed = F.col(rule["equals"])
    slack = F.lit(float(rule["within"])) if "within" in rule else F.abs(printed) * float(rule["within_percent"]) / 100
    told = F.concat(
        F.col(f"{rule['equals']}_bound"),
        _number(rule["equals"]),
        F.lit(" printed, "),
        _number("computed"),
        F.lit(" computed"),
    )
    return F.abs(computed - printed) <= slack, told


def _also(rule: Mapping[str, Any]) -> Column:
    also = rule.get("also")
    return (
        F.lit("")
        if also is None
        else F.concat(F.lit(f" ({also['what']} "), _number(F.expr(also["expression"])), F.lit(")"))
    )


def share_findings(values: DataFrame, *, claim: str, rule: Mapping[str, Any]) -> DataFrame:
    """One row: a printed share of brokers against those that are listed by name."""
    members = values.where(F.col("metric") == rule["group"]).agg(
        F.sum("value").alias("listed"), F.count("value").alias("total")
    )
    shares = values.where((F.col("source") == rule["source"]) & (F.col("metric") == "share_of_brokers"))
    counted = F.col("total") - F.col("listed") if rule.get("rest") else F.col("listed")
    percent = F.round(100 * counted / F.col("total"))
    others = F.array_join(
        F.filter("rows", lambda row: (row["value"] == percent) & (row["outcome"] != rule["outcome"]))["outcome"], ", "
    )
    printed = F.lit(float(rule["says"])) if "says" in rule else F.col("printed")
    table = shares.agg(
        F.max(F.when(F.col("outcome") == rule["outcome"], F.col("value"))).alias("printed"),
        F.collect_list(F.struct("outcome", "value")).alias("rows"),
    )
    is_swapped = (F.col("printed") != percent) & (others != "")
    swapped = F.concat(F.lit(", which the table prints for '"), others, F.lit("': the two rows are swapped"))
    listed = f" brokers {'not ' if rule.get('rest') else ''}listed as {rule['group']} are "
    said = F.concat(
        F.lit(f"{rule['source']} prints "), _number("printed"), F.lit(f" % for '{rule['outcome']}'; "),
        _number(counted), F.lit(" of "), _number("total"), F.lit(listed), _number(percent), F.lit(" %"),
        F.when(is_swapped, swapped).otherwise(""),
    )  # fmt: skip
    return (
        table.crossJoin(members)
        .select(
            F.lit(claim).alias("claim"),
            F.lit("").alias("cell"),
            (printed == percent).alias("holds"),
            said.alias("said"),
        )
        .to(FINDINGS)
    )


def member_findings(values: DataFrame, *, claim: str, rule: Mapping[str, Any]) -> DataFrame:
    """One row: whether the text lists a broker in a group, as it says elsewhere."""
    rows = values.where((F.col("metric") == rule["group"]) & (F.col("broker") == rule["broker"]))
    is_listed = F.col("value") == 1
    said = F.concat(
        "printed_broker", F.when(is_listed, " is listed as ").otherwise(" is not listed as "), F.lit(rule["group"])
    )
    return rows.select(
        F.lit(claim).alias("claim"),
        F.col("broker").alias("cell"),
        (is_listed == bool(rule["is"])).alias("holds"),
        said.alias("said"),
    ).to(FINDINGS)


def stands_findings(values: DataFrame, *, claim: str, rule: Mapping[str, Any]) -> DataFrame:
    """One row: whether the table that the text names holds the metric of so many brokers in an environment."""
    is_meant = (F.col("metric") == rule["metric"]) & (F.col("environment") == rule["environment"])
    held = values.groupBy("source").agg(F.count_distinct(F.when(is_meant, F.col("broker"))).alias("brokers"))
    enough = F.col("brokers") >= int(rule["brokers"])
    found = held.agg(
        F.bool_or((F.col("source") == rule["source"]) & enough).alias("holds"),
        F.array_join(F.array_sort(F.collect_set(F.when(enough, F.col("source")))), ", ").alias("those"),
    )
    what = f"{rule['metric']} of {rule['brokers']} brokers, {rule['environment']}, stands in "
    return found.select(
        F.lit(claim).alias("claim"), F.lit(str(rule["source"])).alias("cell"), "holds",
        F.concat(F.lit(what), "those").alias("said"),
    ).to(FINDINGS)  # fmt: skip


def survive_findings(values: DataFrame, *, claim: str, rule: Mapping[str, Any]) -> DataFrame:
    """One row: whether those that arrived are the mix of those that were published, within ten points."""
    meant = values.where(F.col("source").isin(list(rule["source"])) & (F.col("qos") == rule["qos"]))
    of = {
        name: F.sum(F.when(F.col("metric") == metric, F.col("value")))
        for name, metric in (("published", "published_messages"), ("lost", "lost_messages_mean_per_run"))
    }
    groups = meant.groupBy("feature").agg(*(total.alias(name) for name, total in of.items()))
    arrived = F.col("published") - F.col("lost")
    shares = groups.agg(
        F.max_by("feature", arrived).alias("feature"),
        (100 * F.max(arrived) / F.sum(arrived)).alias("arrived"),
        (100 * F.max_by("published", arrived) / F.sum("published")).alias("published"),
    )
    said = F.concat(
        "feature",
        F.lit(" sent "),
        _number("published"),
        F.lit(" % and is "),
        _number("arrived"),
        F.lit(" % of what arrived"),
    )
    return shares.select(
        F.lit(claim).alias("claim"), F.col("feature").alias("cell"),
        (F.abs(F.col("arrived") - F.col("published")) < 10).alias("holds"), said.alias("said"),
    ).to(FINDINGS)  # fmt: skip


def claims_table(findings: DataFrame, *, about: DataFrame) -> DataFrame:
    """One row per claim, also where nothing could be decided."""
    decided = findings.where(F.col("holds").isNotNull())
    entry = F.struct("holds", "cell", "said")
    told = decided.groupBy("claim").agg(
        F.count("*").cast("int").alias("cells"),
        F.count_if(~F.col("holds")).cast("int").alias("contradicted"),
        F.array_sort(F.collect_list(entry)).alias("entries"),
    )
    wrong = F.filter("entries", lambda each: ~each["holds"])
    fails = F.col("contradicted") > 0
    shown = F.when(fails, wrong).otherwise(F.slice("entries", 1, _SHOWN))
    text = F.array_join(F.transform(shown, lambda each: each["said"]), "; ")
    more = F.when(
        ~fails & (F.col("cells") > _SHOWN), F.concat(F.lit("; and "), F.col("cells") - _SHOWN, F.lit(" more"))
    )
    head = F.concat("contradicted", F.lit(" of "), "cells", F.lit(": "))
    return (
        about.join(told, on="claim", how="left")
        .withColumns(
            {
                "verdict": F.when(F.col("cells").isNull(), "undecided").when(fails, "does not hold").otherwise("holds"),
                "numbers": F.concat(
                    F.when(fails & (F.col("cells") > 1), head).otherwise(""), text, F.coalesce(more, F.lit(""))
                ),
                "cells": F.coalesce("cells", F.lit(0)),
                "contradicted": F.coalesce("contradicted", F.lit(0)),
            }
        )
        .coalesce(1)
        .sortWithinPartitions("position")
        .to(TABLE.columns)
    )


def union(findings: Sequence[DataFrame]) -> DataFrame:
    first, *others = findings
    for each in others:
        first = first.unionByName(each)
    return first


def _in_cell() -> Column:
    return F.when(F.col("cell") == "", "").otherwise(F.concat("cell", F.lit(": ")))


def _number(column: str | Column) -> Column:
    """As text, to two decimals and without a zero that says nothing."""
    value = F.col(column) if isinstance(column, str) else column
    return F.regexp_replace(F.format_string("%,.2f", value.cast("double")), r"\.?0+$", "")
