"""Publishers of a saturating load: keeps the window full, in one compiled call for many looks wherever that can be.

A publisher is served so if its messages are alike and nothing is in its way; what is unusual is left to the ordinary
way (publisher.py), which finds everything as if it had done all before itself.
"""

import select
from collections.abc import Callable, Iterator, Mapping, MutableSequence
from functools import partial
from typing import Any, cast

import numpy as np

from brokerlab.load import fillwalk, readwalk
from brokerlab.load.alarm import now_ns
from brokerlab.load.fillwalk import CLOSED, LEFT_BYTES, ODD, OVER, PART, Filled
from brokerlab.load.gather import PORTION, publishers_gather
from brokerlab.load.messages import EqualMessages
from brokerlab.load.packets import LEVELS
from brokerlab.load.publisher import BLOCK_BYTES, Publisher
from brokerlab.load.ring import alike
from brokerlab.load.role import Connections, Do, Events
from brokerlab.load.spec import Go, Progress, WorkerSpec
from brokerlab.load.window import limit_of, window_of
from brokerlab.load.wire import Bytes, Longs

FEW_IN_FLIGHT = 1_000  # with less room than this a publisher that gathers would make the broker wait
_WATCH_NS = 50_000_000  # without a look at anything but the publishers and the lab
_MOST_TOGETHER = 256  # publishers
_TIMES = 4096
_RECORDED_TOGETHER = 8192  # messages of all, that rings have room for beside the window


