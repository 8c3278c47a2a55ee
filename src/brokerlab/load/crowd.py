"""Many publishers that are due at once with one message each: built and handed over in one compiled loop.

One of ten thousand publishers sends a message now and then. Through Python's own calls each takes some 40 µs of CPU,
of which the kernel needs 10; a loop that calls the C library itself leaves little more than the kernel's part.
Bytes, times and rows are those of the ordinary way (publisher.py), which takes over whatever is out of the ordinary.
"""

# mypy: disable-error-code="arg-type"
# (Numba's own types of the C library's arguments are not `int` to mypy.)

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from brokerlab.load.messages import EqualMessages
from brokerlab.load.publisher import Publisher
from brokerlab.load.readwalk import DONT_WAIT, monotonic_ns, send, words
from brokerlab.load.stream import TcpStream
from brokerlab.load.wire import Bytes, Longs, build_publishes, compiled

# Of so many the next message of each is built ahead of its time; for thousands that would take half a kilobyte each,
# and there is little time between two messages anyway.
FEW_PUBLISHERS = 1_000
_FIRST_SEATS = 1024
_WORTHWHILE = 2  # messages: one alone goes the ordinary way

# Columns of a seat: where its template begins and how long it is, and what is written into it.
_BEGIN, _SIZE, _ID_AT, _PAYLOAD_AT, _PUBLISHER = range(5)
# Columns of a turn: seat, file descriptor, sequence number, intended time; the last two, when it was sent and how many
# bytes were taken, are filled in.
_SEAT = 0

Sent = list[tuple[int, Publisher]]


@compiled("void(u1[::1], i8[:, ::1], i8[:, ::1], u1[::1], i8[::1])")
def _hand_over(templates: Bytes, seats: Longs, turns: Longs, packet: Bytes, words: Longs) -> None:
    """One message for each turn; its time is read just before the kernel gets it. Less than 0 taken is an error."""
    for turn in range(turns.shape[0]):
        seat = seats[turns[turn, 0]]
        template = templates[seat[0] : seat[0] + seat[1]]
        build_publishes(template, seat[2], seat[3], seat[4], turns[turn, 2], turns[turn, 3:4], packet)
        turns[turn, 4] = monotonic_ns(words)
        turns[turn, 5] = send(
            np.int32(turns[turn, 1]), np.uintp(packet.ctypes.data), np.uintp(seat[1]), np.int32(DONT_WAIT)
        )


class Crowd:
    """The publishers of a worker whose messages a compiled loop can build; each has a seat, whatever its socket is."""

    def __init__(self) -> None:
        self._seats: dict[int, int] = {}  # by the publisher's number
        self._table = np.empty((_FIRST_SEATS, 5), dtype=np.int64)
        self._templates = np.empty(0, dtype=np.uint8)
        self._used = 0  # bytes of templates
        self._packet = np.empty(0, dtype=np.uint8)
        self._words = words()

    def add(self, publisher: Publisher) -> None:
        """Gives a publisher its seat, if its messages and its connection are of the usual kind."""
        if not isinstance(publisher.messages, EqualMessages) or not isinstance(publisher.stream, TcpStream):
            return
        shape = publisher.messages.shape
        seat, size = len(self._seats), shape.template.size
        self._seats[publisher.client.number] = seat
        if seat == len(self._table):
            self._table = np.concatenate((self._table, np.empty_like(self._table)))
        if self._used + size > self._templates.size:
            larger = np.empty(self._used + self._used // 8 + _FIRST_SEATS * size, dtype=np.uint8)
            larger[: self._used] = self._templates[: self._used]
            self._templates = larger
        self._templates[self._used : self._used + size] = shape.template
        self._table[seat] = self._used, size, shape.id_at, shape.payload_at, shape.publisher
        self._used += size
        if size > self._packet.size:
            self._packet = np.empty(size, dtype=np.uint8)

    def send(self, due: Sequence[int], publishers: Mapping[int, Publisher], until_ns: int) -> tuple[Sent, list[int]]:
        """Hands over one message for each who has one to send until then, and no more, and nothing in its way.

        Who has sent, and the file descriptors of those who have still to be seen to.
        """
        turns, left = [], []
        for fd in due:
            publisher = publishers.get(fd)
            seat = None if publisher is None else self._seats.get(publisher.client.number)
            if publisher is None or seat is None or not (due_ns := _only_due_ns(publisher, until_ns)):
                left.append(fd)
            else:
                turns.append((seat, fd, publisher.following, due_ns, 0, 0))
        if len(turns) < _WORTHWHILE:
            return [], list(due)
        table = np.array(turns, dtype=np.int64)
        _hand_over(self._templates, self._table, table, self._packet, self._words)
        sent = []
        for (_, fd, _, due_ns, sent_ns, taken), size in zip(table.tolist(), self._sizes(table), strict=True):
            publisher = publishers[fd]
            if taken <= 0:
                left.append(fd)
                continue
            if taken == size:
                _note_sent(publisher, due_ns, sent_ns)
            else:
                publisher.queue_next(taken, sent_ns)
            sent.append((fd, publisher))
        return sent, left

    def _sizes(self, table: Longs) -> list[int]:
        sizes: list[int] = self._table[table[:, _SEAT], _SIZE].tolist()
        return sizes


def _only_due_ns(publisher: Publisher, until_ns: int) -> int:
    """The intended time of the next message, if that alone is due by then and can be sent at once; else 0."""
    if publisher.due.size == 1:  # the last of a chunk: the next may be due too
        publisher.due = np.concatenate((publisher.due, *itertools.islice(publisher.times, 1)))
    due = publisher.due
    if not due.size or publisher.prepared is not None or publisher.is_blocked or not publisher.room():
        return 0
    due_ns = int(due[0])
    return due_ns if due_ns <= until_ns and (due.size == 1 or until_ns < due[1]) else 0


def _note_sent(publisher: Publisher, due_ns: int, sent_ns: int) -> None:
    """The next message of a publisher, which was due, has left."""
    publisher.due = publisher.due[1:]
    publisher.ring.put_sent(publisher.following, due_ns, publisher.room_since_ns, sent_ns)
    publisher.sent_elsewhere(publisher.following + 1, sent_ns)
