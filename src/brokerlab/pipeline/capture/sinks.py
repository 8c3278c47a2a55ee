"""What becomes of packets: counts and publications, a row each, or how many there are of each type."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.capture import mqtt
from brokerlab.pipeline.capture.compiled import Longs
from brokerlab.pipeline.capture.counting import Counting
from brokerlab.pipeline.capture.follow import Counts
from brokerlab.pipeline.capture.messages import by_bucket, messages_in
from brokerlab.pipeline.capture.taps import phases_of
from brokerlab.pipeline.capture.walk import Key
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.captured import FOLLOWED, PACKETS, TYPES

_AT_ONCE = 1 << 18
_FOLLOWED, _PACKETS, _TYPES = arrow_schema(FOLLOWED), arrow_schema(PACKETS), arrow_schema(TYPES)


class CountingSink:
    """Rows of schemas.captured.FOLLOWED; publications leave as soon as there are many."""

    is_hashed = True

    def __init__(self) -> None:
        self._messages: list[Longs] = []
        self._held = 0

    def part(self, row: dict[str, Any]) -> Iterator[pa.Table]:
        yield _followed([{"run_id": row["run_id"], "tap": row["tap"], "part": row["part"]}])

    def begin(self, row: dict[str, Any]) -> None:
        self._of = {"run_id": row["run_id"], "tap": row["tap"]}
        self._buckets = row["buckets"]
        self._phases = phases_of(row["run_directory"])
        self._counting, self._counts = Counting(self._phases), Counts()

    def count(self, segments: Longs, fresh: Longs) -> None:
        self._counting.add_segments(segments, fresh)

    def add(self, key: Key, packets: Longs) -> Iterator[pa.Table]:
        self._counting.add_packets(packets)
        who = zlib.crc32(f"{key.client} {key.broker}".encode())
        self._messages.append(messages_in(packets, self._phases, who=who))
        self._held += len(self._messages[-1])
        if self._held >= _AT_ONCE:
            yield from self._leave()

    def close(self, counts: Counts) -> None:
        self._counts = Counts(*(getattr(self._counts, at.name) + getattr(counts, at.name) for at in fields(Counts)))

    def end(self) -> Iterator[pa.Table]:
        yield from self._leave()
        rows = [{**self._of, "counted": row} for row in self._counting.rows()]
        yield _followed([*rows, {**self._of, "following": asdict(self._counts)}])

    def _leave(self) -> Iterator[pa.Table]:
        if self._held:
            messages = np.concatenate(self._messages)
            buckets = by_bucket(messages, self._buckets)
            packed = ({"bucket": number, "packed": rows.tobytes()} for number, rows in buckets)
            yield _followed([{**self._of, "messages": each} for each in packed])
        self._messages, self._held = [], 0


def _followed(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_FOLLOWED)


class PacketSink:
    """Rows of schemas.captured.PACKETS, or some columns of them."""

    def __init__(self, columns: Sequence[str] = PACKETS.names) -> None:
        self._schema = pa.schema([_PACKETS.field(column) for column in columns])
        self.is_hashed = bool({"topic_hash", "payload_hash"} & set(columns))

    def part(self, _row: dict[str, Any]) -> Iterator[pa.Table]:
        yield from ()

    def begin(self, _row: dict[str, Any]) -> None:
        pass

    def add(self, key: Key, packets: Longs) -> Iterator[pa.Table]:
        names, rows = key._asdict(), len(packets)
        columns = [
            pa.repeat(pa.scalar(names[field.name]), rows) if field.name in names else _column(packets, field)
            for field in self._schema
        ]
        yield pa.Table.from_arrays(columns, schema=self._schema)

    def count(self, _segments: Longs, _fresh: Longs) -> None:
        pass

    def close(self, _counts: Counts) -> None:
        pass

    def end(self) -> Iterator[pa.Table]:
        yield from ()


class TypeSink:
    """Rows of schemas.captured.TYPES: one for each type of packet that a file has, however many parts it lies in."""

    is_hashed = False

    def __init__(self) -> None:
        self._packets = np.zeros(len(mqtt.TYPES), dtype=np.int64)

    def part(self, _row: dict[str, Any]) -> Iterator[pa.Table]:
        yield from ()

    def begin(self, row: dict[str, Any]) -> None:
        self._path = row["path"]

    def add(self, _key: Key, packets: Longs) -> Iterator[pa.Table]:
        self._packets += np.bincount(packets[:, mqtt.KIND] & 15, minlength=self._packets.size)
        yield from ()

    def count(self, _segments: Longs, _fresh: Longs) -> None:
        pass

    def close(self, _counts: Counts) -> None:
        pass

    def end(self) -> Iterator[pa.Table]:
        found = np.flatnonzero(self._packets)
        rows = [{"path": self._path, "packet_type": int(kind), "packets": int(self._packets[kind])} for kind in found]
        yield pa.Table.from_pylist(rows, schema=_TYPES)
        self._packets[:] = 0


_COLUMNS = {
    "packet_id": mqtt.PACKET_ID,
    "topic_hash": mqtt.TOPIC,
    "topic_bytes": mqtt.TOPIC_BYTES,
    "payload_hash": mqtt.PAYLOAD,
    "payload_bytes": mqtt.PAYLOAD_BYTES,
    "bytes": mqtt.SIZE,
    "first_ns": mqtt.FIRST_NS,
    "last_ns": mqtt.LAST_NS,
}


def _column(packets: Longs, field: pa.Field) -> pa.Array:
    kind = packets[:, mqtt.KIND]
    if field.name == "packet_type":
        return pa.array(kind & 15, field.type)
    if field.name == "flags":
        return pa.array(kind >> 4 & 15, field.type)
    if field.name == "to_broker":
        return pa.array((kind & mqtt.FROM_CLIENT) > 0, field.type)
    values = packets[:, _COLUMNS[field.name]]
    is_publish = (kind & 15) == mqtt.PUBLISH
    unknown = {
        "packet_id": values == 0,
        "topic_hash": ~is_publish | (packets[:, mqtt.TOPIC_BYTES] < 0),
        "topic_bytes": ~is_publish | (values < 0),
        "payload_hash": ~is_publish | ((kind & mqtt.IS_WHOLE) == 0),
        "payload_bytes": ~is_publish | (values < 0),
    }
    return pa.array(values, field.type, mask=unknown.get(field.name))
