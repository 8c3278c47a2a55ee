"""Thousands of publishers at QoS 0 that keep a schedule: lent to a compiled loop, which sends what is due.

A publisher is lent while its messages are alike and nothing is in its way. Meanwhile the loop's table has what it has
sent; whoever wants to know more of it, or to do anything else with it, takes it back first.
"""

from typing import cast

import numpy as np

from brokerlab.load import crowdwalk, readwalk
from brokerlab.load.account import Account
from brokerlab.load.crowdwalk import COLUMNS, COUNT, FOLLOWING, LAST, LENT, TAKEN
from brokerlab.load.messages import EqualMessages
from brokerlab.load.publisher import Publisher
from brokerlab.load.rows import INTENDED, SENT, PublicationRows
from brokerlab.load.wire import Longs

_FIRST_SIZE = 1024
_MOST_LEFT = 64  # publishers to be seen to after a call


class Crowding:
    """Publishers by the file descriptors of their sockets."""

    def __init__(self, rows: PublicationRows) -> None:
        self._rows = rows
        self._table: Longs = np.zeros((_FIRST_SIZE, COLUMNS), dtype=np.int64)
        self._heap: Longs = np.zeros((2 * _FIRST_SIZE, 2), dtype=np.int64)
        self._size = 0  # entries of the heap
        self.lent = 0
        self._packet = np.empty(0, dtype=np.uint8)
        self._words, self._time = readwalk.words(), np.zeros(1, dtype=np.int64)
        self._left: Longs = np.zeros(_MOST_LEFT, dtype=np.int64)

    @staticmethod
    def can_lend(publisher: Publisher) -> bool:
        """Whether it is of the kind that the loop can serve, at any time."""
        return isinstance(publisher.messages, EqualMessages) and publisher.is_plain

    def __contains__(self, fd: int) -> bool:
        return 0 <= fd < len(self._table) and bool(self._table[fd, LENT])

    def lend(self, publisher: Publisher) -> bool:
        """Has a publisher served from now on that can be lent, and all of whose messages are recorded.

        Whether that is so: it needs something due, and nothing in its way.
        """
        due, fd = publisher.due, publisher.stream.fileno()
        if not self.can_lend(publisher) or publisher.is_blocked or publisher.prepared is not None or not due.size:
            return False
        if due[0] < publisher.room_since_ns:  # what fell due while it was away is not late by us: publisher.py knows
            return False
        shape = cast(EqualMessages, publisher.messages).shape
        self._make_room(fd)
        if shape.template.size > self._packet.size:
            self._packet = np.empty(shape.template.size, dtype=np.uint8)
        self._table[fd] = (
            1, publisher.following, due.ctypes.data, due.size, publisher.outbox.last_ns, shape.template.ctypes.data,
            shape.template.size, shape.payload_at, shape.publisher, 0,
        )  # fmt: skip
        self._size = crowdwalk.push(self._heap, self._size, int(due[0]), fd)
        self.lent += 1
        return True

    def take_back(self, publisher: Publisher) -> None:
        """Nothing happens to one that is not lent."""
        fd = publisher.stream.fileno()
        if fd in self:
            self._table[fd, LENT] = 0
            self._return(fd, publisher)

    def _return(self, fd: int, publisher: Publisher) -> None:
        row = self._table[fd]
        publisher.due = publisher.due[publisher.due.size - int(row[COUNT]) :]
        publisher.sent_elsewhere(int(row[FOLLOWING]), int(row[LAST]))
        publisher.ring.recorded = publisher.following
        self.lent -= 1

    def first_ns(self) -> int | None:
        """When somebody is due next; None if nobody is."""
        self._size = crowdwalk.pass_over(self._heap, self._size, self._table)
        return int(self._heap[0, 0]) if self._size else None

    def send_due(self, until_ns: int, *, ears: int, account: Account) -> tuple[list[int], int]:
        """Sends what is due until then, and sleeps meanwhile; who has to be `seen_to`, and how many messages went.

        It ends early if there is anybody to be seen to, or if `ears` can be read.
        """
        columns, first = self._rows.columns()
        self._size, used, count = crowdwalk.send_due(
            self._table, self._heap, self._size, columns, first, self._packet, self._words, self._time, self._left,
            ears, until_ns,
        )  # fmt: skip
        if used > first:
            account.take(columns[[INTENDED, INTENDED, SENT], first:used])
            self._rows.filled(used)
        left: list[int] = self._left[:count].tolist()
        return left, used - first

    def seen_to(self, fd: int, publisher: Publisher) -> tuple[int | None, int]:
        """Takes one back that the loop has left: bytes taken of the message that is due, None if all has gone; when."""
        self._return(fd, publisher)
        row = self._table[fd]
        return int(row[TAKEN]) if row[COUNT] else None, int(row[LAST])

    def _make_room(self, fd: int) -> None:
        if fd >= len(self._table):
            larger = np.zeros((2 * fd, COLUMNS), dtype=np.int64)
            larger[: len(self._table)] = self._table
            self._table = larger
        if self._size == len(self._heap):
            if self._size < 2 * len(self._table):
                self._heap = np.zeros((2 * len(self._table), 2), dtype=np.int64)
            self._size = crowdwalk.rebuild(self._heap, self._table)
