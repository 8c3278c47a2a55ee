"""What was captured, and what of it could not be read."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import total
from brokerlab.pipeline.schemas.captures import CAPTURES
from brokerlab.pipeline.transforms import Analysis

_KEY = ["run_id", "tap"]
_OF_FILES = (
    "frames",
    "wire_bytes",
    "other_frames",
    "fragments",
    "short_frames",
    "foreign_frames",
    "backwards_frames",
)
_OF_STREAMS = ("connections", "unopened", "foreign", "gaps", "gap_bytes", "reordered", "lost_step", "cut_packets")


def make(analysis: Analysis) -> DataFrame | None:
    if analysis.captures is None:
        return None
    return captures_table(analysis.captures.followed, taps=analysis.captures.taps, runs=analysis.runs)


def captures_table(followed: DataFrame, *, taps: DataFrame, runs: DataFrame) -> DataFrame:
    """One row per run and tap of its manifest, also where the file cannot be read."""
    files = (
        followed.where(F.col("part").isNotNull())
        .select(*_KEY, "part.*")
        .groupBy(*_KEY)
        .agg(
            *(total(name).alias(name) for name in _OF_FILES),
            ((F.max("last_ns") - F.min("first_ns")) / 1e9).alias("seconds"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("links")))).alias("links"),
            total("unread_bytes").alias("file_bytes_unread"),
            F.array_sort(F.collect_set("problem")).alias("problems"),
        )
    )
    streams = (
        followed.where(F.col("following").isNotNull())
        .select(*_KEY, "following.*")
        .groupBy(*_KEY)
        .agg(*(total(name).alias(name) for name in _OF_STREAMS), total("unread_bytes").alias("stream_bytes_unread"))
    )
    return (
        taps.join(runs.select("run_id", "cell"), on="run_id", how="inner")
        .join(files, on=_KEY, how="left")
        .join(streams, on=_KEY, how="left")
        .na.fill(0, subset=[*_OF_STREAMS, "stream_bytes_unread"])
        .to(CAPTURES)
    )
