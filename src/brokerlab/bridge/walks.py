"""The compiled walks of a bridge: from the bytes of one broker to the bytes of the other, many messages at a time.

    walk_inlet      what came from the source -> rows, with loops and repetitions taken out
    emit            acknowledgements for the source, in the order in which its messages came

The way to the target is in outwalks.py.

Tables have a place for each packet identifier, `u` upstream (given by the source) and `d` downstream (ours):

    u_state   FREE, ONE (QoS 1, on its way), TWO (QoS 2, on its way), DONE (through; its PUBREL is still to come)
    d_state   FREE, ONE, TWO (sent), RECEIVED (PUBREC came; PUBCOMP is still to come)

Those of QoS 2 lie in files (log.py): whatever stops the bridge, the same identifiers are used for the same messages
afterwards, and the target knows what it has already (MQTT 3.1.1 section 4.4).
"""

# mypy: disable-error-code="assignment, return-value, arg-type, no-any-return"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokerlab.load.echowalk import _two, _value_bytes, _variable

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]

IDS = 65_536
FREE, ONE, TWO, DONE, RECEIVED = 0, 1, 2, 3, 4
NEED_MORE, OTHER, MALFORMED, FULL = 0, 1, 2, 3  # why a walk stopped

# The columns of a row.
FIRST, TOPIC_AT, TOPIC_BYTES, UPSTREAM, PROPERTIES_AT, PROPERTIES_BYTES, PAYLOAD_AT, END = range(8)
DIGEST, LANE, DOWNSTREAM, COLUMNS = range(8, 12)

# Places of `tally`.
RECEIVED_COUNT, LOOPED, REPEATED, RECEIVED_BYTES = range(4)

_PROBES = 16
_FORGET_S = 600  # after so long a message of ours is not waited for any more


class Upstream(NamedTuple):
    """What is known of the source's packet identifiers; `order` has those that wait for their acknowledgement."""

    state: Bytes
    lane: Bytes
    downstream: NDArray[np.uint16]
    digest: Longs
    place: Longs  # in the order; -1 for none
    order: Longs  # a ring: identifier << 8 | first byte of the acknowledgement; 0 for one that was let go
    order_done: Bytes
    ends: Longs  # (first, after the last) of the ring, counted on


class Downstream(NamedTuple):
    """What is known of our packet identifiers at the target: a row for each lane."""

    state: Bytes
    source: NDArray[np.uint16]  # the source's identifier; 0 where it does not wait for us any more
    is_held: Bytes  # its bytes are in memory


class Memory(NamedTuple):
    """Digests of what the other direction published here, for brokers that carry no marks; may be empty."""

    keys: Longs
    counts: NDArray[np.int32]
    stamps: NDArray[np.int32]  # seconds


@njit("i8(u1[::1], i8, i8, i8)", cache=True, nogil=True)
def digest_of(buffer: Bytes, begin: int, end: int, seed: int) -> int:
    """A hash of 64 bits (FNV-1a); never 0."""
    value = np.uint64(seed) ^ np.uint64(0xCBF29CE484222325)
    for at in range(begin, end):
        value = (value ^ np.uint64(buffer[at])) * np.uint64(0x100000001B3)
    value ^= value >> np.uint64(29)
    return np.int64(value) if value else np.int64(1)


@njit("UniTuple(i8, 2)(u1[::1], i8, i8)", cache=True, nogil=True)
def head(buffer: Bytes, length: int, at: int) -> tuple[int, int]:
    """Where the body of the packet at `at` begins and ends; (-1, NEED_MORE or MALFORMED) where it is not whole."""
    size = np.int64(0)
    for k in range(4):
        place = at + 1 + k
        if place >= length:
            return -1, 0
        digit = np.int64(buffer[place])
        size |= (digit & 0x7F) << (7 * k)
        if digit < 0x80:
            end = place + 1 + size
            return (place + 1, end) if end <= length else (-1, 0)
    return -1, 2


@njit(cache=True, nogil=True)
def _take_memory(memory: Any, key: int, now_s: int, is_again: bool) -> bool:
    """Whether the message is one of ours that comes back; a repetition of one may be known without being due."""
    size = memory.keys.size
    for probe in range(_PROBES if size else 0):
        at = (key + probe) & (size - 1)
        if memory.keys[at] == key and now_s - memory.stamps[at] < _FORGET_S:
            if memory.counts[at] > 0:
                memory.counts[at] -= 1
                return True
            return is_again
    return False


