"""000's equations 7 to 11 of every run, as printed and as corrected (M-26); stats/formulas.py has both in words.

What the broker received and sent is counted where packets were captured on its side, and by the clients otherwise.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import share
from brokerlab.pipeline.schemas.equations import EQUATION_NAMES, EQUATIONS
from brokerlab.pipeline.transforms import one_each
from brokerlab.stats.formulas import HOURS_PER_MONTH

MESSAGES_PER_DAY = (100_000, 218_772)  # what the paper's text reckons with, and what its file has
_DAYS = 30


def equations_table(
    *, runs: DataFrame, latency: DataFrame, delivery: DataFrame, throughput: DataFrame, legs: DataFrame
) -> DataFrame:
    """One row per run and equation, all of them finished tables; null where a run does not tell."""
    counted = (
        one_each(runs.select("run_id", "cell"), "run_id")
        .join(_times(latency), on="run_id", how="left")
        .join(_ledger(delivery), on="run_id", how="left")
        .join(_by_clients(throughput), on="run_id", how="left")
        .join(_captured(legs), on="run_id", how="left")
        .withColumn("has_capture", F.col("tap_received").isNotNull() & F.col("tap_sent").isNotNull())
        .withColumns(_counts())
    )
    rows = counted.select("run_id", "cell", F.inline(F.array(*_equations())))
    place = F.array_position(F.array(*map(F.lit, EQUATION_NAMES)), F.col("equation"))
    return rows.coalesce(1).sortWithinPartitions("run_id", place).to(EQUATIONS)


def _times(latency: DataFrame) -> DataFrame:
    whole = latency.where((F.col("kind") == "intended") & (F.col("group") == "all"))
    return one_each(whole.select("run_id", "n", "mean_ms"), "run_id")


def _ledger(delivery: DataFrame) -> DataFrame:
    """What was lost of the whole run, warm-up included."""
    is_told = F.count_if(F.col("lost").isNull() | F.col("expected").isNull()) == 0
    failed = 100 * share(F.sum("lost"), F.sum("expected"))
    return delivery.groupBy("run_id").agg(F.when(is_told, failed).alias("failure_percent"))


def _by_clients(throughput: DataFrame) -> DataFrame:
    arrived = throughput.where(F.col("window") == "delivery")
    return one_each(arrived.select("run_id", "seconds", "published", "acknowledged", "delivered"), "run_id")


def _captured(legs: DataFrame) -> DataFrame:
    """One row per captured run: PUBLISH packets of the measure phase at the publisher's and the broker's tap."""

    def at(tap: str, leg: str, column: str) -> Column:
        return F.max(F.when((F.col("tap") == tap) & (F.col("leg") == leg), F.col(column)))

    return legs.groupBy("run_id").agg(
        at("publisher", "to broker", "messages").alias("tap_published"),
        at("broker", "to broker", "messages").alias("tap_received"),
        at("broker", "from broker", "messages").alias("tap_sent"),
        at("broker", "to broker", "whole_window_s").alias("tap_seconds"),
    )


def _counts() -> dict[str, Column]:
    def either(captured: str, otherwise: str) -> Column:
        return F.when(F.col("has_capture"), F.col(captured)).otherwise(F.col(otherwise))

    return {
        "left": F.coalesce("tap_published", "published"),
        "received": either("tap_received", "acknowledged"),  # null at QoS 0 without a capture: nobody told
        "sent": either("tap_sent", "delivered"),
        "window_s": either("tap_seconds", "seconds"),
        "seen_by": F.when(F.col("has_capture"), "captures").otherwise("clients"),
    }


def _equations() -> list[Column]:
    left, received, sent = F.col("left"), F.col("received"), F.col("sent")
    window_s, failure = F.col("window_s"), F.col("failure_percent")
    by_taps, by_clients, by_ledger = F.col("seen_by"), F.lit("clients"), F.lit("ledger")
    to_broker, to_clients = share(received, window_s), share(sent, window_s)
    dropped = 100 * share(left - received, left)
    # Of messages that were due in the measure phase, whenever they left.
    all_of_them = share(F.col("mean_ms") * F.col("n"), F.col("published"))
    never = F.lit(None).cast("double")
    return [
        _row("7", by_clients, all_of_them, "ms", F.col("mean_ms"), "ms"),
        _row("8", by_taps, to_broker, "1/s", to_broker, "1/s"),
        _row("9", by_taps, to_clients, "1/s", to_clients, "1/s"),
        _row("10", by_taps, share(received - sent, window_s), "1/s", failure, "%"),
        _row("11", by_taps, share(left, received), "", dropped, "%"),
        _row("availability", by_taps, never, "", 100 - dropped, "%"),
        *(
            _row(f"month of {day} a day", by_ledger, never, "", failure / 100 * day * _DAYS, "messages")
            for day in MESSAGES_PER_DAY
        ),
        _row("hours of a month", by_ledger, never, "", failure / 100 * HOURS_PER_MONTH, "h"),
    ]


def _row(equation: str, seen_by: Column, printed: Column, unit_printed: str, corrected: Column, unit: str) -> Column:
    return F.struct(
        F.lit(equation).alias("equation"),
        seen_by.alias("seen_by"),
        printed.cast("double").alias("as_printed"),
        F.lit(unit_printed).alias("unit_printed"),
        corrected.cast("double").alias("corrected"),
        F.lit(unit).alias("unit"),
    )
