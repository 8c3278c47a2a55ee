"""Rates over the two windows of a run."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import known, share, total
from brokerlab.pipeline.origin import ACKNOWLEDGED, DELIVERED, PAYLOAD, PUBLISHED
from brokerlab.pipeline.schemas.throughput import THROUGHPUT
from brokerlab.pipeline.transforms import Analysis

_NS_PER_S = 1e9
_NEEDS = {
    "published": PUBLISHED,
    "acknowledged": ACKNOWLEDGED,
    "delivered": DELIVERED,
    "published_bytes": PAYLOAD,
    "delivered_bytes": PAYLOAD,
}


def make(analysis: Analysis) -> DataFrame:
    return throughput_table(analysis.partials, runs=analysis.runs)


def throughput_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run that has a measure phase, and window; counts publications intended in that phase.

    Both windows begin with the measure phase. The send window ends with the phase or the last sending,
    the delivery window with whatever is last, so that no rate can be above the sender's.
    """
    about = runs.where(F.col("measure_start_ns").isNotNull()).select(
        "run_id", "cell", "qos", "measure_start_ns", "measure_end_ns", "unknown", "energy_j"
    )
    counts = about.join(_counts(partials), on="run_id", how="left").na.fill(
        0, subset=["published", "acknowledged", "delivered", "published_bytes", "delivered_bytes"]
    )
    counts = counts.withColumns({name: known(what, F.col(name)) for name, what in _NEEDS.items()})
    windows = counts.withColumn("each", F.explode(F.array(_send_window(), _delivery_window()))).select("*", "each.*")
    seconds = F.col("seconds")
    return (
        windows.withColumn("acknowledged", F.when(F.col("qos") > 0, F.col("acknowledged")))
        .withColumns(
            {
                "published_per_s": share(F.col("published"), seconds),
                "acknowledged_per_s": share(F.col("acknowledged"), seconds),
                "delivered_per_s": share(F.col("delivered"), seconds),
                "payload_bytes_per_s": share(F.col("payload_bytes"), seconds),
                "millijoules_per_delivery": F.when(
                    F.col("window") == "delivery", share(1e3 * F.col("energy_j"), F.col("delivered"))
                ),
            }
        )
        .to(THROUGHPUT)
    )


def _counts(partials: DataFrame) -> DataFrame:
    """One row per run."""
    return partials.groupBy("run_id").agg(
        total("publisher.measured").alias("published"),
        total("publisher.measured_acknowledged").alias("acknowledged"),
        total("publisher.measured_bytes").alias("published_bytes"),
        F.max("publisher.last_sent_ns").alias("last_sent_ns"),
        total("flow.measured_delivered").alias("delivered"),
        total("flow.measured_bytes").alias("delivered_bytes"),
        F.max("flow.last_received_ns").alias("last_received_ns"),
    )


def _send_window() -> Column:
    end_ns = F.greatest("measure_end_ns", "last_sent_ns")
    return _window("send", end_ns, F.col("published_bytes"))


def _delivery_window() -> Column:
    end_ns = F.greatest("measure_end_ns", "last_sent_ns", "last_received_ns")
    return _window("delivery", end_ns, F.col("delivered_bytes"))


def _window(name: str, end_ns: Column, payload_bytes: Column) -> Column:
    return F.struct(
        F.lit(name).alias("window"),
        ((end_ns - F.col("measure_start_ns")) / _NS_PER_S).alias("seconds"),
        payload_bytes.alias("payload_bytes"),
    )
