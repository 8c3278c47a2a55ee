"""What was on the wire."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import share, total
from brokerlab.pipeline.schemas.traffic import TRAFFIC
from brokerlab.pipeline.transforms import Analysis

_KEY = ("run_id", "tap", "phase")
_SIZES = ("bytes", "to_broker_bytes")
_SUMS = ("packets", "bytes", "to_broker_packets", "to_broker_bytes", "payload_bytes", "retransmissions")
_FRAMES, _ALL, _REST = "frames", "all", "TCP/IP"


def make(analysis: Analysis) -> DataFrame | None:
    if analysis.captures is None:
        return None
    return traffic_table(analysis.captures.followed, runs=analysis.runs)


def traffic_table(followed: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run, tap, phase and packet type; the rows of types and TCP/IP add up to the row all, in bytes."""
    counted = (
        followed.where(F.col("counted").isNotNull())
        .select("run_id", "tap", "counted.*")
        .groupBy(*_KEY, "packet_type")
        .agg(*(total(name).alias(name) for name in _SUMS))
    )
    packets = counted.where(F.col("packet_type") != _FRAMES)
    in_packets = packets.groupBy(*_KEY).agg(*(total(name).alias(f"mqtt_{name}") for name in (*_SIZES, "payload_bytes")))
    frames = (
        counted.where(F.col("packet_type") == _FRAMES)
        .drop("payload_bytes")
        .join(in_packets, on=list(_KEY), how="left")
        .withColumn("payload_bytes", F.coalesce("mqtt_payload_bytes", F.lit(0)))
    )
    rest = {name: F.col(name) - F.coalesce(f"mqtt_{name}", F.lit(0)) for name in _SIZES}
    rows = (
        packets.unionByName(_named(frames, _ALL))
        .unionByName(_named(frames.withColumns({**rest, "payload_bytes": F.lit(0).cast("bigint")}), _REST))
        .join(_seconds(followed, runs), on=list(_KEY), how="left")
    )
    return (
        rows.join(runs.select("run_id", "cell"), on="run_id", how="inner")
        .withColumns(
            {
                "bytes_per_payload_byte": F.when(
                    F.col("payload_bytes") > 0, share(F.col("bytes"), F.col("payload_bytes"))
                ),
                "bytes_per_s": share(F.col("bytes"), F.when(F.col("seconds") > 0, F.col("seconds"))),
            }
        )
        .to(TRAFFIC)
    )


def _named(frames: DataFrame, name: str) -> DataFrame:
    return frames.select(*_KEY, F.lit(name).alias("packet_type"), *_SUMS)


def _seconds(followed: DataFrame, runs: DataFrame) -> DataFrame:
    """One row per run, tap and phase: its length; a capture without phases is as long as its frames."""
    taps = (
        followed.where(F.col("part").isNotNull())
        .groupBy("run_id", "tap")
        .agg(((F.max("part.last_ns") - F.min("part.first_ns")) / 1e9).alias("captured_s"))
    )
    phases = runs.select("run_id", F.explode("phases").alias("phase", "seconds"))
    whole = taps.select("run_id", "tap", F.lit("capture").alias("phase"), F.col("captured_s").alias("seconds"))
    return taps.join(phases, on="run_id", how="inner").select(*_KEY, "seconds").unionByName(whole)
