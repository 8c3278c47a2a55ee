"""All sockets of a saturated worker that have something for it, read in one compiled call.

A worker that gathers (gather.py) finds something at most of its sockets when it looks, and comes to them with cold
caches: what the interpreter did then was a third to a half of the CPU that subscribers take (docs/design/0004).
So what a subscriber keeps between two reads lies in rows of a table, and a round over them is one call: reads, rows,
answers. Several rounds with their pauses are one call too.

A subscriber is in the table or it is not. Whatever is unusual (the end of a connection, a packet that is no message,
an answer that the socket does not take, a long packet) takes it out, and it is served by itself as anywhere else
(reading.py); the next time that nothing of it is pending it comes back.
"""

# mypy: disable-error-code="assignment, no-any-return"
# (NumPy's integers, as in wire.py; what C returns is known to Numba only.)

import select
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import readwalk, wire
from brokerlab.load.role import Events
from brokerlab.load.room import FULL_NS
from brokerlab.load.rows import Columns
from brokerlab.load.stream import TcpStream
from brokerlab.load.subscriber import Subscriber
from brokerlab.load.wire import Bytes, Longs, compiled, count_bits

# Columns of the table: what the kernel calls it, whose rows they are, bytes of a packet that is not whole yet, times
# (subscriber.py, arrival.py), handshakes of QoS 2 that are open, and of the last round: bytes, answers not taken.
_FD, _NUMBER, _LEFT, _LAST, _OUT_OF_ORDER, _EMPTY, _EMPTIED, _OPEN, _BYTES, _UNSENT_AT, _UNSENT = range(11)
_LEFT_BYTES = 2048  # of a packet that is not whole yet; who waits for more is read by itself
_PIECES = 64 * readwalk.MOST
NOTHING = -1  # why a round stops: nothing could be read after all, which may be the end of the connection
LONG = -2


class Round(NamedTuple):
    """What a call has done; where it stopped early, `place` is whose turn it was, whose bytes are still to be seen."""

    place: int
    why: int
    at: int  # of the bytes in the buffer that are not read off
    length: int
    got: int  # bytes of the last piece of who is still to be seen
    row: int  # the next one
    overtaken: int
    retransmissions: int
    pieces: int
    opened: int
    unsent: int  # subscribers with answers that the socket did not take
    elapsed_ns: int  # of the last look, with the pause before it; 0 where that is not known

    @property
    def is_cut(self) -> bool:
        return self.why != wire.NEED_MORE


@compiled(
    "UniTuple(i8, 11)(i8[::1], i8[:, ::1], u1[:, ::1], u1[:, ::1], i8[:, ::1], i8[::1], u1[::1], i8, i8[:, ::1],"
    " i4[::1], i8[::1], i8[::1], i8, u1[::1], i8[:, ::1], i8[:, ::1], i8[::1], i8, i8, i8)"
)
def _read_round(
    places: Longs, table: Longs, left: Bytes, held: Bytes, highest: Longs, words: Longs, buffer: Bytes, level: int,
    rows: Longs, subscribers: NDArray[np.int32], received: Longs, resolutions: Longs, row: int, acks: Bytes,
    notes: Longs, told: Longs, clocks: Longs, piece_bytes: int, begin: int, blind: int,
) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Serves `places` from `begin` on; returns the fields of a Round. `told` gets a row for every piece.

    `blind`: nobody has said that they have something to be read.
    """
    over, again, pieces, opened, unsent, used = 0, 0, 0, 0, 0, 0
    turn = begin
    while turn < places.size and pieces + notes.shape[0] <= told.shape[0]:
        here = places[turn]
        length = table[here, _LEFT]
        buffer[:length] = left[here, :length]
        first = row
        at, length, why, row, more_over, count, whole, got, answers, more, last_ns, order = readwalk.read_walk(
            table[here, _FD], words, buffer, length, level, rows, row, held[here], acks[used:], highest[here], notes,
            clocks, table[here, _LAST], table[here, _OUT_OF_ORDER], piece_bytes, notes.shape[0],
        )  # fmt: skip
        table[here, _BYTES], table[here, _UNSENT] = whole, 0
        if count == 0 and blind and got < 0:
            turn += 1
            continue
        if count == 0:
            return turn, NOTHING, 0, 0, 0, row, over, again, pieces, opened, unsent
        over += more_over
        again += more
        table[here, _LAST], table[here, _OUT_OF_ORDER] = last_ns, order
        for piece in range(count):
            for place in range(first, first + notes[piece, 0]):
                subscribers[place], received[place] = table[here, _NUMBER], notes[piece, 1]
                resolutions[place] = notes[piece, 1] - table[here, _EMPTY]
            first += notes[piece, 0]
            told[pieces] = notes[piece]
            pieces += 1
        if answers:
            from_here = np.uintp(acks[used:].ctypes.data)
            taken = max(
                0, readwalk.send(np.int32(table[here, _FD]), from_here, np.uintp(answers), np.int32(readwalk.DONT_WAIT))
            )
            table[here, _UNSENT_AT], table[here, _UNSENT] = used + taken, answers - taken
            unsent += taken < answers
            used += answers
        if why or length - at > left.shape[1]:
            return turn, why if why else LONG, at, length, got, row, over, again, pieces, opened, unsent
        left[here, : length - at] = buffer[at:length]
        table[here, _LEFT] = length - at
        if held.shape[1]:
            before, table[here, _OPEN] = table[here, _OPEN], count_bits(held[here].view(np.uint64))
            opened += table[here, _OPEN] - before
        if got < piece_bytes:  # as Subscriber.note_empty, where looks are seldom
            table[here, _EMPTY], table[here, _EMPTIED] = table[here, _EMPTIED], last_ns
        turn += 1
    return turn, 0, 0, 0, 0, row, over, again, pieces, opened, unsent


@compiled("b1(i8[::1], i8[:, ::1], i8, i8, i8)")
def _is_full(places: Longs, table: Longs, small_bytes: int, full_ns: int, elapsed_ns: int) -> bool:
    """Whether anybody's room would have been full too soon by what the last round brought (Room.after)."""
    for place in places:
        count = table[place, _BYTES]
        if count >= small_bytes and count * full_ns >= small_bytes * elapsed_ns:
            return True
    return False


