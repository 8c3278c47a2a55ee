"""A file on the wire: its records as messages, their times, and which record a message is.

Nothing is added to a record, so a subscriber tells it by its bytes: it is the next record of its publisher with the
same hash, or, where there is none ahead or DUP is set, the last one behind. Equal records follow each other in
order; bytes that are in no record are no message of the run.
"""

# mypy: disable-error-code="assignment, return-value, arg-type, no-any-return"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from brokerlab.errors import UserError
from brokerlab.load import shapes
from brokerlab.load.content import LARGE_BYTES
from brokerlab.load.identity import UNKNOWN_NS, hashed, owners_of, payload_at, place_in
from brokerlab.load.pieces import Block, Piece
from brokerlab.load.schedule import Span, constant_ns
from brokerlab.load.shapes import Name, Words
from brokerlab.load.spec import Client
from brokerlab.load.wire import Bytes, Longs
from brokerlab.study.problems import RuleError
from brokerlab.study.replay import Records, records_of, shares_of
from brokerlab.study.values import Replay, Schedule, Workload


def replayed(replay: Replay) -> Records:
    """The records; a file that is gone or has changed since the study was read is the user's to put right."""
    try:
        return records_of(replay)
    except RuleError as problem:
        raise UserError(problem.rule, hint="start the study again to read the file anew") from problem


@lru_cache(maxsize=2)
def _octets(data: bytes) -> Bytes:
    """The file once for all publishers of a worker; writable, because the compiled loops ask for that."""
    return np.frombuffer(bytearray(data), dtype=np.uint8)


class RecordMessages:
    """Implements Messages: the records of one publisher, in the order of the file."""

    def __init__(
        self, client: Client, workload: Workload, replay: Replay, *, level: int, names: Sequence[Name]
    ) -> None:  # fmt: skip
        records = replayed(replay)
        own = shares_of(records, replay.split, publishers=workload.publishers)[client.number]
        self._begins, self._sizes = records.begins[own], records.ends[own] - records.begins[own]
        self._data = _octets(records.data)
        self._heads = shapes.heads_of(names, workload, level=level)
        self.count = None if replay.repeat else own.size
        self.offsets_ns = None if records.offsets_ns is None else records.offsets_ns[own]
        self.largest = shapes.packet_bytes(self._heads.longest + int(self._sizes.max(initial=0)))
        self.built_bytes = min(self.largest, self._heads.longest + LARGE_BYTES)

    def _places(self, first_seq: int, count: int) -> Longs:
        return np.arange(first_seq, first_seq + count) % max(self._sizes.size, 1)

    def payload_bytes(self, first_seq: int, count: int) -> Longs:
        return self._sizes[self._places(first_seq, count)]

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        count = intended_ns.size
        places = self._places(first_seq, count)
        begins, sizes = self._begins[places], self._sizes[places]
        copied = np.where(sizes > LARGE_BYTES, 0, sizes)
        out = np.empty(count * (5 + self._heads.longest) + int(copied.sum()), dtype=np.uint8)
        starts, ends = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        used = shapes.build(
            self._heads.first_byte,
            self._heads.data,
            self._heads.ends,
            self._heads.has_id,
            self._data,
            begins,
            sizes,
            copied,
            first_seq,
            out,
            starts,
            ends,
        )
        if (copied == sizes).all():
            return (Piece(memoryview(out[:used].data), ends=ends),)
        return tuple(self._pieces(memoryview(out.data), begins, sizes, ends))

    def _pieces(self, data: memoryview, begins: Longs, sizes: Longs, ends: Longs) -> Iterator[Piece]:
        """A large record is sent from the file as it lies in memory."""
        at = 0
        for begin, size, end in zip(begins.tolist(), sizes.tolist(), ends.tolist(), strict=True):
            is_large = size > LARGE_BYTES
            yield Piece(data[at:end], stride=0 if is_large else end - at)
            if is_large:
                yield Piece(memoryview(self._data[begin : begin + size].data), stride=size)
            at = end


def replay_ns(messages: RecordMessages, schedule: Schedule, span: Span) -> Iterator[Longs]:
    """When each record is due: at its own time from the start of the measure phase on, or at a constant rate."""
    if messages.offsets_ns is None:
        since = Span(span.measure_ns, span.end_ns, span.measure_ns, span.publisher, span.publishers)
        yield from constant_ns(schedule, since)
        return
    for first in range(0, messages.offsets_ns.size, span.chunk):
        offsets = messages.offsets_ns[first : first + span.chunk] / schedule.speed
        yield span.measure_ns + offsets.astype(np.int64)


def limited(times: Iterator[Longs], count: int | None) -> Iterator[Longs]:
    """The times of the first messages: a file that is not repeated ends."""
    return times if count is None else _first(times, count)


