"""Claims about how a paper prints its numbers, one finding per claim and cell; a claim is what its findings say."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.claims import TABLE
from brokerlab.pipeline.schemas.printed import FINDINGS
from brokerlab.pipeline.transforms.claims_levels import number_text

_SHOWN = 8  # cells that a claim which holds is told with; one that does not is told with all that contradict it


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
        return computed < float(rule["below"]), number_text("computed")
    if "above" in rule:
        return computed >= float(rule["above"]), number_text("computed")
    printed = F.col(rule["equals"])
    slack = F.lit(float(rule["within"])) if "within" in rule else F.abs(printed) * float(rule["within_percent"]) / 100
    told = F.concat(
        F.col(f"{rule['equals']}_bound"),
        number_text(rule["equals"]),
        F.lit(" printed, "),
        number_text("computed"),
        F.lit(" computed"),
    )
    return F.abs(computed - printed) <= slack, told


def _also(rule: Mapping[str, Any]) -> Column:
    also = rule.get("also")
    return (
        F.lit("")
        if also is None
        else F.concat(F.lit(f" ({also['what']} "), number_text(F.expr(also["expression"])), F.lit(")"))
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
        F.lit(f"{rule['source']} prints "), number_text("printed"), F.lit(f" % for '{rule['outcome']}'; "),
        number_text(counted), F.lit(" of "), number_text("total"), F.lit(listed), number_text(percent), F.lit(" %"),
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
    is_number = F.col("value").isNotNull()
    is_meant = (F.col("metric") == rule["metric"]) & (F.col("environment") == rule["environment"]) & is_number
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
    """One row: whether those that arrived are the mix of those that were published, within ten points.

    A count that nobody knows leaves it undecided: shares of the others would be shares of something else.
    """
    meant = values.where(F.col("source").isin(list(rule["source"])) & (F.col("qos") == rule["qos"]))
    of = {
        name: _sum_if_known(F.col("metric") == metric)
        for name, metric in (("published", "published_messages"), ("lost", "lost_messages_mean_per_run"))
    }
    groups = meant.groupBy("feature").agg(*(total.alias(name) for name, total in of.items()))
    arrived = F.col("published") - F.col("lost")
    shares = groups.agg(
        F.max_by("feature", arrived).alias("feature"),
        (100 * F.max(arrived) / F.sum(arrived)).alias("arrived"),
        (100 * F.max_by("published", arrived) / F.sum("published")).alias("published"),
        F.bool_and(arrived.isNotNull()).alias("is_known"),
    )
    is_same_mix = F.abs(F.col("arrived") - F.col("published")) < 10
    said = F.concat(
        "feature",
        F.lit(" sent "),
        number_text("published"),
        F.lit(" % and is "),
        number_text("arrived"),
        F.lit(" % of what arrived"),
    )
    return shares.select(
        F.lit(claim).alias("claim"), F.col("feature").alias("cell"),
        F.when(F.col("is_known"), is_same_mix).alias("holds"), said.alias("said"),
    ).to(FINDINGS)  # fmt: skip


def _sum_if_known(is_meant: Column) -> Column:
    """The sum of the values that are meant; null where one of them is not known, or there is none."""
    is_known = F.count_if(is_meant & F.col("value").isNull()) == 0
    return F.when(is_known, F.sum(F.when(is_meant, F.col("value"))))


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
