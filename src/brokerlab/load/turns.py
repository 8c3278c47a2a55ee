"""Which publishers of a worker are due next, and how what is due gets sent: one by one, or many in a compiled loop.

few publishers                 each by itself, its next message built ahead of its time
thousands at QoS 0             lent to a loop that sends and sleeps by itself (crowding.py), if of the usual kind
thousands of others            those who are due at a wake together (crowd.py), the rest by themselves
"""

from collections.abc import Callable, Mapping, MutableSequence
from functools import partial

from brokerlab.load.account import Account
from brokerlab.load.agenda import CROWD_SLEEP_NS, Agenda
from brokerlab.load.alarm import now_ns
from brokerlab.load.crowd import FEW_PUBLISHERS, Crowd
from brokerlab.load.crowding import Crowding
from brokerlab.load.publisher import Publisher
from brokerlab.load.role import Do
from brokerlab.load.rows import PublicationRows
from brokerlab.load.spec import WorkerSpec
from brokerlab.study.values import Qos

_DEAF = -1
_WATCH_NS = 50_000_000  # without a look at anything but what is due


class Turns:
    """Of one worker; `publishers` are those whose connection stands, by file descriptor."""

    def __init__(
        self, spec: WorkerSpec, publishers: Mapping[int, Publisher], rows: PublicationRows,
        counts: MutableSequence[int], *, do: Do, look_after: Callable[[int, Publisher], None],
        record: Callable[..., None],
    ) -> None:  # fmt: skip
        """`do` does something with a publisher's socket, looks after it and records what is done."""
        self._open, self._counts, self._index = publishers, counts, spec.index
        self._do, self._look_after, self._record = do, look_after, record
        self._agenda, self._crowd = Agenda(), Crowd()
        is_crowd = spec.workload.qos == Qos.AT_MOST_ONCE and len(spec.clients) > FEW_PUBLISHERS and not spec.is_closed
        self._crowding = Crowding(rows) if is_crowd else None

    def __bool__(self) -> bool:
        """Whether anybody has something to send."""
        return bool(self._agenda) or self.is_lending

    @property
    def is_many(self) -> bool:
        """One turn of theirs takes long."""
        return self._crowding is not None or len(self._open) > FEW_PUBLISHERS

    @property
    def is_lending(self) -> bool:
        return self._crowding is not None and self._crowding.lent > 0

    def add(self, publisher: Publisher) -> None:
        """A publisher has come that may be due at some time."""
        if self._crowding is None or not self._crowding.can_lend(publisher):
            self._crowd.add(publisher)

    def clear(self) -> None:
        """Nobody is due any more."""
        for publisher in self._open.values():
            self.take_back(publisher)
        self._agenda = Agenda()

    def enter(self, fd: int, publisher: Publisher) -> None:
        """Puts a publisher on the agenda that can send, if it has something due and is not there."""
        if fd in self._agenda or (self._crowding is not None and fd in self._crowding):
            return
        if not self.is_many:
            publisher.prepare()
        if (due_ns := publisher.next_due_ns()) is None:
            return
        if self._crowding is not None and self._crowding.can_lend(publisher):
            self._record(publisher, least=1)  # what is lent begins where the record ends
            if self._crowding.lend(publisher):
                return
        self._agenda.enter(fd, due_ns)

    def leave(self, fd: int, publisher: Publisher) -> None:
        self.take_back(publisher)
        self._agenda.leave(fd)

    def take_back(self, publisher: Publisher) -> None:
        """What is known of a publisher is true then, and anything may be done with it, if it is entered again."""
        if self._crowding is not None:
            self._crowding.take_back(publisher)

    def wake_ns(self, now: int) -> int | None:
        """When to wake for somebody who is not lent; None if nobody is due."""
        return self._agenda.wake_ns(now, is_crowd=self.is_many)

    def lent_ns(self, now: int) -> int | None:
        """When somebody who is lent is due next, for who does not watch; None if nobody is."""
        first_ns = self._crowding.first_ns() if self._crowding is not None else None
        return None if first_ns is None else max(first_ns, now + CROWD_SLEEP_NS)

    def send_due(self, now: int, account: Account) -> None:
        now = self._agenda.watched(now)
        due = self._agenda.pop_due(now)  # each once: one that is late has more to do, and the sockets come first
        for fd in self._sent_together(due, now) if self.is_many else due:
            if publisher := self._open.get(fd):
                self._do(fd, partial(publisher.send_due, now_ns()))
        if self.is_lending:
            self._send_lent(now, _DEAF, account)

    def _sent_together(self, due: list[int], now: int) -> list[int]:
        """Sends for all who have one message to send and can; who is left."""
        sent, left = self._crowd.send(due, self._open, now)
        for fd, publisher in sent:
            self._look_after(fd, publisher)
            self._record(publisher)
        self._counts[self._index] += len(sent)
        return left

    def watch(self, until_ns: int, ears: int, account: Account) -> None:
        """Sends for those who are lent until then, or for a while, or until `ears` can be read."""
        self._send_lent(min(until_ns, now_ns() + _WATCH_NS), ears, account)

    def _send_lent(self, until_ns: int, ears: int, account: Account) -> None:
        if self._crowding is None:
            return
        left, sent = self._crowding.send_due(until_ns, ears=ears, account=account)
        self._counts[self._index] += sent
        for fd in left:
            publisher = self._open[fd]
            taken, at_ns = self._crowding.seen_to(fd, publisher)
            if taken is None:
                self.enter(fd, publisher)
            elif taken > 0:
                self._do(fd, partial(publisher.queue_next, taken, at_ns))
            else:
                self._do(fd, partial(publisher.send_due, now_ns()))
