"""Captures on Spark: segments of the data source `pcap` meet by connection, publications by message.

files ─────────────► shares of whole files ──┐
large files ──► pcap ──► by connection ──────┴──► counts, and publications ──► by message: MatchMessages ──► legs
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from brokerlab.pipeline.capture.compiled import Longs
from brokerlab.pipeline.capture.messages import COLUMNS as MESSAGE_COLUMNS
from brokerlab.pipeline.capture.messages import legs_of
from brokerlab.pipeline.capture.sinks import CountingSink, PacketSink, TypeSink
from brokerlab.pipeline.capture.source import MQTT_PORT, CaptureFile, PcapSource
from brokerlab.pipeline.capture.taps import Tap, taps_of_runs
from brokerlab.pipeline.capture.walk import Sink, Walk, numbers
from brokerlab.pipeline.capture.whole import WholeFile
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.captured import FOLLOWED, MATCHED, PACKETS, TAPS, TYPES
from brokerlab.pipeline.sources import small_frame

__all__ = ["count_packets", "match_messages", "read_captures", "read_packets", "taps_of_runs"]

MakeSink = Callable[[], Sink]

_FEWEST_TASKS = 8
_BYTES_PER_TASK = 64 * 2**20
_BYTES_PER_BUCKET = 256 * 2**20
_SHARED_BYTES = 32 * 2**20  # from here on two tasks share a file
_LARGEST_WHOLE = 8 * 2**30  # beyond it more than two tasks are worth the journey of all segments


def read_captures(spark: SparkSession, taps: Sequence[Tap], *, largest_whole: int = _LARGEST_WHOLE) -> DataFrame:
    """What the captures come to, of schemas.captured.FOLLOWED; computed anew by every action: write it once.

    Files up to `largest_whole` are followed by the tasks that read them; larger ones are cut, and their segments meet
    by connection.
    """
    sizes = {tap.path: Path(tap.path).stat().st_size if Path(tap.path).exists() else 0 for tap in taps}
    buckets = 1 + sum(sizes.values()) // _BYTES_PER_BUCKET
    whole = [tap for tap in taps if sizes[tap.path] <= largest_whole]
    cut = [tap for tap in taps if sizes[tap.path] > largest_whole]
    frames = []
    if whole:
        shares = [
            {**_about(tap), "ports": tuple(tap.ports or (MQTT_PORT,)), "buckets": buckets, **share}
            for tap in whole
            for share in _shares(sizes[tap.path])
        ]
        frames.append(_followed_whole(spark, CountingSink, FOLLOWED, shares))
    if cut:
        files = [{"path": tap.path, "ports": list(tap.ports) or [MQTT_PORT]} for tap in cut]
        rows = small_frame(spark, [tap.row() for tap in cut], TAPS)
        known = _captured(spark, files).join(F.broadcast(rows), on="path", how="inner")
        size = sum(sizes[tap.path] for tap in cut)
        frames.append(_followed(CountingSink, FOLLOWED, known.withColumn("buckets", F.lit(buckets)), size))
    return reduce(DataFrame.unionByName, frames)


def _about(tap: Tap) -> dict[str, Any]:
    return {name: tap.row()[name] for name in ("path", "run_directory", "run_id", "tap")}


def read_packets(
    spark: SparkSession, path: Path, *, ports: Sequence[int] = (MQTT_PORT,), columns: Sequence[str] = PACKETS.names
) -> DataFrame:
    """The MQTT packets of one capture, one row each; columns that are not asked for are not made."""
    schema = T.StructType([PACKETS[column] for column in columns])
    return _read(spark, partial(PacketSink, tuple(columns)), schema, path, ports)


def count_packets(spark: SparkSession, path: Path, *, ports: Sequence[int] = (MQTT_PORT,)) -> DataFrame:
    """How many MQTT packets of each type one capture has, one row per type; no packet becomes a row."""
    counted = _read(spark, TypeSink, TYPES, path, ports)
    return counted.groupBy("packet_type").agg(F.sum("packets").alias("packets"))


def _read(
    spark: SparkSession, make_sink: MakeSink, schema: T.StructType, path: Path, ports: Sequence[int]
) -> DataFrame:
    """One file, whose sink asks for no run."""
    size, name = path.stat().st_size, str(path.resolve())
    if size > _LARGEST_WHOLE:
        return _followed(make_sink, schema, _captured(spark, [{"path": name, "ports": list(ports)}]), size)
    shares = [{"path": name, "ports": tuple(ports), **share} for share in _shares(size)]
    return _followed_whole(spark, make_sink, schema, shares)


def _shares(size: int) -> list[dict[str, int]]:
    shares = 2 if size >= _SHARED_BYTES else 1
    return [{"share": share, "shares": shares} for share in range(shares)]


def _followed_whole(
    spark: SparkSession, make_sink: MakeSink, schema: T.StructType, shares: Sequence[dict[str, Any]]
) -> DataFrame:
    """One task for each share: numbers say which, so that nothing has to move before the tasks begin."""
    work = spark.range(0, len(shares), 1, len(shares))
    follow: Any = F.arrow_udtf(_whole_follower(make_sink, shares), returnType=schema)  # typed as a decorator only
    followed: DataFrame = follow(work.asTable())
    return followed


def _captured(spark: SparkSession, files: Sequence[dict[str, Any]]) -> DataFrame:
    spark.dataSource.register(PcapSource)
    return spark.read.format("pcap").option("files", json.dumps(list(files))).load()


def _followed(make_sink: MakeSink, schema: T.StructType, captured: DataFrame, size: int) -> DataFrame:
    tasks = max(_FEWEST_TASKS, math.ceil(size / _BYTES_PER_TASK))
    together = captured.repartition(tasks, "path", "client", "broker").sortWithinPartitions(
        "path", "client", "broker", "number"
    )
    follow: Any = F.arrow_udtf(_meeting_follower(make_sink), returnType=schema)
    followed: DataFrame = follow(together.asTable())
    return followed


def match_messages(followed: DataFrame, *, tasks: int = _FEWEST_TASKS) -> DataFrame:
    """Publications that came with those that left, of schemas.captured.MATCHED."""
    messages = followed.where(F.col("messages").isNotNull()).select("run_id", "tap", "messages.*")
    together = messages.repartition(tasks, "run_id", "bucket").sortWithinPartitions("run_id", "bucket")
    match: Any = F.arrow_udtf(MatchMessages, returnType=MATCHED)
    matched: DataFrame = match(together.asTable())
    return matched


def _whole_follower(make_sink: MakeSink, shares: Sequence[dict[str, Any]]) -> type:
    """The table function that takes numbers of shares of files."""

    class FollowWhole:
        def eval(self, numbers: pa.RecordBatch) -> Iterator[pa.Table]:
            for number in numbers.column("id").to_pylist():
                row = shares[number]
                yield from WholeFile(CaptureFile(row["path"], row["ports"]), row, make_sink()).follow()

    return FollowWhole


def _meeting_follower(make_sink: MakeSink) -> type:
    """The table function that takes segments, of schemas.captured.CAPTURED, sorted by connection."""

    class FollowMeeting:
        def __init__(self) -> None:
            self._walk = Walk(make_sink())

        def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
            yield from self._walk.take(rows)

        def terminate(self) -> Iterator[pa.Table]:
            yield from self._walk.end()

    return FollowMeeting


class MatchMessages:
    """Publications sorted by run and bucket to schemas.captured.MATCHED."""

    def __init__(self) -> None:
        self._key: tuple[str | None, int] | None = None
        self._taps: dict[str, list[Longs]] = {}

    def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        names = (rows.column(name).to_pylist() for name in ("run_id", "tap", "bucket"))
        for at, (run_id, tap, bucket) in enumerate(zip(*names, strict=True)):
            if (run_id, bucket) != self._key:
                yield from self.terminate()
                self._key = (run_id, bucket)
            # A copy: the batch is gone when the next one comes.
            self._taps.setdefault(tap, []).append(numbers(rows.column("packed")[at], MESSAGE_COLUMNS).copy())

    def terminate(self) -> Iterator[pa.Table]:
        if self._key is None:
            return
        found = legs_of({tap: np.concatenate(parts) for tap, parts in self._taps.items()})
        rows = [{"run_id": self._key[0], **row} for row in found]
        self._key, self._taps = None, {}
        yield pa.Table.from_pylist(rows, schema=arrow_schema(MATCHED))
