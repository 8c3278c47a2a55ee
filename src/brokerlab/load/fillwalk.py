"""Publishers of a saturating load, served in one compiled call: sleeps, acknowledgements, room in the window, messages.

A worker that gathers (gather.py) comes to its sockets with cold caches after every sleep: what the interpreter did at
each look was as much as all that the kernel does for a hundred messages at QoS 2 (docs/design/0004).

What a publisher keeps lies in a row of a table while the call lasts (filling.py puts it there and takes it back).
Only the usual is dealt with. Before anything else the call ends, and nothing is lost of what it has seen:

    why         what is left to do by who called
    OVER        nothing: the time is over, somebody has written to the worker, or a ring is full
    CLOSED      `place` has nothing more to read
    ODD         bytes `at` to `length` of the buffer are of `place`, and no plain acknowledgements
    PART        at `sent_ns` the socket of `place` took `taken` bytes of PUBRELs and `count` messages due at `now_ns`

PUBRELs of other publishers that were not sent are those with RELEASES above 0.
"""

# mypy: disable-error-code="assignment, no-any-return, call-arg, index, misc"
# (NumPy's integers, as in wire.py; what C returns, and what a pointer points at, is known to Numba only.)

from typing import NamedTuple

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from brokerlab.load import ackwalk
from brokerlab.load.ackwalk import NOTHING, read_acknowledgements
from brokerlab.load.pointers import bytes_at, longs_at
from brokerlab.load.readwalk import DONT_WAIT, monotonic_ns, send, wait
from brokerlab.load.ring import ACKED, HELD, INTENDED, RELEASED, SENT
from brokerlab.load.wire import NEED_MORE, Bytes, Longs, build_publishes, compiled

# Columns of the table. Addresses are those of a publisher's ring, and of the packet that its messages are made of.
(
    FD, FOLLOWING, OLDEST, MOST, RECORDED, RING, RING_SIZE, TEMPLATE, STRIDE, ID_AT, PAYLOAD_AT, NUMBER, LEFT, SINCE,
    LAST, RELEASES_AT, RELEASES,
) = range(17)  # fmt: skip
COLUMNS = 17
LEFT_BYTES = 64  # of an acknowledgement that is not whole yet
OVER, CLOSED, ODD, PART = range(4)


class Filled(NamedTuple):
    """What a call ended with."""

    why: int
    place: int = 0
    at: int = 0
    length: int = 0
    now_ns: int = 0
    taken: int = 0
    count: int = 0
    sent_ns: int = 0


@compiled("i8(i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], f8, f8)")
def _room(
    counts: Longs, published: Longs, delivered: Longs, overtaken: Longs, window: Longs, fan_out: float, portion: float
) -> int:
    """As Window.room has it, where the size is given."""
    passed, sent = 0, 0
    for place in delivered:
        passed += counts[place]
    for place in overtaken:
        passed += counts[place]
    for place in published:
        sent += counts[place]
    room = window[0] - (sent - np.int64(passed / fan_out) - window[1])
    return room if room >= max(1.0, window[0] * portion) else 0


@compiled("UniTuple(i8, 4)(i8[::1], u1[::1], u1[::1], u1[::1], i8, i8, i8[::1], i8[::1])")
def _acknowledged(
    row: Longs, left: Bytes, buffer: Bytes, releases: Bytes, used: int, level: int, words: Longs, seen: Longs
) -> tuple[int, int, int, int]:  # fmt: skip
    """Reads once what acknowledges messages of a row: (why, at, length, when), as a call ends with them."""
    length = row[LEFT]
    buffer[:length] = left[:length]
    ring = carray(longs_at(row[RING]), (5, row[RING_SIZE]))
    is_full = row[FOLLOWING] - row[OLDEST] >= row[MOST]
    row[RELEASES_AT] = used
    at, length, why, row[OLDEST], row[RELEASES], now = read_acknowledgements(
        row[FD], words, buffer, length, level, row[OLDEST], row[FOLLOWING], ring[ACKED], releases[used:], seen
    )
    if why == NOTHING:
        return OVER, 0, 0, 0
    if why == ackwalk.CLOSED:
        return CLOSED, 0, 0, 0
    if is_full and row[FOLLOWING] - row[OLDEST] < row[MOST]:
        row[SINCE] = now
    if why != NEED_MORE or length - at > left.size:
        row[LEFT] = 0
        return ODD, at, length, now
    row[LEFT] = length - at
    left[: length - at] = buffer[at:length]
    return OVER, 0, 0, 0


