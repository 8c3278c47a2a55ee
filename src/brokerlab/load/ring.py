"""The messages of a publisher that are not yet recorded, with their times: a ring that grows with what is in flight.

Message `seq` lies at place seq modulo the size, a power of two. A time of 0 is one that has not come.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokerlab.load.wire import TIME

Longs = NDArray[np.int64]

FIRST_SIZE = 8  # one of thousands of publishers has a message or two in flight; a faster one's ring grows
# Rows: the three times that everybody knows, when it was acknowledged, and how long it took to leave in pieces.
INTENDED, RELEASED, SENT, ACKED, HELD = range(5)


@njit("void(i8[:, ::1], i8, i8[::1], i8)", cache=True, nogil=True)
def _put_all(rows: Longs, first: int, intended_ns: Longs, since_ns: int) -> None:
    """Slices would take as long as all else that is done for a hundred messages."""
    for turn in range(intended_ns.size):
        place = (first + turn) & (rows.shape[1] - 1)
        rows[INTENDED, place] = intended_ns[turn]
        rows[RELEASED, place] = max(intended_ns[turn], since_ns)
        rows[SENT, place] = rows[ACKED, place] = rows[HELD, place] = 0


@njit("void(i8[:, ::1], i8, i8, i8)", cache=True, nogil=True)
def _note_all(rows: Longs, first: int, count: int, at_ns: int) -> None:
    for turn in range(count):
        rows[SENT, (first + turn) & (rows.shape[1] - 1)] = at_ns


def alike(count: int, at_ns: int) -> Longs:
    """So many equal times; np.full takes four times as long to do it."""
    times = np.empty(count, dtype=np.int64)
    times.fill(at_ns)
    return times


class Ring:
    """Messages recorded <= seq < following; who puts them in knows what follows."""

    __slots__ = ("recorded", "rows")

    def __init__(self) -> None:
        self.rows: Longs = np.zeros((5, FIRST_SIZE), dtype=np.int64)
        self.recorded = 0

    def place(self, seq: int) -> int:
        size: int = self.rows.shape[1]
        return seq & (size - 1)

    def put(self, first: int, intended_ns: Longs, since_ns: int) -> None:
        """New messages from `first` on, released when they are due and not before `since_ns`; nothing is sent yet."""
        count = intended_ns.size
        self.make_room(first, count)
        if count == 1:  # the usual one of thousands of publishers: single values cost a tenth of slices
            self._put_one(first, int(intended_ns[0]), since_ns)
            return
        _put_all(self.rows, first, intended_ns, since_ns)

    def put_sent(self, seq: int, due_ns: int, since_ns: int, sent_ns: int) -> None:
        """One new message that has left already."""
        self.make_room(seq, 1)
        self._put_one(seq, due_ns, since_ns)
        self.rows[SENT, self.place(seq)] = sent_ns

    def _put_one(self, seq: int, due_ns: int, since_ns: int) -> None:
        rows, place = self.rows, self.place(seq)
        rows[INTENDED, place] = due_ns
        rows[RELEASED, place] = max(due_ns, since_ns)
        rows[SENT, place] = rows[ACKED, place] = rows[HELD, place] = 0

    def note_sent(self, first: int, count: int, at_ns: int) -> None:
        if count == 1:
            self.rows[SENT, self.place(first)] = at_ns
            return
        _note_all(self.rows, first, count, at_ns)

    def note_waited(self, first: int, count: int, at_ns: int, *, begun_ns: int, full_ns: int) -> None:
        """These leave now; the first began to at `begun_ns`, and the socket was full from `full_ns` on (0: neither)."""
        if full_ns:
            self._release_later(first, 1, max(0, (begun_ns or at_ns) - full_ns))
            self._release_later(first + 1, count - 1, at_ns - full_ns)
        if begun_ns:
            self.rows[HELD, self.place(first)] = at_ns - begun_ns

    def _release_later(self, first: int, count: int, by_ns: int) -> None:
        for here, _ in self.places(first, count):
            self.rows[RELEASED, here] += by_ns

    def is_acknowledged(self, seq: int) -> bool:
        return bool(self.rows[ACKED, self.place(seq)] & TIME)

    def intended(self, first: int, count: int) -> list[Longs]:
        """In one stretch, or two."""
        return [self.rows[INTENDED, here] for here, _ in self.places(first, count)]

    def taken(self, until: int) -> Longs:
        """All rows of the messages before `until`, which are recorded from now on."""
        places = self.places(self.recorded, until - self.recorded)
        self.recorded = until
        return np.concatenate([self.rows[:, here] for here, _ in places], axis=1)

    def places(self, first: int, count: int) -> tuple[tuple[slice, slice], ...]:
        """Where `count` messages from `first` on lie in the ring: one stretch, or two where it begins anew."""
        size = self.rows.shape[1]
        start = first & (size - 1)
        until_end = size - start
        if count <= until_end:
            return ((slice(start, start + count), slice(0, count)),)
        return ((slice(start, size), slice(0, until_end)), (slice(0, count - until_end), slice(until_end, count)))

    def make_room(self, following: int, count: int) -> None:
        """Doubles the ring until the messages not yet recorded and `count` more fit."""
        waiting = following - self.recorded
        size = larger = self.rows.shape[1]
        while larger < waiting + count:
            larger *= 2
        if larger == size:
            return
        kept = [self.rows[:, here] for here, _ in self.places(self.recorded, waiting)]
        self.rows = np.zeros((5, larger), dtype=np.int64)
        old = np.concatenate(kept, axis=1)
        for here, there in self.places(self.recorded, waiting):
            self.rows[:, here] = old[:, there]
