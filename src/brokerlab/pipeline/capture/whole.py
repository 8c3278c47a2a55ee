"""A whole capture file in one task: from its records straight to packets, without a word to other tasks.

Segments of a connection need not travel where one task reads the file from its beginning to its end. Several tasks
share a large file by its connections: each reads the headers of all frames, and follows the connections of its share.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.errors import UserError
from brokerlab.pipeline.capture.compiled import Bytes
from brokerlab.pipeline.capture.container import Records, open_capture, parts_of, record_portions
from brokerlab.pipeline.capture.follow import Connection, Room
from brokerlab.pipeline.capture.frames import SegmentReading, Segments
from brokerlab.pipeline.capture.source import CaptureFile, SeenRecords, told_of_unreadable
from brokerlab.pipeline.capture.walk import Key, Sink

# Segments that are followed at once: few, so that the frames' bytes are still in the processor's cache when their
# packets are read, but not so few that taking up one of many connections weighs more than that.
_FEWEST_AT_ONCE, _OF_EACH, _MOST_AT_ONCE = 1 << 15, 256, 1 << 20
_FED_AT_ONCE = 1 << 17


class WholeFile:
    """One share of the connections of one file, followed."""

    def __init__(self, file: CaptureFile, row: dict[str, Any], sink: Sink) -> None:
        """`row` is what the sink is told of the file; `share` and `shares` in it say which connections are ours."""
        self._file, self._row, self._sink, self._room = file, row, sink, Room()
        self._connections: dict[Key, Connection] = {}

    def follow(self) -> Iterator[pa.Table]:
        """All of it; the first share also tells about the file."""
        is_first = self._row["share"] == 0
        try:
            parts = parts_of(self._file.path, split_bytes=1 << 62)
        except UserError as problem:
            if is_first:
                yield from self._sink.part({**self._row, "part": told_of_unreadable(self._file.path, problem.message)})
            return
        data = open_capture(self._file.path)
        self._sink.begin(self._row)
        for part in parts:
            seen = SeenRecords(part)
            yield from self._portions(data, record_portions(data, part), seen)
            if is_first:
                yield from self._sink.part({**self._row, "part": seen.told()})
        for key, connection in self._connections.items():
            for packets in connection.finish():
                yield from self._sink.add(key, packets)
            self._sink.close(connection.counts())
        yield from self._sink.end()

    def _portions(self, data: Bytes, portions: Iterable[Records], seen: SeenRecords) -> Iterator[pa.Table]:
        share, shares = self._row["share"], self._row["shares"]
        reading = SegmentReading(data, self._file.ports, share=share, shares=shares)
        for records in portions:
            seen.add(records)
            reading.add(records.rows)
            if len(reading) >= min(max(_FEWEST_AT_ONCE, _OF_EACH * reading.connections), _MOST_AT_ONCE):
                yield from self._feed(data, reading.take(), seen)
        yield from self._feed(data, reading.take(), seen)

    def _feed(self, data: Bytes, segments: Segments, seen: SeenRecords) -> Iterator[pa.Table]:
        seen.count(segments.tallies)
        for names, start, end in zip(segments.names, segments.starts, segments.starts[1:], strict=False):
            key = Key(self._file.path, *names)
            connection = self._connections.get(key)
            if connection is None:
                connection = Connection(data, self._room, is_hashed=self._sink.is_hashed)
                self._connections[key] = connection
            for at in range(start, end, _FED_AT_ONCE):
                own = segments.rows[at : min(at + _FED_AT_ONCE, end)]
                fresh = np.zeros(len(own), dtype=np.int64)
                for packets in connection.feed(own, fresh):
                    yield from self._sink.add(key, packets)
                self._sink.count(own, fresh)
