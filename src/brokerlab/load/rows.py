"""Columns of raw rows on their way to the run directory."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from brokerlab.load.identity import UNKNOWN_NS
from brokerlab.load.ring import FIRST_SIZE
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.load.tally import Tally
from brokerlab.load.topics import own_topics
from brokerlab.load.wire import NO_SUBSCRIBERS, TIME, UNHEARD
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import DELIVERIES, PUBLICATIONS

Longs = NDArray[np.int64]
Columns = tuple[Longs, NDArray[np.int32], Longs, Longs, int]  # of deliveries, and the first row that is free

ROWS = 65_536
RECORD_AT = 4096  # rows of one publisher that wait in its ring before they are recorded
_FEWEST = 4
PUBLISHER, SEQ, INTENDED, SENT, ACKED, BYTES = range(6)  # columns of publications


def recorded_at(client: Client, publishers: int) -> int:
    """How many rows of a publisher wait before they are recorded.

    Few of one among many, and not as many as of the next, or all would be recorded in the same moment; of thousands no
    more than fit into a ring that has not grown.
    """
    few = max(_FEWEST, min(RECORD_AT, ROWS // publishers))
    if few < FIRST_SIZE:
        few = _FEWEST
    return few + client.number % few


class PublicationRows:
    """Gathers publications of all publishers of a worker and passes them on in large batches.

    There may be ten thousand publishers with a few rows each: their rows are copied where they come, and the writer's
    thread makes columns of them, so that passing them on takes a moment, for which the schedule waits.
    """

    def __init__(
        self, writer: PartWriter, *, topics: Mapping[int, Sequence[str]], qos: int, retain: bool = False,
        is_busy: bool = False,
    ) -> None:  # fmt: skip
        """`topics` are those of each publisher, which its messages take in turn; `is_busy`: many are to come."""
        self._writer = writer
        self._qos, self._retain = qos, retain
        self._topics = pa.array(list(itertools.chain.from_iterable(topics.values())), pa.string())
        lengths = [len(own) for own in topics.values()]
        # Where the topics of each publisher, by its number, begin among all, and how many they are.
        self._own = np.zeros((2, max(topics, default=0) + 1), dtype=np.int64)
        self._own[:, list(topics)] = np.cumsum(lengths) - lengths, lengths
        self._fresh()
        if is_busy:
            made_up = np.arange(6 * ROWS).reshape(6, ROWS)
            made_up[PUBLISHER] = next(iter(topics))
            writer.rehearse(partial(self._batch, made_up))

    def _fresh(self) -> None:
        self._columns: Longs = np.empty((6, ROWS), dtype=np.int64)
        self._used = 0

    def add(
        self, publisher: int, first_seq: int, intended_ns: Longs, sent_ns: Longs, acked_ns: Longs,
        payload_bytes: int | Longs,
    ) -> None:  # fmt: skip
        """Takes rows of one publisher in order of seq; `payload_bytes` is the size of all, or of each.

        A time of 0 is one that never came; `acked_ns` holds reason codes as wire.walk_acknowledgements leaves them.
        """
        done, count = 0, intended_ns.size
        while done < count:
            part = slice(done, done + min(count - done, ROWS - self._used))
            rows = self._columns[:, self._used : self._used + part.stop - part.start]
            rows[PUBLISHER] = publisher
            rows[SEQ] = np.arange(first_seq + part.start, first_seq + part.stop)
            rows[INTENDED], rows[SENT], rows[ACKED] = intended_ns[part], sent_ns[part], acked_ns[part]
            rows[BYTES] = payload_bytes if isinstance(payload_bytes, int) else payload_bytes[part]
            self._used += part.stop - part.start
            done = part.stop
            if self._used == ROWS:
                self.flush()

    def columns(self) -> tuple[Longs, int]:
        """What others may fill, all rows of a publication, and from where on."""
        return self._columns, self._used

    def filled(self, until: int) -> None:
        """The rows before `until` are complete."""
        self._used = until
        if self._used == ROWS:
            self.flush()

    def flush(self) -> None:
        if self._used:
            self._writer.write(partial(self._batch, self._columns[:, : self._used]))
            self._fresh()

    def _batch(self, rows: Longs) -> pa.RecordBatch:
        publisher, seq, intended, sent, acked, size = rows
        is_refused = acked < 0
        is_unheard = ~is_refused & (acked & UNHEARD != 0)
        columns = [
            pa.array(publisher.astype(np.int32)),
            pa.array(seq),
            self._topics_of(publisher, seq),
            pa.array(np.full(seq.size, self._qos, dtype=np.int8)),
            pa.array(np.full(seq.size, self._retain, dtype=np.bool_)),
            pa.array(size.astype(np.int32)),
            pa.array(intended),
            pa.array(sent, mask=sent == 0),
            pa.array(acked & TIME, mask=is_refused | (acked & TIME == 0)),
            pa.array(np.where(is_unheard, NO_SUBSCRIBERS, -acked).astype(np.int16), mask=~is_refused & ~is_unheard),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=PUBLICATIONS)

    def _topics_of(self, publisher: Longs, seq: Longs) -> pa.Array:
        first, count = self._own[:, publisher]
        return self._topics.take(pa.array(first + seq % count))


def rows_of(spec: WorkerSpec, writer: PartWriter) -> PublicationRows:
    """Those of a worker of publishers."""
    topics = {client.number: own_topics(client, spec.workload) for client in spec.clients}
    return PublicationRows(
        writer, topics=topics, qos=spec.workload.qos, retain=spec.workload.retain, is_busy=spec.saturates
    )


@njit("void(i4[::1], i8[::1], i8[::1], i8, i8, i8, i8, i8)", cache=True, nogil=True)
def _stamp(
    subscribers: NDArray[np.int32], received: Longs, resolutions: Longs,
    first: int, until: int, subscriber: int, received_ns: int, resolution_ns: int,
) -> None:  # fmt: skip
    """Three assignments to slices would take as long as reading ten messages."""
    for row in range(first, until):
        subscribers[row], received[row], resolutions[row] = subscriber, received_ns, resolution_ns


class DeliveryRows:
    """Gathers deliveries of all subscribers of a worker, in order of arrival.

    `wire` is what the compiled walk fills (publisher, seq, intended, payload bytes, first byte);
    the other columns are set for a whole read at a time.
    """

    def __init__(self, writer: PartWriter, *, carries_time: bool = True, is_busy: bool = False) -> None:
        """`carries_time`: whether every message holds its intended time; `is_busy`: whether many are to come."""
        self._writer, self._carries_time = writer, carries_time
        self.total = 0
        self.tally: Tally | None = None  # is shown the rows on their way
        self._fresh()
        if is_busy:
            wire, times = np.arange(5 * ROWS).reshape(ROWS, 5), np.arange(ROWS)
            writer.rehearse(partial(self._batch, wire, times.astype(np.int32), times, times))

    def _fresh(self) -> None:
        self.wire: Longs = np.empty((ROWS, 5), dtype=np.int64)
        self._subscriber = np.empty(ROWS, dtype=np.int32)
        self._received_ns = np.empty(ROWS, dtype=np.int64)
        self._resolution_ns = np.empty(ROWS, dtype=np.int64)
        self.used = 0

    def stamp(self, subscriber: int, until: int, received_ns: int, resolution_ns: int) -> None:
        """Completes the rows from `used` to `until`, which one read brought."""
        _stamp(
            self._subscriber, self._received_ns, self._resolution_ns,
            self.used, until, subscriber, received_ns, resolution_ns,
        )  # fmt: skip
        self.filled(until)

    def columns(self) -> Columns:
        """What a round fills (rounds.py), and from where on."""
        return self.wire, self._subscriber, self._received_ns, self._resolution_ns, self.used

    def filled(self, until: int) -> None:
        """The rows from `used` to `until` are complete."""
        self.total += until - self.used
        self.used = until

    def mark_last_exact(self) -> None:
        """The last row of a read carries its own arrival time, if nothing arrived behind it."""
        if self.used:
            self._resolution_ns[self.used - 1] = 0

    def flush(self) -> None:
        if self.used:
            wire, received = self.wire[: self.used], self._received_ns[: self.used]
            if self.tally:
                self.tally.add(wire[:, 2], received)
            own = self._subscriber[: self.used], received, self._resolution_ns[: self.used]
            self._writer.write(partial(self._batch, wire, *own))
            self._fresh()

    def _batch(self, wire: Longs, subscriber: NDArray[np.int32], received: Longs, resolution: Longs) -> pa.RecordBatch:
        first, intended = wire[:, 4], np.ascontiguousarray(wire[:, 2])
        # A message cannot have arrived before it was due, so its latency bounds its resolution too.
        is_unknown = None if self._carries_time else intended == UNKNOWN_NS
        latency = received - (intended if is_unknown is None else np.where(is_unknown, received, intended))
        bounded = np.where(latency > 0, np.minimum(resolution, latency), resolution)
        columns = [
            pa.array(subscriber),
            pa.array(np.ascontiguousarray(wire[:, 0])),
            pa.array(np.ascontiguousarray(wire[:, 1])),
            pa.array(((first >> 1) & 3).astype(np.int8)),
            pa.array((first & 8) != 0),
            pa.array((first & 1) != 0),
            pa.array(wire[:, 3].astype(np.int32)),
            pa.array(intended, mask=is_unknown),
            pa.array(received),
            pa.array(bounded),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=DELIVERIES)
