"""From rows of segments, sorted by connection, to packets: the part of a Spark task that knows no Spark."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.capture.compiled import Longs
from brokerlab.pipeline.capture.container import open_capture
from brokerlab.pipeline.capture.follow import Connection, Counts, Room

SEGMENT_COLUMNS = 4


class Key(NamedTuple):
    path: str
    client: str
    broker: str


class Sink(Protocol):
    """What becomes of packets."""

    is_hashed: bool  # whether it looks at the hashes of topics and payloads

    def part(self, row: dict[str, Any], /) -> Iterator[pa.Table]:
        """A row that tells about a part of a file."""
        ...

    def begin(self, row: dict[str, Any], /) -> None:
        """The rows of a file begin; those that follow are of the same one until its end."""
        ...

    def add(self, key: Key, packets: Longs, /) -> Iterator[pa.Table]:
        """Packets of a connection; their memory is used again."""
        ...

    def count(self, segments: Longs, fresh: Longs, /) -> None:
        """Segments of a connection, and how many bytes of each were new."""
        ...

    def close(self, counts: Counts, /) -> None:
        """A connection has come to its end."""
        ...

    def end(self) -> Iterator[pa.Table]: ...


def numbers(blob: Any, columns: int) -> Longs:
    """Packed rows, where they lie."""
    return np.frombuffer(blob.as_buffer(), dtype=np.int64).reshape(-1, columns)


class Walk:
    """Follows one connection after the other."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._room = sink, Room()
        self._key: Key | None = None
        self._path: str | None = None
        self._data = np.empty(0, dtype=np.uint8)
        self._connection: Connection | None = None

    def take(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        """Rows of schemas.captured.CAPTURED, with whatever else stands beside."""
        names = (rows.column(name).to_pylist() for name in Key._fields)
        for at, key in enumerate(map(Key._make, zip(*names, strict=True))):
            if key.client is None:
                yield from self._sink.part(_about(rows, at))
                continue
            if key != self._key:
                yield from self._close()
                yield from self._open(key, rows, at)
            assert self._connection is not None
            # A copy: what was read from it may be kept, and the compiled walks take writable arrays.
            segments = numbers(rows.column("segments")[at], SEGMENT_COLUMNS).copy()
            fresh = np.zeros(len(segments), dtype=np.int64)
            for packets in self._connection.feed(segments, fresh):
                yield from self._sink.add(key, packets)
            self._sink.count(segments, fresh)

    def end(self) -> Iterator[pa.Table]:
        yield from self._close()
        if self._path is not None:
            yield from self._sink.end()

    def _open(self, key: Key, rows: pa.RecordBatch, at: int) -> Iterator[pa.Table]:
        if key.path != self._path:
            if self._path is not None:
                yield from self._sink.end()
            self._path, self._data = key.path, open_capture(key.path)
            self._sink.begin(_about(rows, at))
        self._key, self._connection = key, Connection(self._data, self._room, is_hashed=self._sink.is_hashed)

    def _close(self) -> Iterator[pa.Table]:
        if self._connection is None or self._key is None:
            return
        for packets in self._connection.finish():
            yield from self._sink.add(self._key, packets)
        self._sink.close(self._connection.counts())
        self._connection = None


def _about(rows: pa.RecordBatch, at: int) -> dict[str, Any]:
    """A row without its segments."""
    names = [name for name in rows.schema.names if name != "segments"]
    return {name: rows.column(name)[at].as_py() for name in names}
