"""From TCP segments, as they were captured, to the bytes of both directions in their order.

A stretch of a stream that lies in one piece in the file is a row of (POSITION, PLACE, SIZE, AT). A position is a
sequence number carried on beyond 32 bits. Where the next stretch begins after the end of the last, bytes are
missing: they were lost by whoever captured, or cut off because frames were captured in part.

What arrives before its turn waits; a hole is given up when more than a receive window lies beyond it, and at the end.
"""

# mypy: disable-error-code="assignment, return-value, arg-type, operator, no-any-return"

import numpy as np

from brokerlab.pipeline.capture.compiled import Longs, compiled
from brokerlab.pipeline.capture.frames import SYN

POSITION, PLACE, SIZE, AT = range(4)

# The state of a direction.
NEXT, IS_OPEN, HAS_START, START = range(4)
STATE = 4
# What is counted of a direction.
GAPS, GAP_BYTES, REORDERED = range(3)
COUNTS = 3

_WINDOW_BYTES = 16 * 2**20  # Linux lets a receive window grow to 6 MiB unless told otherwise


@compiled("i8(i8, i8)")
def _unwrapped(seq: int, near: int) -> int:
    """The position with this sequence number that is nearest to another position."""
    ahead = (seq - near) & 0xFFFFFFFF
    return near + (ahead - 0x100000000 if ahead >= 0x80000000 else ahead)


@compiled("void(i8, i8[:, ::1], i8[:, :, ::1], i8[::1], i8[:, :, ::1], i8[::1])")
def _drain(way: int, states: Longs, waiting: Longs, held: Longs, out: Longs, made: Longs) -> None:
    """Moves what waited and is now in turn to `out`; the others stay in their order."""
    taken = 0
    while taken < held[way] and waiting[way, taken, 0] <= states[way, 0]:
        position, length = waiting[way, taken, 0], waiting[way, taken, 4]
        if position + length > states[way, 0]:
            cut, n = states[way, 0] - position, made[way]
            out[way, n, 0], out[way, n, 1] = states[way, 0], waiting[way, taken, 1] + cut
            out[way, n, 2], out[way, n, 3] = max(waiting[way, taken, 2] - cut, 0), waiting[way, taken, 3]
            states[way, 0] = position + length
            made[way] += 1
        taken += 1
    if taken:
        held[way] -= taken
        for k in range(held[way]):
            for column in range(5):
                waiting[way, k, column] = waiting[way, k + taken, column]


@compiled("void(i8, i8[:, ::1], i8[:, ::1], i8[:, :, ::1], i8[::1], i8[:, :, ::1], i8[::1])")
def give_up(way: int, states: Longs, counts: Longs, waiting: Longs, held: Longs, out: Longs, made: Longs) -> None:
    """Goes on behind the first hole."""
    counts[way, 0] += 1
    counts[way, 1] += waiting[way, 0, 0] - states[way, 0]
    states[way, 0] = waiting[way, 0, 0]
    _drain(way, states, waiting, held, out, made)


@compiled("b1(i8, i8[:, :, ::1], i8[::1], i8, i8, i8, i8, i8)")
def _wait(
    way: int, waiting: Longs, held: Longs, position: int, place: int, present: int, at_ns: int, length: int
) -> bool:
    """Puts a segment among those that wait, by position, unless its bytes wait already."""
    k = held[way]
    while k > 0 and waiting[way, k - 1, 0] > position:
        k -= 1
    if k > 0 and waiting[way, k - 1, 0] + waiting[way, k - 1, 4] >= position + length:
        return False
    for later in range(held[way], k, -1):
        for column in range(5):
            waiting[way, later, column] = waiting[way, later - 1, column]
    waiting[way, k, 0], waiting[way, k, 1], waiting[way, k, 2] = position, place, present
    waiting[way, k, 3], waiting[way, k, 4] = at_ns, length
    held[way] += 1
    return True


@compiled("i8(i8[:, ::1], i8, i8[:, ::1], i8[:, ::1], i8[:, :, ::1], i8[::1], i8[:, :, ::1], i8[::1], i8[::1])")
def _arrange(
    rows: Longs, first: int, states: Longs, counts: Longs, waiting: Longs, held: Longs, out: Longs, made: Longs,
    fresh: Longs,
) -> int:  # fmt: skip
    r = first
    while r < rows.shape[0]:
        sizes, length, seq = rows[r, 3], rows[r, 2] & 0xFFFFFFFF, rows[r, 2] >> 32 & 0xFFFFFFFF
        way, present = sizes >> 8 & 1, sizes >> 16 & 0xFFFFFF
        if sizes & SYN:
            begin = (seq + 1) & 0xFFFFFFFF
            if states[way, 1] and not (states[way, 2] and states[way, 3] == begin):
                break  # the same addresses and ports, another connection
            if not states[way, 1]:
                states[way, 0], states[way, 1], states[way, 2], states[way, 3] = begin, 1, 1, begin
        elif length:
            if not states[way, 1]:
                states[way, 0], states[way, 1] = seq, 1
            position = _unwrapped(seq, states[way, 0])
            if position > states[way, 0]:
                if _wait(way, waiting, held, position, rows[r, 1], present, rows[r, 0], length):
                    fresh[r] = length
                if position - states[way, 0] > _WINDOW_BYTES:
                    give_up(way, states, counts, waiting, held, out, made)
            elif position + length > states[way, 0]:
                cut, n = states[way, 0] - position, made[way]
                out[way, n, 0], out[way, n, 1] = states[way, 0], rows[r, 1] + cut
                out[way, n, 2], out[way, n, 3] = max(present - cut, 0), rows[r, 0]
                made[way] += 1
                fresh[r] = length - cut
                states[way, 0] = position + length
                if held[way]:
                    before = held[way]
                    _drain(way, states, waiting, held, out, made)
                    counts[way, 2] += before - held[way]
        r += 1
    return r


def arrange(
    rows: Longs, first: int, states: Longs, counts: Longs, waiting: list[Longs], fresh: Longs
) -> tuple[int, list[Longs]]:
    """Follows both directions until the rows end, or one opens the connection anew; that row's number.

    Then what is in order, from the broker and towards it; `waiting` keeps what is not. `fresh` gets how many bytes of
    each segment were not there before.
    """
    held = np.array([len(own) for own in waiting], dtype=np.int64)
    room = len(rows) - first + int(held.max())
    out, made = np.empty((2, room, 4), dtype=np.int64), np.zeros(2, dtype=np.int64)
    kept = np.empty((2, room, 5), dtype=np.int64)
    for way in (0, 1):
        kept[way, : held[way]] = waiting[way]
    until = _arrange(rows, first, states, counts, kept, held, out, made, fresh)
    for way in (0, 1):
        waiting[way] = kept[way, : held[way]].copy()
    return until, [out[way, : made[way]] for way in (0, 1)]


def give_up_all(states: Longs, counts: Longs, waiting: list[Longs]) -> list[Longs]:
    """At the end of a connection: all that still waits, behind its holes."""
    held = np.array([len(own) for own in waiting], dtype=np.int64)
    out, made = np.empty((2, int(held.max()), 4), dtype=np.int64), np.zeros(2, dtype=np.int64)
    kept = np.empty((2, int(held.max()), 5), dtype=np.int64)
    for way in (0, 1):
        kept[way, : held[way]] = waiting[way]
        while held[way]:
            give_up(way, states, counts, kept, held, out, made)
    return [out[way, : made[way]] for way in (0, 1)]