@compiled("void(i8[::1], i8, i8, i8)")
def _note(row: Longs, count: int, intended_ns: int, sent_ns: int) -> None:
    """The next messages of a row have left: they are in its ring, and followed (at QoS 0 nothing is)."""
    ring = carray(longs_at(row[RING]), (5, row[RING_SIZE]))
    released = max(intended_ns, row[SINCE])
    for turn in range(count):
        here = (row[FOLLOWING] + turn) & (row[RING_SIZE] - 1)
        ring[INTENDED, here], ring[RELEASED, here], ring[SENT, here] = intended_ns, released, sent_ns
        ring[ACKED, here] = ring[HELD, here] = 0
    row[FOLLOWING] += count
    if row[ID_AT] < 0:
        row[OLDEST] = row[FOLLOWING]


@compiled("UniTuple(i8, 4)(i8[::1], i8, i8, u1[::1], u1[::1], i8[::1], i8[::1], i8[::1], i8)")
def _send(
    row: Longs, share: int, now: int, releases: Bytes, out: Bytes, times: Longs, words: Longs, counts: Longs, own: int
) -> tuple[int, int, int, int]:
    """Sends a row's PUBRELs and so many new messages, due `now`: (why, bytes taken, messages not noted, when).

    What goes together costs half of what two calls do: on loopback the kernel delivers at once, and wakes the broker.
    """
    template = carray(bytes_at(row[TEMPLATE]), (row[STRIDE],))
    first = row[RELEASES]
    begin = row[RELEASES_AT]
    out[:first] = releases[begin : begin + first]
    while share or first:
        count = min(share, (out.size - first) // row[STRIDE], times.size)
        times[:count] = now
        size = first + build_publishes(
            template, row[ID_AT], row[PAYLOAD_AT], row[NUMBER], row[FOLLOWING], times[:count], out[first:]
        )
        sent = monotonic_ns(words)
        taken = send(np.int32(row[FD]), np.uintp(out.ctypes.data), np.uintp(size), np.int32(DONT_WAIT))
        if taken < size:
            return PART, max(0, taken), count, sent
        _note(row, count, now, sent)
        row[LAST], row[RELEASES] = sent, 0
        counts[own] += count
        share -= count
        first = 0
    return OVER, 0, 0, 0


@compiled(
    "UniTuple(i8, 8)(i8[:, ::1], u1[:, ::1], i8[::1], i8, u1[::1], u1[::1], u1[::1], i8[::1], i8[::1], i8, i8[::1],"
    " i8[::1], i8[::1], i8[::1], f8, f8, i8, i8[::1], i8, i8)"
)
def fill(
    table: Longs, left: Bytes, words: Longs, orders: int, buffer: Bytes, releases: Bytes, out: Bytes, times: Longs,
    counts: Longs, own: int, published: Longs, delivered: Longs, overtaken: Longs, window: Longs, fan_out: float,
    portion: float, level: int, seen: Longs, pause_ns: int, until_ns: int,
) -> tuple[int, int, int, int, int, int, int, int]:  # fmt: skip
    """Looks after each pause at every row, until a time; returns the fields of Filled. `orders` ends it when readable.

    `own` is where the worker counts in `counts` what it has published; `words` has by how much pauses were late.
    """
    rows = table.shape[0]
    while True:
        if wait(words, orders, pause_ns):
            return OVER, 0, 0, 0, 0, 0, 0, 0
        used = 0
        if table[0, ID_AT] >= 0:
            for place in range(rows):
                row = table[place]
                why, at, length, now = _acknowledged(row, left[place], buffer, releases, used, level, words, seen)
                used += row[RELEASES]
                if why != OVER:
                    return why, place, at, length, now, 0, 0, 0
        now = monotonic_ns(words)
        room = 0 if now >= until_ns else _room(counts, published, delivered, overtaken, window, fan_out, portion)
        is_short = False
        for place in range(rows):
            row = table[place]
            share = room // rows + (1 if place < room % rows else 0)
            share = min(share, row[MOST] - (row[FOLLOWING] - row[OLDEST]))
            free = row[RING_SIZE] - (row[FOLLOWING] - row[RECORDED])
            is_short = is_short or free < share
            why, taken, count, sent = _send(row, min(share, free), now, releases, out, times, words, counts, own)
            if why != OVER:
                return why, place, 0, 0, now, taken, count, sent
        if is_short or now >= until_ns:
            return OVER, 0, 0, 0, 0, 0, 0, 0