@njit(cache=True, nogil=True)
def put_memory(memory: Any, key: int, now_s: int, is_again: bool) -> None:
    """Notes a message of ours; where there is no room the oldest goes."""
    size = memory.keys.size
    oldest = key & (size - 1)
    for probe in range(_PROBES):
        at = (key + probe) & (size - 1)
        if memory.keys[at] == key:
            if now_s - memory.stamps[at] >= _FORGET_S:
                memory.counts[at] = 0
            if not is_again or memory.counts[at] == 0:
                memory.counts[at] += 1
            memory.stamps[at] = now_s
            return
        if memory.stamps[at] < memory.stamps[oldest]:
            oldest = at
    memory.keys[oldest], memory.counts[oldest], memory.stamps[oldest] = key, 1, now_s


@njit(cache=True, nogil=True)
def _has_mark(buffer: Bytes, at: int, end: int, mark: Bytes) -> bool:
    """Whether one of the properties is this one, byte for byte."""
    while at < end:
        size = 1 + _value_bytes(buffer, np.int64(buffer[at]), at + 1)
        if size == 1 or at + size > end:
            return False
        if size == mark.size:
            is_same = True
            for k in range(size):
                if buffer[at + k] != mark[k]:
                    is_same = False
                    break
            if is_same:
                return True
        at += size
    return False


@njit(cache=True, nogil=True)
def _push_order(up: Any, identifier: int, first_byte: int, is_done: bool) -> None:
    place = up.ends[1] & (IDS - 1)
    up.order[place] = identifier << 8 | first_byte
    up.order_done[place] = is_done
    up.place[identifier] = place
    up.ends[1] += 1


@njit(cache=True, nogil=True)
def _let_go(up: Any, down: Any, identifier: int) -> None:
    """The source has given the identifier to another message: nobody waits for the old one any more."""
    if up.place[identifier] >= 0:
        up.order[up.place[identifier]] = 0
        up.order_done[up.place[identifier]] = 1
        up.place[identifier] = -1
    if up.state[identifier] == ONE or up.state[identifier] == TWO:
        down.source[up.lane[identifier], up.downstream[identifier]] = 0
    up.state[identifier] = FREE


@njit(cache=True, nogil=True)
def _admit(up: Any, down: Any, identifier: int, first: int, digest: int, row: Any) -> bool:
    """Whether a message of QoS 1 or 2 goes on; otherwise it is on its way already, or through."""
    answer = 0x40 if (first >> 1) & 3 == 1 else 0x50
    is_known = up.place[identifier] >= 0 or up.state[identifier] != FREE
    if is_known and not (first & 8 and up.digest[identifier] == digest):
        _let_go(up, down, identifier)
        is_known = False
    if is_known:
        state, lane, ours = up.state[identifier], up.lane[identifier], up.downstream[identifier]
        if up.place[identifier] >= 0 or state == ONE:
            return False
        _push_order(up, identifier, answer, state == DONE)
        if state == DONE:
            return False
        # On its way when the bridge was stopped.
        if down.source[lane, ours] != identifier or down.state[lane, ours] == FREE:
            up.state[identifier] = FREE  # half written, so never sent
        elif down.state[lane, ours] == RECEIVED:
            return False
        else:
            row[LANE], row[DOWNSTREAM] = lane, ours
        return True
    up.digest[identifier] = digest
    _push_order(up, identifier, answer, False)
    return True


@njit(cache=True, nogil=True)
def _read_row(buffer: Bytes, at: int, begin: int, end: int, level: int, row: Any) -> bool:
    """The row of the PUBLISH that stands here; whether it is one."""
    first = np.int64(buffer[at])
    qos = (first >> 1) & 3
    if end - begin < 2 or qos == 3:
        return False
    row[FIRST], row[TOPIC_AT], row[TOPIC_BYTES] = first, begin + 2, _two(buffer, begin)
    place = begin + 2 + row[TOPIC_BYTES]
    row[UPSTREAM] = row[DOWNSTREAM] = row[PROPERTIES_AT] = row[PROPERTIES_BYTES] = 0
    row[LANE] = -1
    if qos:
        if place + 2 > end:
            return False
        row[UPSTREAM] = _two(buffer, place)
        place += 2
        if row[UPSTREAM] == 0:
            return False
    if level >= 5:
        if place >= end:
            return False
        size, row[PROPERTIES_AT] = _variable(buffer, place)
        row[PROPERTIES_BYTES] = size
        place = row[PROPERTIES_AT] + size
    row[PAYLOAD_AT], row[END] = place, end
    return place <= end