class Filling:
    """Of one worker; `counts` and `progress` are what all workers see."""

    def __init__(
        self, spec: WorkerSpec, counts: MutableSequence[int], progress: Progress, *,
        connections: Connections, seen: Longs, buffer: Bytes, releases: Bytes,
    ) -> None:  # fmt: skip
        """Acknowledgements of all publishers are counted in `seen`; the buffers may be anybody's between two calls."""
        self.window = window_of(spec, counts, progress)
        self.gather = publishers_gather(spec, counts, progress)
        self._spec, self._level = spec, LEVELS[spec.workload.protocol]
        self._connections, self._seen, self._buffer, self._releases = connections, seen, buffer, releases
        # What all workers see: in a test it may be a list.
        self._shared = None if isinstance(counts, list) else np.frombuffer(cast(Any, counts), dtype=np.int64)
        self._published, self._delivered, self._overtaken = (
            np.array(each, dtype=np.int64) for each in (progress.published, progress.delivered, progress.overtaken)
        )
        self._words = readwalk.words()
        self._table: Longs = np.zeros((0, fillwalk.COLUMNS), dtype=np.int64)
        self._left: Bytes = np.empty((0, LEFT_BYTES), dtype=np.uint8)
        self._out: Bytes = np.empty(2 * BLOCK_BYTES, dtype=np.uint8)
        self._times: Longs = np.empty(_TIMES, dtype=np.int64)
        self._members: list[Publisher] = []

    def limit(self, *, timeout_s: float) -> int:
        """How many messages each publisher may have in flight, which the broker may have to be asked."""
        return limit_of(self.window, self._spec, timeout_s=timeout_s)

    def fill(self, publishers: Mapping[int, Publisher], order: Go, now: int, *, do: Do) -> None:
        """Shares the window's room among the publishers that can send; `do` is given what each has to do."""
        if order.start_ns < order.measure_ns <= now:
            self.window.stay()  # what is measured is one window
        able = [(fd, publisher) for fd, publisher in publishers.items() if not publisher.is_blocked]
        for (fd, publisher), share in zip(able, self.window.shares(len(able), now), strict=True):
            if count := min(share, publisher.room()):
                do(fd, partial(publisher.send, alike(count, now)))

    def watch(self, publishers: Mapping[int, Publisher], order: Go, pause_s: float, *, do: Do) -> Events | None:
        """Some looks, with a pause before each, and what is left to do then; None where it cannot be done now.

        `do` is given what has to be done with a socket at once. Orders of the lab end it; the size of the window is
        that of the beginning.
        """
        now = now_ns()
        until_ns = self._until_ns(order, now)
        if self._shared is None or until_ns <= now or not 0 < len(publishers) <= _MOST_TOGETHER:
            return None
        if not all(map(_is_usual, publishers.values())):
            return None
        self._lend(list(publishers.values()))
        window = np.array((self.window.size, self.window.written_off), dtype=np.int64)
        done = Filled._make(
            fillwalk.fill(
                self._table, self._left, self._words, self._connections.orders_fd, self._buffer, self._releases,
                self._out, self._times, self._shared, self._spec.index, self._published, self._delivered,
                self._overtaken, window, self._spec.fan_out, PORTION, self._level, self._seen, round(pause_s * 1e9),
                until_ns,
            )
        )  # fmt: skip
        after_ns = now_ns()
        self._connections.stalls.woke(after_ns - readwalk.late_ns(self._words), after_ns)
        self._take_back()
        for fd, action in list(self._left_by(done)):
            do(fd, action)
        return self._heard(done)

    def _until_ns(self, order: Go, now: int) -> int:
        """Until when nothing changes but what the compiled loop sees."""
        if not order.start_ns <= now < order.end_ns:
            return now
        ends = [order.end_ns, now + _WATCH_NS]
        if now < order.measure_ns:
            ends.append(order.measure_ns)
        if self.window.widening and (next_ns := self.window.widening.next_ns()) is not None:
            ends.append(next_ns)
        return min(ends)

    def _lend(self, publishers: list[Publisher]) -> None:
        count = len(publishers)
        if count != len(self._table):
            self._table = np.zeros((count, fillwalk.COLUMNS), dtype=np.int64)
            self._left = np.empty((count, LEFT_BYTES), dtype=np.uint8)
        self._members = publishers
        ahead = max(2 * self.window.size, _RECORDED_TOGETHER) // count + 1
        for place, publisher in enumerate(publishers):
            publisher.ring.make_room(publisher.following, ahead)
            rows, unread = publisher.ring.rows, publisher.unread
            if unread:
                self._left[place, : len(unread)] = np.frombuffer(unread, dtype=np.uint8)
            shape = cast(EqualMessages, publisher.messages).shape
            self._table[place] = (
                publisher.stream.fileno(), publisher.following, publisher.oldest, publisher.most_in_flight,
                publisher.ring.recorded, rows.ctypes.data, rows.shape[1], shape.template.ctypes.data,
                shape.template.size, shape.id_at, shape.payload_at, shape.publisher, len(unread),
                publisher.room_since_ns, publisher.outbox.last_ns, 0, 0,
            )  # fmt: skip

    def _take_back(self) -> None:
        for place, (publisher, row) in enumerate(zip(self._members, self._table.tolist(), strict=True)):
            publisher.sent_elsewhere(row[fillwalk.FOLLOWING], row[fillwalk.LAST])
            publisher.oldest, publisher.room_since_ns = row[fillwalk.OLDEST], row[fillwalk.SINCE]
            left = row[fillwalk.LEFT]
            publisher.unread = self._left[place, :left].tobytes() if left else b""

    def _left_by(self, done: Filled) -> Iterator[tuple[int, Callable[[], object]]]:
        """What is to be done with sockets after a call; it needs no buffers, which others may use meanwhile."""
        for place, publisher in enumerate(self._members):
            at, count = self._table[place, [fillwalk.RELEASES_AT, fillwalk.RELEASES]].tolist()
            why = done.why if place == done.place else OVER
            taken = done.taken if why == PART else 0
            unsent = self._releases[at + taken : at + count].tobytes()
            unread = self._buffer[done.at : done.length].copy() if why == ODD else self._buffer[:0]
            new = alike(done.count, done.now_ns) if why == PART else self._times[:0]
            if unsent or unread.size or new.size:
                at_ns = done.sent_ns if why == PART else done.now_ns
                go_on = partial(_go_on, publisher, unsent, new, max(0, taken - count), unread, at_ns)
                yield publisher.stream.fileno(), go_on

    def _heard(self, done: Filled) -> Events:
        """What epoll has to say that the next watch will not see to."""
        is_read = self._spec.workload.qos > 0  # at QoS 0 nothing is to come but the end, or an answer to a ping
        fds = {each.stream.fileno() for each in self._members if is_read}
        heard = [each for each in self._connections.epoll.poll(0) if each[1] != select.EPOLLIN or each[0] not in fds]
        if done.why == CLOSED:
            fd = self._members[done.place].stream.fileno()
            heard = [each for each in heard if each[0] != fd] + [(fd, int(select.EPOLLIN))]
        return heard


def _is_usual(publisher: Publisher) -> bool:
    messages = publisher.messages
    is_alike = isinstance(messages, EqualMessages) and messages.built_bytes <= BLOCK_BYTES
    return is_alike and publisher.is_plain and not publisher.is_blocked and len(publisher.unread) <= LEFT_BYTES


def _go_on(publisher: Publisher, unsent: bytes, new: Longs, taken: int, unread: Bytes, at_ns: int) -> None:
    """Queues PUBRELs and new messages, of which so many bytes have gone, and walks what was read and is unusual."""
    if unsent:
        publisher.answer(memoryview(unsent))
    if new.size:
        publisher.queue(new, taken, at_ns)
    if unread.size:
        publisher.go_on(unread, at_ns)
    publisher.push()
