"""Columns that carry one idea each; no frame in sight."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

CONTRACTS = ("at most once", "at least once", "exactly once")  # of QoS 0, 1 and 2 (MQTT 3.1.1 section 4.3)

_NS_PER_MS = 1e6
_BYTES_PER_MIB = 2.0**20


def total(column: str) -> Column:
    """The sum of a count; nothing to add is 0, because a count of nothing is known."""
    return F.coalesce(F.sum(column), F.lit(0))


def ms(ns: str | Column) -> Column:
    return (F.col(ns) if isinstance(ns, str) else ns) / _NS_PER_MS


def mib(size_bytes: str) -> Column:
    return F.col(size_bytes) / _BYTES_PER_MIB


def share(part: Column, whole: Column) -> Column:
    """The quotient; null where there is no whole, because a share of nothing is not a number."""
    return F.try_divide(part.cast("double"), whole.cast("double"))


def mean_if_all(column: str, *, where: Column | None = None) -> Column:
    """An aggregate: the mean of a column; null where one of the rows does not tell, for then it is not that of all."""
    counts = F.lit(True) if where is None else where
    is_open = F.count_if(counts & F.col(column).isNull()) > 0
    return F.when(~is_open, F.avg(F.when(counts, F.col(column))))


def known(what: str, column: Column) -> Column:
    """The column where the run's source tells what it needs (origin.py), else null; for rows with `unknown`."""
    return F.when(~F.coalesce(F.array_contains("unknown", what), F.lit(False)), column)


def is_granted() -> Column:
    """Whether a subscription was granted at all: 128 is a refusal (MQTT 3.1.1 section 3.9.3)."""
    return F.coalesce(F.col("qos_granted") <= 2, F.lit(False))


def promised_qos() -> Column:
    """The lowest of what was published with, what was asked and what was granted."""
    return F.least("qos", "qos_asked", F.when(is_granted(), F.col("qos_granted")))


def contract() -> Column:
    names = F.array(*(F.lit(name) for name in CONTRACTS))
    return F.try_element_at(names, promised_qos() + 1)


def contract_verdict() -> Column:
    """kept, broken or unknown; a ledger with missing pages accuses nobody.

    To a subscriber that was away and that has no lasting session nobody owes what came meanwhile (MQTT 3.1.1 section
    3.1.2.4): where there was one, losses may be its own. So may they be the expiry's where messages had one (MQTT 5.0
    section 3.3.2.3.3) and the run was longer: no broker tells which it dropped for that.
    What devices, which stay, were promised on the way there holds beside what the QoS of their answers promises.
    """
    is_lost_after_acknowledgement = _is_missing() & ~F.col("was_away") & ~F.col("may_expire")
    is_missed_there = _is_missed_there() & ~F.col("may_expire")
    is_duplicated = F.coalesce(F.col("duplicated") > 0, F.lit(False))
    is_unexpected = F.coalesce(F.col("unexpected") > 0, F.lit(False))
    is_stale = F.coalesce(F.col("stale") > 0, F.lit(False))  # MQTT 3.1.1 section 3.3.1.3: the last one replaces it
    is_broken = (
        F.when(is_stale | is_missed_there, F.lit(True))
        .when(promised_qos() == 0, is_duplicated | is_unexpected)
        .when(promised_qos() == 1, is_lost_after_acknowledgement)
        .otherwise(is_lost_after_acknowledgement | is_duplicated | is_unexpected)
    )
    return (
        F.when(F.col("is_cut_off") | ~is_granted(), "unknown")
        .when(is_broken, "broken")
        .when(_doubt().isNotNull(), "unknown")
        .otherwise("kept")
    )


def contract_doubt() -> Column:
    """Why a contract is unknown; null where it is not. The verdict must be there."""
    return F.when(F.col("verdict") == "unknown", _doubt())