@compiled(
    "UniTuple(i8, 12)(i8[::1], i8[:, ::1], u1[:, ::1], u1[:, ::1], i8[:, ::1], i8[::1], u1[::1], i8, i8[:, ::1],"
    " i4[::1], i8[::1], i8[::1], i8, u1[::1], i8[:, ::1], i8[:, ::1], i8[::1], i8, i8, i8, i8[::1], i8, i8, i8, i8, i8)"
)
def _watch(
    places: Longs, table: Longs, left: Bytes, held: Bytes, highest: Longs, words: Longs, buffer: Bytes, level: int,
    rows: Longs, subscribers: NDArray[np.int32], received: Longs, resolutions: Longs, row: int, acks: Bytes,
    notes: Longs, told: Longs, clocks: Longs, piece_bytes: int, looks: int, pause_ns: int, counts: Longs,
    delivered_at: int, overtaken_at: int, orders: int, small_bytes: int, full_ns: int,
) -> tuple[int, int, int, int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Some rounds with a pause before each, until one has to be cut; the window is told after each.

    It ends when `orders` can be read, and after a look at which somebody's `small_bytes` of room would have been full
    within `full_ns`: it may get more (0: nobody does).
    """
    over, again, pieces, opened, elapsed = 0, 0, 0, 0, 0
    for _ in range(looks):
        began_ns = readwalk.monotonic_ns(words)
        if readwalk.wait(words, orders, pause_ns):
            return places.size, 0, 0, 0, 0, row, over, again, pieces, opened, 0, elapsed
        first = row
        turn, why, at, length, got, row, more_over, more, count, more_opened, unsent = _read_round(
            places, table, left, held, highest, words, buffer, level, rows, subscribers, received, resolutions, row,
            acks, notes, told[pieces:], clocks, piece_bytes, 0, 1,
        )  # fmt: skip
        over += more_over
        again += more
        pieces += count
        opened += more_opened
        counts[delivered_at] += row - first - more_opened
        if overtaken_at >= 0:
            counts[overtaken_at] += more_over
        elapsed = readwalk.monotonic_ns(words) - began_ns
        if why or unsent or turn < places.size:
            return turn, why, at, length, got, row, over, again, pieces, opened, unsent, elapsed
        if small_bytes and _is_full(places, table, small_bytes, full_ns, elapsed):
            break
    return places.size, 0, 0, 0, 0, row, over, again, pieces, opened, 0, elapsed


class Table:
    """The subscribers of a worker that are served together."""

    def __init__(self, clients: int, *, qos: int, publishers: int) -> None:
        """`publishers` is 0 where nobody counts which messages are overtaken."""
        self._table: Longs = np.zeros((clients, 11), dtype=np.int64)
        self._left: Bytes = np.empty((clients, _LEFT_BYTES), dtype=np.uint8)
        self._held: Bytes = np.zeros((clients, wire.HELD_BYTES if qos == 2 else 0), dtype=np.uint8)
        self._highest: Longs = np.full((clients, publishers), -1, dtype=np.int64)
        self._words, self._notes = readwalk.words(), readwalk.notes()
        self._told: Longs = np.zeros((_PIECES, 3), dtype=np.int64)
        self._free = list(range(clients))
        self._places: dict[int, int] = {}  # by file descriptor
        self._subscribers: dict[int, Subscriber] = {}  # by place
        self.all: Longs = np.empty(0, dtype=np.int64)  # places

    def __contains__(self, fd: int) -> bool:
        return fd in self._places

    def take(self, subscriber: Subscriber) -> None:
        """Puts a subscriber into the table, if it can be served there."""
        stream = subscriber.stream
        if not isinstance(stream, TcpStream) or stream.stamps is None or stream.fileno() in self._places:
            return
        if subscriber.passing or not subscriber.outbox.is_empty or len(subscriber.unread) > _LEFT_BYTES:
            return
        place = self._free.pop()
        self._places[stream.fileno()], self._subscribers[place] = place, subscriber
        self.all = np.array(list(self._subscribers), dtype=np.int64)
        held, highest, left = self._held[place], self._highest[place], len(subscriber.unread)
        held[:] = subscriber.held
        if highest.size:
            highest[:] = -1 if subscriber.highest is None else subscriber.highest
            subscriber.highest = highest
        subscriber.held = held
        self._left[place, :left] = np.frombuffer(subscriber.unread, dtype=np.uint8)
        stamps = stream.stamps
        self._table[place] = (
            stream.fileno(), subscriber.client.number, left, stamps.last_ns, stamps.out_of_order,
            subscriber.empty_ns, subscriber.emptied_ns, subscriber.open_handshakes, 0, 0, 0,
        )  # fmt: skip

    def give_back(self, fd: int) -> None:
        """Takes a subscriber out that is served by itself from now on, if it is in."""
        place = self._places.pop(fd, None)
        if place is None:
            return
        subscriber = self._subscribers.pop(place)
        self._free.append(place)
        self.all = np.array(list(self._subscribers), dtype=np.int64)
        _, _, left, last_ns, out_of_order, empty_ns, emptied_ns, open_handshakes, _, _, _ = self._table[place].tolist()
        subscriber.unread = self._left[place, :left].tobytes()
        subscriber.empty_ns, subscriber.emptied_ns = empty_ns, emptied_ns
        subscriber.open_handshakes = open_handshakes
        subscriber.held = subscriber.held.copy()
        if subscriber.highest is not None:
            subscriber.highest = subscriber.highest.copy()
        if isinstance(subscriber.stream, TcpStream) and subscriber.stream.stamps is not None:
            subscriber.stream.stamps.last_ns = last_ns
            subscriber.stream.stamps.out_of_order = out_of_order

    def parted(self, events: Events) -> tuple[Longs, Events]:
        """The places of those who are in, and the events of the others."""
        places, others, known = [], [], self._places
        for each in events:
            if each[1] == select.EPOLLIN and each[0] in known:
                places.append(known[each[0]])
            else:
                others.append(each)
        return np.array(places, dtype=np.int64), others

    def read(
        self, places: Longs, begin: int, buffer: Bytes, rows: Columns, acks: Bytes, *,
        level: int, piece_bytes: int,
    ) -> Round:  # fmt: skip
        """A round over those places from `begin` on. `rows` are the columns to fill, and the first row that is free."""
        done = _read_round(
            places, self._table, self._left, self._held, self._highest, self._words, buffer, level, *rows, acks,
            self._notes, self._told, readwalk.CLOCKS, piece_bytes, begin, 0,
        )  # fmt: skip
        return Round(*done, elapsed_ns=0)

    def watch(
        self, buffer: Bytes, rows: Columns, acks: Bytes, *, level: int, piece_bytes: int,
        looks: int, pause_ns: int, counts: Longs, delivered_at: int, overtaken_at: int, orders: int, small_bytes: int,
    ) -> Round:  # fmt: skip
        """Rounds over all, with a pause before each; `counts` are what the window knows of deliveries."""
        return Round._make(
            _watch(
                self.all, self._table, self._left, self._held, self._highest, self._words, buffer, level, *rows, acks,
                self._notes, self._told, readwalk.CLOCKS, piece_bytes, looks, pause_ns, counts, delivered_at,
                overtaken_at, orders, small_bytes, FULL_NS,
            )
        )  # fmt: skip

    def late_ns(self) -> int:
        """By how much waits were late since the last question, those that were (stalls.py)."""
        return readwalk.late_ns(self._words)

    def pieces(self, count: int) -> list[list[int]]:
        """Of the last round: messages, time of arrival and how long it waited for us, of every piece."""
        told: list[list[int]] = self._told[:count].tolist()
        return told

    def subscriber(self, place: int) -> Subscriber:
        return self._subscribers[place]

    def bytes_of(self, places: Longs) -> list[int]:
        """Of the last round."""
        read: list[int] = self._table[places, _BYTES].tolist()
        return read

    def unanswered(self, places: Longs, acks: Bytes) -> Events:
        """Those of the last round with answers that their sockets did not take: now they wait in their outboxes."""
        found = []
        for place in places.tolist():
            at, count = self._table[place, [_UNSENT_AT, _UNSENT]].tolist()
            if count:
                subscriber = self._subscribers[place]
                subscriber.outbox.put(memoryview(acks[at : at + count].tobytes()))
                found.append((subscriber.stream.fileno(), int(select.EPOLLOUT)))
        return found
