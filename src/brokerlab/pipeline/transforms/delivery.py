"""The ledger's counts, and whether the contract of its QoS was kept."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import contract, contract_doubt, contract_verdict, is_granted, known, share, total
from brokerlab.pipeline.origin import ACKNOWLEDGED, DUP, EXPECTED, IDENTITY, INTENDED, PAYLOAD, PUBLISHED
from brokerlab.pipeline.schemas.delivery import DELIVERY
from brokerlab.pipeline.transforms import Analysis, family


def make(analysis: Analysis) -> DataFrame:
    return delivery_table(analysis.partials, runs=analysis.runs)


def delivery_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run, QoS asked and QoS granted; covers every publication of the run, warm-up included."""
    about = runs.select(
        "run_id", "cell", "qos", "qos_asked", "is_cut_off", "identity", "unknown",
        "has_lasting_sessions", "may_be_away", "may_expire",
    )  # fmt: skip
    counts = _counts(partials).join(_published(partials), on="run_id", how="left").join(about, on="run_id", how="inner")
    counts = counts.join(_heard(partials), on=["run_id", "qos_granted"], how="left").withColumns(_as_far_as_known())
    counts = counts.join(_away(partials), on="run_id", how="left")
    with_losses = counts.withColumns(
        {
            "acknowledged": _unless_qos_0(F.col("acknowledged")),
            "never_acknowledged": _unless_qos_0(F.col("published") - F.col("acknowledged")),
            "lost": F.col("expected") - F.col("delivered"),
            "acknowledged_lost": _unless_qos_0(_acknowledged_lost()),
            **{name: _if_told_apart(F.col(name)) for name in ("duplicated", "duplicated_flagged", "reordered")},
            **{name: F.when(F.col("in_doubt") == 0, F.col(name)) for name in ("resized", "late")},
            "was_away": _was_away(),
            "may_expire": F.coalesce("may_expire", F.lit(False)),
        }
    )
    return with_losses.withColumns(
        {
            # Of a hearer that was refused nothing is expected, and nothing lost on the way to it.
            "lost_there": F.when(is_granted(), F.col("expected") - F.col("heard")),
            "lost_back": F.when(is_granted(), F.col("heard") - F.col("delivered")),
            "crossing_delivered": F.when(
                F.col("crossing_expected").isNotNull(), F.coalesce("crossing_arrived", F.lit(0))
            ),
            "contract": contract(),
            "failure_percent": 100 * share(F.col("lost"), F.col("expected")),
            "drop_percent": _drop_percent(),
            "availability_percent": 100 - _drop_percent(),
            "verdict": contract_verdict(),
            "doubt": contract_doubt(),
        }
    ).to(DELIVERY)


def _was_away() -> Column:
    """Whether a subscriber was without its connection, by a fault or by plan, and the broker kept nothing for it."""
    left = (F.coalesce("subscribers_away", F.lit(0)) > 0) | F.coalesce("may_be_away", F.lit(False))
    return left & ~F.coalesce("has_lasting_sessions", F.lit(False))


def _as_far_as_known() -> dict[str, Column]:
    """Counts that a source does not tell are null, and so is what follows from them."""
    needs = {
        "published": PUBLISHED,
        "expected": EXPECTED,
        "acknowledged_expected": ACKNOWLEDGED,
        "acknowledged": ACKNOWLEDGED,
        "resized": PAYLOAD,
        "late": INTENDED,
        "duplicated": IDENTITY,
        "duplicated_flagged": DUP,
        "overlapping": IDENTITY,
        "reordered": IDENTITY,
        "unexpected": IDENTITY,
    }
    return {name: known(what, F.col(name)) for name, what in needs.items()}


def _counts(partials: DataFrame) -> DataFrame:
    """One row per run and QoS granted."""
    is_ledger = F.col("expected").isNotNull() | F.col("flow").isNotNull() | F.col("unexpected").isNotNull()
    granted = F.coalesce("expected.qos_granted", "flow.qos_granted", "unexpected.qos_granted")
    return (
        partials.where(is_ledger)
        .groupBy("run_id", granted.alias("qos_granted"))
        .agg(
            total("expected.pairs").alias("expected"),
            total("expected.acknowledged_pairs").alias("acknowledged_expected"),
            total("flow.delivered").alias("delivered"),
            total("flow.acknowledged_delivered").alias("acknowledged_delivered"),
            total("flow.resized").alias("resized"),
            total("flow.late").alias("late"),
            total("flow.duplicated").alias("duplicated"),
            total("flow.duplicated_flagged").alias("duplicated_flagged"),
            total("flow.overlapping").alias("overlapping"),
            total("flow.reordered").alias("reordered"),
            total("flow.stale").alias("stale"),
            total("unexpected.arrivals").alias("unexpected"),
            F.count_if("flow.in_doubt").alias("in_doubt"),
            F.sum("expected.crossing_pairs").alias("crossing_expected"),
            F.sum(F.when(F.col("flow.is_crossing"), F.col("flow.delivered"))).alias("crossing_arrived"),
        )
    )


def _heard(partials: DataFrame) -> DataFrame:
    """One row per run with devices and QoS granted: publications that reached a device, and that should have."""
    echo = family(partials, "echo").groupBy("run_id", "qos_granted")
    return echo.agg(total("heard").alias("heard"), total("missed").alias("missed"))


def _away(partials: DataFrame) -> DataFrame:
    """One row per run with faults: how often one of them left a subscriber without its connection."""
    noticed = family(partials, "fault_noticed").groupBy("run_id")
    return noticed.agg(total("subscribers_away").alias("subscribers_away"))


def _published(partials: DataFrame) -> DataFrame:
    """One row per run."""
    publishers = family(partials, "publisher").groupBy("run_id")
    return publishers.agg(total("published").alias("published"), total("acknowledged").alias("acknowledged"))


def _if_told_apart(count: Column) -> Column:
    """Where one message is like the other, which came twice or late is not known."""
    return F.when(~_is_alike(), count)


def _is_alike() -> Column:
    """By order all messages are; others only in flows where something went wrong (reduce/likeness.py)."""
    return F.col("identity").eqNullSafe("order") | (F.col("in_doubt") > 0)


def _acknowledged_lost() -> Column:
    """Where messages are alike known only if nothing was lost or too much, or all were acknowledged, so lost ones too.

    One that came too often may stand for one that was lost.
    """
    lost = F.col("expected") - F.col("delivered")
    is_whole = (lost == 0) & ~F.coalesce(F.col("unexpected") > 0, F.lit(False))
    is_all_lost = (lost > 0) & (F.col("acknowledged_expected") == F.col("expected"))
    alike = F.when(is_whole | is_all_lost, lost)
    return F.when(_is_alike(), alike).otherwise(F.col("acknowledged_expected") - F.col("acknowledged_delivered"))


def _drop_percent() -> Column:
    """000's D% (stats/formulas.py), with what the broker acknowledged as what it received."""
    return 100 * share(F.col("never_acknowledged"), F.col("published"))


def _unless_qos_0(count: Column) -> Column:
    """At QoS 0 nothing is acknowledged, so the count is not known rather than zero."""
    return F.when(F.col("qos") > 0, count)