def _doubt() -> Column:
    """What leaves a contract open that nothing else broke, the plainest reason first."""
    is_promised = promised_qos() >= 1
    is_untold = F.when(promised_qos() == 1, F.col("acknowledged_lost").isNull()).otherwise(
        F.col("duplicated").isNull() | ((promised_qos() == 2) & F.col("acknowledged_lost").isNull())
    )
    return (
        F.when(F.col("is_cut_off"), "the run was cut off")
        .when(~is_granted(), "the subscription was not granted")
        .when(is_promised & (F.col("never_acknowledged") > 0), "messages were never acknowledged")
        .when(is_promised & _is_missing() & F.col("was_away"), "subscribers were away without a lasting session")
        .when((is_promised & _is_missing() | _is_missed_there()) & F.col("may_expire"), "messages may have expired")
        .when(is_untold, "messages are not told apart")
    )


def _is_missing() -> Column:
    return F.coalesce(F.col("acknowledged_lost") > 0, F.lit(False))


def _is_missed_there() -> Column:
    """Whether a device did not get what the broker had acknowledged and owed it."""
    return F.coalesce(F.col("missed") > 0, F.lit(False))


def sample_sd(n: str, sum_: str, sum_of_squares: str) -> Column:
    """Standard deviation of n values from their sums; null for fewer than two."""
    n_, squares, square = F.col(n), F.col(sum_of_squares), F.col(sum_) * F.col(sum_)
    deviation = F.greatest(squares - square / n_, F.lit(0.0))  # rounding may leave it a hair below zero
    return F.when(n_ > 1, F.sqrt(deviation / (n_ - 1)))


def bucket_middle(min_ns: str, max_ns: str) -> Column:
    """The middle of a histogram's bucket, within the least and the largest value; as stats.histogram does it."""
    low = F.coalesce("low_ns", F.col(min_ns))  # the negative bucket has no lower bound of its own
    middle = (low + F.col("high_ns") - 1) / 2
    return F.greatest(F.least(middle, F.col(max_ns)), F.col(min_ns))


def reaches(cumulative: str, n: str, *, parts_of_10000: int) -> Column:
    """Whether a cumulative count holds the quantile's rank; whole parts keep the rank exact."""
    rank = F.greatest(F.ceil(F.col(n) * F.lit(parts_of_10000) / F.lit(10_000)), F.lit(1))
    return F.col(cumulative) >= rank


def accumulated(histograms: DataFrame, key: Sequence[str]) -> DataFrame:
    """One row per key and bucket of histograms that were added up: how many lie in it and below, and in all.

    `least_ns` and `most_ns` are those of the whole key; `quantile_ms` reads a quantile off these rows.
    """
    whole = W.partitionBy(*key)
    up_to_here = whole.orderBy("bucket").rowsBetween(W.unboundedPreceding, W.currentRow)
    return (
        histograms.select(
            *key, "min_ns", "max_ns", F.inline("buckets").alias("bucket", "low_ns", "high_ns", "in_bucket")
        )
        .groupBy(*key, "bucket", "low_ns", "high_ns")
        .agg(F.sum("in_bucket").alias("in_bucket"), F.min("min_ns").alias("min_ns"), F.max("max_ns").alias("max_ns"))
        .withColumns(
            {
                "cumulative": F.sum("in_bucket").over(up_to_here),
                "n": F.sum("in_bucket").over(whole),
                "least_ns": F.min("min_ns").over(whole),
                "most_ns": F.max("max_ns").over(whole),
            }
        )
    )


def quantile_ms(parts_of_10000: int, *, of: Column | None = None) -> Column:
    """Over rows of `accumulated`: the middle of the first bucket that reaches the quantile's rank, where `of` holds."""
    is_reached = reaches("cumulative", "n", parts_of_10000=parts_of_10000)
    middle = ms(bucket_middle("least_ns", "most_ns"))
    return F.min(F.when(is_reached if of is None else of & is_reached, middle))