@njit(cache=True, nogil=True)
def walk_inlet(
    buffer: Bytes, length: int, at: int, level: int, rows: Longs, most: int, lanes: int,
    mark: Bytes, memory: Any, now_s: int, up: Any, down: Any, acks: Bytes, tally: Longs,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Reads the source's packets from `at`: a row for each message that goes on, at most `most`.

    A message with the mark of the target was there already, and one that is in the memory was published by us: both
    are acknowledged and go no further.
    Returns (next position, rows, bytes of PUBCOMPs, why it stopped).
    """
    used = 0
    row = 0
    while at < length:
        begin, end = head(buffer, length, at)
        if begin < 0:
            return at, row, used, end
        if row >= most or used + 4 > acks.size or up.ends[1] - up.ends[0] >= IDS - 1:
            return at, row, used, 3
        kind = np.int64(buffer[at]) >> 4
        if kind == 6 and end - begin >= 2:
            identifier = _two(buffer, begin)
            if up.state[identifier] == DONE:
                up.state[identifier] = FREE
            acks[used], acks[used + 1], acks[used + 2], acks[used + 3] = 0x70, 2, buffer[begin], buffer[begin + 1]
            used += 4
        elif kind == 3:
            if not _read_row(buffer, at, begin, end, level, rows[row]):
                return at, row, used, 2
            this = rows[row]
            first, identifier = this[FIRST], this[UPSTREAM]
            qos = (first >> 1) & 3
            name = digest_of(buffer, this[TOPIC_AT], this[TOPIC_AT] + this[TOPIC_BYTES], 0)
            if qos or memory.keys.size:
                this[DIGEST] = digest_of(buffer, this[PAYLOAD_AT], end, name)
            is_on = qos == 0 or _admit(up, down, identifier, first, this[DIGEST], this)
            tally[RECEIVED_COUNT] += 1
            tally[RECEIVED_BYTES] += end - this[PAYLOAD_AT]
            if not is_on:
                tally[REPEATED] += 1
            elif this[DOWNSTREAM] == 0 and (
                _has_mark(buffer, this[PROPERTIES_AT], this[PROPERTIES_AT] + this[PROPERTIES_BYTES], mark)
                or _take_memory(memory, this[DIGEST], now_s, first & 8 != 0)
            ):
                tally[LOOPED] += 1
                if qos:
                    finish(up, identifier)
            else:
                if this[LANE] < 0:
                    this[LANE] = np.int64(np.uint64(name) % np.uint64(lanes))
                row += 1
        else:
            return at, row, used, 1
        at = end
    return at, row, used, 0


@njit(cache=True, nogil=True)
def finish(up: Any, identifier: int) -> None:
    """A message needs nothing more from the target: it is acknowledged when it is its turn."""
    up.state[identifier] = DONE if up.order[up.place[identifier]] & 0xFF == 0x50 else ONE
    up.order_done[up.place[identifier]] = 1


@njit(cache=True, nogil=True)
def emit(up: Any, out: Bytes) -> int:
    """Writes the acknowledgements that are due, in the order of the messages; the number of bytes."""
    used = 0
    while up.ends[0] < up.ends[1] and used + 4 <= out.size:
        place = up.ends[0] & (IDS - 1)
        if not up.order_done[place]:
            break
        entry = up.order[place]
        if entry:
            identifier = entry >> 8
            out[used], out[used + 1] = entry & 0xFF, 2
            out[used + 2], out[used + 3] = identifier >> 8, identifier & 0xFF
            used += 4
            up.place[identifier] = -1
            if entry & 0xFF == 0x40:
                up.state[identifier] = FREE
        up.ends[0] += 1
    return used
