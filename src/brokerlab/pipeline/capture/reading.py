"""Captures on Spark: segments of the data source `pcap` meet by connection, publications by message.

files ──► pcap ──► by connection: FollowStreams ──► counts, and publications ──► by message: MatchMessages ──► legs
"""

import json
import math
from collections.abc import Iterator, Sequence
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
from brokerlab.pipeline.capture.sinks import CountingSink, PacketSink
from brokerlab.pipeline.capture.source import MQTT_PORT, PcapSource
from brokerlab.pipeline.capture.taps import Tap, taps_of_runs
from brokerlab.pipeline.capture.walk import Walk, numbers
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.captured import FOLLOWED, MATCHED, PACKETS, TAPS
from brokerlab.pipeline.sources import small_frame

__all__ = ["match_messages", "read_captures", "read_packets", "taps_of_runs"]

_FEWEST_TASKS = 8
_BYTES_PER_TASK = 64 * 2**20
_BYTES_PER_BUCKET = 256 * 2**20


def read_captures(spark: SparkSession, taps: Sequence[Tap]) -> DataFrame:
    """What the captures come to, of schemas.captured.FOLLOWED; computed anew by every action: write it once."""
    size = sum(Path(tap.path).stat().st_size for tap in taps if Path(tap.path).exists())
    files = [{"path": tap.path, "ports": list(tap.ports) or [MQTT_PORT]} for tap in taps]
    spark.dataSource.register(PcapSource)
    captured = spark.read.format("pcap").option("files", json.dumps(files)).load()
    known = captured.join(F.broadcast(small_frame(spark, [tap.row() for tap in taps], TAPS)), on="path", how="inner")
    buckets = 1 + size // _BYTES_PER_BUCKET
    return _followed(FollowStreams, FOLLOWED, known.withColumn("buckets", F.lit(buckets)), size)


def read_packets(
    spark: SparkSession, path: Path, *, ports: Sequence[int] = (MQTT_PORT,), columns: Sequence[str] = PACKETS.names
) -> DataFrame:
    """The MQTT packets of one capture, one row each; columns that are not asked for are not made."""
    spark.dataSource.register(PcapSource)
    file = [{"path": str(path.resolve()), "ports": list(ports)}]
    captured = spark.read.format("pcap").option("files", json.dumps(file)).load()
    schema = T.StructType([PACKETS[column] for column in columns])
    return _followed(_packet_lister(tuple(columns)), schema, captured, path.stat().st_size)


def _followed(function: type, schema: T.StructType, captured: DataFrame, size: int) -> DataFrame:
    tasks = max(_FEWEST_TASKS, math.ceil(size / _BYTES_PER_TASK))
    together = captured.repartition(tasks, "path", "client", "broker").sortWithinPartitions(
        "path", "client", "broker", "number"
    )
    follow: Any = F.arrow_udtf(function, returnType=schema)  # typed as a decorator only
    followed: DataFrame = follow(together.asTable())
    return followed


def match_messages(followed: DataFrame, *, tasks: int = _FEWEST_TASKS) -> DataFrame:
    """Publications that came with those that left, of schemas.captured.MATCHED."""
    messages = followed.where(F.col("messages").isNotNull()).select("run_id", "tap", "messages.*")
    together = messages.repartition(tasks, "run_id", "bucket").sortWithinPartitions("run_id", "bucket")
    match: Any = F.arrow_udtf(MatchMessages, returnType=MATCHED)
    matched: DataFrame = match(together.asTable())
    return matched


class FollowStreams:
    """The table function: segments sorted by connection come in batches, of schemas.captured.FOLLOWED leave."""

    def __init__(self) -> None:
        self._walk = Walk(CountingSink())

    def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        yield from self._walk.take(rows)

    def terminate(self) -> Iterator[pa.Table]:
        yield from self._walk.end()


def _packet_lister(columns: tuple[str, ...]) -> type:
    """The same, to these columns of one row per packet."""

    class ListPackets:
        def __init__(self) -> None:
            self._walk = Walk(PacketSink(columns))

        def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
            yield from self._walk.take(rows)

        def terminate(self) -> Iterator[pa.Table]:
            yield from self._walk.end()

    return ListPackets


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