def _first(times: Iterator[Longs], count: int) -> Iterator[Longs]:
    for chunk in times:
        if count > 0:
            yield chunk[:count]
            count -= chunk.size


@njit("i8(u8[::1], i8[::1], i8, i8, i8, u8, i8, b1, b1)", cache=True, nogil=True)
def _found(
    hashes: Words, places: Longs, low: int, high: int, count: int, wanted: int, expected: int, repeats: bool,
    is_dup: bool,
) -> int:  # fmt: skip
    """The sequence number of the record with this hash; -1 where there is none.

    hashes[low:high] of one publisher ascend, and the places of equal ones do.
    """
    first = low + np.searchsorted(hashes[low:high], wanted)
    last = first
    while last < high and hashes[last] == wanted:
        last += 1
    if first == last:
        return -1
    at = expected % count if repeats else expected
    next_ = first + np.searchsorted(places[first:last], at)
    ahead, behind = np.int64(-1), np.int64(-1)
    if next_ < last:
        ahead = places[next_] - at
    elif repeats:
        ahead = places[first] + count - at
    if next_ > first:
        behind = at - places[next_ - 1]
    elif repeats and expected >= count:
        behind = at + count - places[last - 1]
    goes_back = behind > 0 and (ahead < 0 or is_dup or (repeats and ahead > count // 2))
    return expected - behind if goes_back else expected + ahead


@njit(
    "void(u1[::1], i8, i8[:, ::1], i8, i8, u8[::1], i8[::1], i8[::1], i8[::1], u8[::1], i8[::1], b1)",
    cache=True, nogil=True,
)  # fmt: skip
def _resolve(
    buffer: Bytes, level: int, rows: Longs, row: int, until: int, topics: Words, owners: Longs, expected: Longs,
    bases: Longs, hashes: Words, places: Longs, repeats: bool,
) -> None:  # fmt: skip
    """Completes the rows of a walk; where a topic has several publishers, the one whose record is nearest ahead."""
    for r in range(row, until):
        first, begin = rows[r, 4] & 0xFF, rows[r, 4] >> 8
        wanted = hashed(buffer, payload_at(buffer, begin, first, level), rows[r, 3])
        low, high = np.int64(0), np.int64(0)
        if topics.size:
            place = place_in(topics, hashed(buffer, begin + 2, np.int64(buffer[begin]) << 8 | buffer[begin + 1]))
            if place >= 0:
                low, high = owners[place], owners[place] + 1
        else:
            high = expected.size
        publisher, seq = np.int64(-1), np.int64(-1)
        for each in range(low, high):
            count = bases[each + 1] - bases[each]
            if count == 0:
                continue
            found = _found(
                hashes, places, bases[each], bases[each + 1], count, wanted, expected[each], repeats, (first & 8) != 0
            )
            is_nearer = publisher < 0 or abs(found - expected[each]) < abs(seq - expected[publisher])
            if found >= 0 and is_nearer:
                publisher, seq = np.int64(each), found
        if publisher >= 0:
            expected[publisher] = max(expected[publisher], seq + 1)
        rows[r, 0], rows[r, 1], rows[r, 2] = publisher, seq, UNKNOWN_NS


@njit("void(u1[::1], i8[::1], i8[::1], u8[::1])", cache=True, nogil=True)
def _hash_all(data: Bytes, begins: Longs, sizes: Longs, out: Words) -> None:
    for i in range(begins.size):
        out[i] = hashed(data, begins[i], sizes[i])


@dataclass(frozen=True, slots=True)
class RecordResolver:
    """Tells records by their bytes."""

    topics: Words
    owners: Longs
    bases: Longs  # where the records of each publisher begin, and one more
    hashes: Words  # by publisher, ascending
    places: Longs  # sequence number of each
    repeats: bool

    def expected(self) -> Longs:
        return np.zeros(self.bases.size - 1, dtype=np.int64)

    def resolve(self, buffer: Bytes, level: int, rows: Longs, row: int, until: int, expected: Longs) -> None:
        _resolve(
            buffer, level, rows, row, until, self.topics, self.owners, expected, self.bases, self.hashes, self.places,
            self.repeats,
        )  # fmt: skip


def record_resolver(workload: Workload, replay: Replay) -> RecordResolver:
    records = replayed(replay)
    data = _octets(records.data)
    every = np.empty(records.count, dtype=np.uint64)
    _hash_all(data, records.begins, records.ends - records.begins, every)
    shares = shares_of(records, replay.split, publishers=workload.publishers)
    orders = [np.argsort(every[own], kind="stable") for own in shares]
    hashes = np.concatenate([every[own][order] for own, order in zip(shares, orders, strict=True)])
    bases = np.concatenate([[0], np.cumsum([own.size for own in shares])]).astype(np.int64)
    places = np.concatenate(orders).astype(np.int64)
    return RecordResolver(*owners_of(workload), bases, hashes, places, replay.repeat)
