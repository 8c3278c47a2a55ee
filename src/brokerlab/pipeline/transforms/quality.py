"""From answers to weights, scores, places, groups and shares. A broker is known within its set of sheets."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.quality import TABLE as QUALITY
from brokerlab.pipeline.schemas.quality_groups import TABLE as GROUPS
from brokerlab.pipeline.schemas.quality_levels import TABLE as LEVELS
from brokerlab.pipeline.schemas.quality_scores import TABLE as SCORES
from brokerlab.pipeline.transforms import one_each

_MEASURED = "measured"  # the rater of quality/answers.py
_ALIKE = 1e-9  # sums of weights that differ by less are the same


def quality_table(answers: DataFrame) -> DataFrame:
    """One row per set, broker and feature; what was measured counts instead of what was judged."""
    is_measured = F.col("rater") == _MEASURED
    sheet = ~is_measured
    by_feature = one_each(answers, "sheets", "broker", "version", "rater", "round", "feature").groupBy(
        "sheets", "broker", "version", "feature", "feature_group", "roof", "position"
    ).agg(
        F.count_distinct(F.when(sheet, F.col("rater"))).cast("int").alias("raters"),
        F.count_distinct(F.when(sheet, F.col("round"))).cast("int").alias("rounds"),
        F.count_if(sheet).cast("int").alias("answers"),
        F.count_if(sheet & F.col("low").isNull()).cast("int").alias("unknown"),
        F.avg(F.when(sheet, F.col("low"))).alias("sheet_low"),
        F.avg(F.when(sheet, F.col("high"))).alias("sheet_high"),
        F.avg(F.when(is_measured, F.col("low"))).alias("measured"),
        _texts(F.when(sheet, F.array_join("facts", ", "))).alias("facts"),
        _texts(F.when(is_measured, F.array_join("facts", ", "))).alias("measured_facts"),
        _texts(F.col("source")).alias("sources"),
        _texts(F.when(sheet, F.col("because"))).alias("because"),
    )  # fmt: skip
    low, high = F.coalesce("measured", "sheet_low"), F.coalesce("measured", "sheet_high")
    is_same = (F.abs(F.col("measured") - F.col("sheet_low")) < _ALIKE) & (F.col("sheet_low") == F.col("sheet_high"))
    columns = {
        "differs": F.when(F.col("measured").isNotNull() & F.col("sheet_low").isNotNull(), ~is_same),
        "level_low": low,
        "level_high": high,
        "weight_low": F.coalesce(low / F.col("roof"), F.lit(0.0)),
        "weight_high": F.coalesce(high / F.col("roof"), F.lit(1.0)),
    }
    return _sorted(by_feature.withColumns(columns), "sheets", "broker", "position").to(QUALITY.columns)


def _texts(column: Column) -> Column:
    """Every different text, in order."""
    return F.array_sort(F.collect_set(F.when(column != "", column)))


def scores_table(quality: DataFrame, *, select: int) -> DataFrame:
    """One row per set and broker: the sum of its weights, its place by the middle, whether it is chosen."""
    sums = quality.groupBy("sheets", "broker", "version").agg(
        F.sum("weight_low").alias("score_low"),
        F.sum("weight_high").alias("score_high"),
        F.count("*").cast("int").alias("most"),
        F.count_if(F.col("weight_high") - F.col("weight_low") > _ALIKE).cast("int").alias("unknown"),
    )
    middle = F.round((F.col("score_low") + F.col("score_high")) / 2, 9)  # sums of thirds and fifths, made comparable
    scored = sums.withColumn("score", middle)
    ranked = scored.withColumn("rank", F.rank().over(W.partitionBy("sheets").orderBy(F.desc("score"))))
    places = _places(scored)
    return _sorted(
        ranked.join(places, on=["sheets", "broker"], how="left").withColumns(
            {
                "selected": F.col("rank") <= select,
                "selection_is_certain": (F.col("rank_worst") <= select) | (F.col("rank_best") > select),
            }
        ),
        "sheets",
        "rank",
        "broker",
    ).to(SCORES.columns)


def _places(scored: DataFrame) -> DataFrame:
    """One row per set and broker: the best and the worst place that the ranges allow."""
    one = scored.select("sheets", "broker", F.col("score_low").alias("low"), F.col("score_high").alias("high"))
    other = scored.select("sheets", F.col("broker").alias("rival"), "score_low", "score_high")
    is_another = F.col("rival") != F.col("broker")
    is_surely_ahead = F.col("score_low") > F.col("high") + _ALIKE
    may_be_ahead = F.col("score_high") > F.col("low") + _ALIKE
    return one.join(other, on="sheets", how="inner").groupBy("sheets", "broker").agg(
        (1 + F.count_if(is_another & is_surely_ahead)).cast("int").alias("rank_best"),
        (1 + F.count_if(is_another & may_be_ahead)).cast("int").alias("rank_worst"),
    )  # fmt: skip


def groups_table(quality: DataFrame, *, memberships: DataFrame) -> DataFrame:
    """One row per set, group and broker: whether the level that decides the group is reached."""
    enough = F.col("member_from")
    member = (
        F.when(F.col("level_low") >= enough, F.lit(True))
        .when(F.col("level_high") < enough, F.lit(False))
        .otherwise(F.lit(None).cast("boolean"))
    )
    rows = quality.join(memberships, on="feature", how="inner").select(
        "sheets", "group", "broker", member.alias("member")
    )
    return _sorted(rows, "sheets", "group", "broker").to(GROUPS.columns)


def levels_table(quality: DataFrame, *, levels: DataFrame, tallies: DataFrame) -> DataFrame:
    """One row per set, feature and outcome: of a tally where the set has one, else of its brokers.

    A broker between two levels (the mean of its raters) is counted at the nearer one, halves upwards.
    """
    counted = quality.join(tallies.select("sheets").distinct(), on="sheets", how="left_anti")
    level = F.when(F.col("level_low") == F.col("level_high"), F.floor(F.col("level_low") + 0.5).cast("int"))
    by_level = counted.groupBy("sheets", "feature", level.alias("level")).agg(F.count("*").cast("int").alias("brokers"))
    possible = counted.select("sheets").distinct().crossJoin(levels)
    known = possible.join(by_level, on=["sheets", "feature", "level"], how="left")
    open_ = by_level.where(F.col("level").isNull()).join(
        levels.select("feature", "position").distinct(), on="feature", how="inner"
    )
    nothing = {"table": F.lit(None).cast("string"), "printed_percent": F.lit(None).cast("double")}
    ours = known.select(
        "sheets", "feature", "position", "level", "label", F.coalesce("brokers", F.lit(0)).alias("brokers")
    )
    unknown = open_.select("sheets", "feature", "position", "level", F.lit("unknown").alias("label"), "brokers")
    printed = tallies.join(levels.select("feature", "position").distinct(), on="feature", how="inner").select(
        "sheets", "feature", "position", "level", "label", F.coalesce("by_name", "brokers").alias("brokers"),
        "table", "printed_percent",
    )  # fmt: skip
    return _with_shares(ours.unionByName(unknown).withColumns(nothing).unionByName(printed))


def _with_shares(counts: DataFrame) -> DataFrame:
    whole = W.partitionBy("sheets", "feature")
    percent = F.round(100 * F.col("brokers") / F.sum("brokers").over(whole))
    entries = F.collect_list(F.struct("label", "printed_percent")).over(whole)
    shares = counts.withColumns({"percent": percent, "entries": entries})
    agrees = F.coalesce("printed_percent", F.when(F.col("table").isNotNull(), F.lit(0.0))) == F.col("percent")
    other = F.filter("entries", lambda e: (e["printed_percent"] == F.col("percent")) & (e["label"] != F.col("label")))
    told = shares.withColumns(
        {"agrees": agrees, "printed_for": F.when(~agrees, F.try_element_at(other, F.lit(1))["label"])}
    )
    return _sorted(told, "sheets", "position", F.col("level").desc_nulls_last(), "label").to(LEVELS.columns)


def judgements(answers: DataFrame) -> DataFrame:
    """One row per set and feature: the answers of raters that are one level, side by side in three lists."""
    exact = answers.where((F.col("rater") != _MEASURED) & F.col("low").isNotNull() & (F.col("low") == F.col("high")))
    entry = F.struct(
        F.concat_ws("/", "broker", "round").alias("unit"), F.col("rater"), F.col("low").cast("string").alias("level")
    )
    gathered = exact.groupBy("sheets", "feature", "position").agg(F.array_sort(F.collect_list(entry)).alias("entries"))
    return gathered.select(
        "sheets", "feature", "position",
        F.transform("entries", lambda e: e["unit"]).alias("units"),
        F.transform("entries", lambda e: e["rater"]).alias("raters"),
        F.transform("entries", lambda e: e["level"]).alias("levels"),
    )  # fmt: skip


def _sorted(frame: DataFrame, *order: str | Column) -> DataFrame:
    """As one sorted file, so that a reader without Spark gets the rows in an order that means something."""
    return frame.coalesce(1).sortWithinPartitions(*order)
