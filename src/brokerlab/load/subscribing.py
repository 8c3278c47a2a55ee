"""The subscribing role: several subscribers in one process; every message becomes a row."""

import contextlib
import select
import time
from collections.abc import MutableSequence

import numpy as np
from numpy.typing import NDArray

from brokerlab.errors import UserError
from brokerlab.load import connection
from brokerlab.load.alarm import now_ns
from brokerlab.load.backlog import BacklogWatch
from brokerlab.load.connection import Session
from brokerlab.load.gather import gather_of
from brokerlab.load.lives import Lives
from brokerlab.load.opening import Openings, connect_facts
from brokerlab.load.pace import pace_of
from brokerlab.load.packets import LEVELS
from brokerlab.load.pausing import Pausing
from brokerlab.load.pings import PINGREQ
from brokerlab.load.reading import Reader
from brokerlab.load.resolver import resolver_of
from brokerlab.load.resting import Rest
from brokerlab.load.role import Connections, Events, Say
from brokerlab.load.room import room_of
from brokerlab.load.rows import DeliveryRows
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import (
    Connect,
    Connected,
    Drain,
    Go,
    Progress,
    Settled,
    Stock,
    Stopped,
    Subscribe,
    WorkerSpec,
)
from brokerlab.load.subscriber import Subscriber
from brokerlab.load.subscriptions import Subscriptions, is_suback
from brokerlab.load.tally import Tally
from brokerlab.record.directory import RunDirectory
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import DELIVERIES
from brokerlab.study.values import SessionKind

_QUIET_NS = 250_000_000  # after the last expected message: time for duplicates to show up
_CHECK_NS = 50_000_000


class Subscribing:
    """Implements Role."""

    def __init__(
        self, spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say,
        counts: MutableSequence[int], progress: Progress,
    ) -> None:  # fmt: skip
        self._spec, self._connections, self._log, self._say = spec, connections, log, say
        self._writer = PartWriter(RunDirectory(spec.run).raw("deliveries"), spec.node.replace("/", "-"), DELIVERIES)
        self._resolver = resolver_of(spec.workload)
        self._rows = DeliveryRows(self._writer, carries_time=self._resolver is None, is_busy=spec.saturates)
        self._open: dict[int, Subscriber] = {}
        self._openings: Openings | None = None
        self._subscriptions: Subscriptions | None = None
        self._lives = Lives(spec)
        self._pausing = Pausing(spec.workload.pause, connections)
        self._backlog: BacklogWatch | None = None
        self._is_lasting = spec.workload.clients.session is SessionKind.PERSISTENT
        self._away: dict[int, Subscriber] = {}  # by number: those that come back
        self._drain: Drain | None = None
        self._drain_ns = 0  # of the last order to drain
        self._before = 0  # arrivals before the last order to go
        self._is_settled = False
        self._cpu_ns = self._wall_ns = 0
        self._order, self.rest = Go(0, 0, 0), Rest.NONE
        self._gather = gather_of(spec, counts, progress)
        self._pace = pace_of(spec, self._gather)
        self._room = room_of(spec, self._pace, is_pausing=self._pausing.is_planned)
        self._reader = Reader(
            spec, counts, progress, rows=self._rows, resolver=self._resolver, gather=self._gather, pace=self._pace,
            room=self._room, pausing=self._pausing, pass_over=self._pass_over, lose=self._lose,
            orders_fd=connections.orders_fd, stalls=connections.stalls,
        )  # fmt: skip

    # -- what the lab asks for ------------------------------------------------------------------------------------

    def connect(self, order: Connect) -> None:
        self._openings = Openings(
            self._spec, self._connections.epoll, self._log,
            opened=self._opened, timeout_s=order.timeout_s, prepare=self._room.give,
        )  # fmt: skip
        self._openings.ask_all(order)

    def _opened(self, session: Session) -> None:
        client, stream = session.client, session.stream
        self._connections.add(client, stream, keep_alive_s=session.keep_alive_s)
        subscriber = self._away.pop(client.number, None)
        if subscriber is None:
            subscriber = Subscriber(client, stream, qos=self._spec.workload.qos, resolver=self._resolver)
        else:
            subscriber.come_back(stream, is_resumed=session.is_resumed)
        subscriber.room = self._room
        self._open[stream.fileno()] = subscriber
        stream.stamp()
        if self._order.end_ns:
            if not session.is_resumed or not connection.says_resumed(session.level):
                self._ask(stream.fileno(), subscriber)
        elif len(self._open) == len(self._spec.clients):
            self._say(Connected())
        if self._pausing.is_on:
            self._connections.want_read(stream.fileno(), False)
        elif stream.has_more:
            self.ready(stream.fileno(), select.EPOLLIN)

    def subscribe(self, order: Subscribe) -> None:
        """Asks for all subscriptions at once; their answers come among whatever else the broker sends."""
        self._subscriptions = Subscriptions(self._spec, self._log, timeout_s=order.timeout_s)
        for fd, subscriber in list(self._open.items()):
            self._ask(fd, subscriber)

    def _ask(self, fd: int, subscriber: Subscriber) -> None:
        if self._subscriptions:
            subscriber.outbox.put(self._subscriptions.ask(subscriber.client))
            self._answer(fd, subscriber)

    def go(self, order: Go) -> None:
        self._rows.flush()  # what came before is none of this order's
        self._order = order
        self._reader.go(order)
        self._drain, self._is_settled, self._before = None, False, self._rows.total
        if order.rate_per_s is not None:
            if self._resolver is not None:
                raise UserError("a search needs messages that carry their intended time: give the payload 16 B or more")
            self._rows.tally = Tally(order.measure_ns, order.end_ns)
        self._lives.begin(order, self._spec.clients)
        self._pausing.begin(order)
        if self._backlog is not None:
            self._backlog.close()
        self._backlog = BacklogWatch(self._open, start_ns=order.measure_ns, end_ns=order.end_ns)
        if self._openings is not None:
            self._openings.go()
        self._cpu_ns, self._wall_ns = -time.process_time_ns(), -now_ns()

    def retime(self, order: Go) -> None:
        self._order = self._reader.order = order
        self._lives.begin(order, self._spec.clients)
        self._pausing.begin(order)
        if self._backlog is not None:
            self._backlog.retime(start_ns=order.measure_ns, end_ns=order.end_ns)

    def drain(self, order: Drain) -> None:
        self._cpu_ns += time.process_time_ns()
        self._wall_ns += now_ns()
        self._drain, self._drain_ns = order, now_ns()

    def halt(self) -> None:
        """Nothing to give up: a subscriber takes what comes."""

    def stock(self) -> Stock:
        self._rows.flush()
        tally = self._rows.tally or Tally(0, 0)
        is_over = self._drain is not None
        return Stock(
            cpu_ns=self._cpu_ns + (0 if is_over else time.process_time_ns()),
            wall_ns=self._wall_ns + (0 if is_over else now_ns()),
            closed_by_broker=tuple(self._connections.closed_by_broker),
            receive_lag_buckets=self._reader.lag.buckets(),
            receive_lag_max_ns=self._reader.lag.max_ns,
            arrivals=tally.arrivals,
            latency_buckets=tally.buckets(),
            latency_min_ns=tally.min_ns,
            latency_max_ns=tally.max_ns,
            under_way=tally.under_way,
            backlog_bytes=self._backlog_bytes(),
        )

    def close(self) -> Stopped:
        if self._backlog is not None:
            self._backlog.close()
        self._rows.flush()
        self._writer.close()
        if self._openings:
            self._openings.close()
        for subscriber in self._open.values():
            connection.disconnect(subscriber.client, subscriber.stream, log=self._log)
        return Stopped(
            messages=self._rows.total,
            cpu_ns=max(0, self._cpu_ns),
            wall_ns=max(0, self._wall_ns),
            closed_by_broker=tuple(self._connections.closed_by_broker),
            retransmissions=self._reader.retransmissions,
            backlog_bytes=self._backlog_bytes(),
            reading_pause_s=self._pace.kept_s,
            **connect_facts(self._openings),
            away=len(self._away),
            receive_lag_buckets=self._reader.lag.buckets(),
            receive_lag_max_ns=self._reader.lag.max_ns,
        )

    def _backlog_bytes(self) -> float | None:
        """Unread in the fullest socket, mean of the last order's measure phase."""
        if self._backlog is None:
            return None
        return self._backlog.mean_bytes(but=self._pausing.span)

    # -- what the loop calls --------------------------------------------------------------------------------------

    @property
    def gather_s(self) -> float:
        pause_s = self._gather.pause_s(now_ns()) if self._gather else 0.0
        return min(pause_s, self._pace.kept_s or pause_s)

    def tick(self, now: int) -> int | None:
        for fd in self._connections.due_for_ping(now):
            if (subscriber := self._open.get(fd)) is not None:
                subscriber.outbox.put(memoryview(PINGREQ))
                self._answer(fd, subscriber)
        self._end_lives(now)
        wakes = [self._openings.tick(now) if self._openings else None, self._lives.next_ns()]
        wakes.append(self._pausing.tick(now, self._open))
        if self._subscriptions:
            wakes.append(self._subscriptions.tick(now))
        if self._drain and not self._is_settled:
            self._settle(now, self._drain)
            wakes.append(now + _CHECK_NS)
        return min((wake_ns for wake_ns in wakes if wake_ns is not None), default=None)

    def _settle(self, now: int, drain: Drain) -> None:
        """Says so when everything is here and quiet, or nothing more is to be waited for."""
        arrived = self._rows.total - self._before
        is_complete = arrived >= drain.expected and now - self._reader.last_ns > _QUIET_NS
        is_quiet = 0 < drain.quiet_ns < now - max(self._reader.last_ns, self._drain_ns, self._pausing.end_ns)
        if is_complete or is_quiet or now >= drain.deadline_ns:
            self._is_settled = True
            self._say(Settled(arrived, self._order.number))

    def _end_lives(self, now: int) -> None:
        """Connections whose time is over end, and are asked for again: in a storm all at once and without a word."""
        if not self._order.end_ns or self._openings is None:
            return
        if (numbers := self._lives.over(now)) is None or numbers:
            wanted = None if numbers is None else set(numbers)
            for fd, subscriber in list(self._open.items()):
                if wanted is None or subscriber.client.number in wanted:
                    self._part(fd, subscriber)

    def _part(self, fd: int, subscriber: Subscriber) -> None:
        """Takes in what is there, answers it where a goodbye is said, and asks for the next connection."""
        self._reader.give_back(fd)
        self._read_rest(subscriber)
        del self._open[fd]
        self._connections.part(fd)
        if self._lives.is_abrupt or not self._is_answered(subscriber):
            self._log.add(subscriber.client, "dropped")
            subscriber.stream.close()
        else:
            connection.disconnect(subscriber.client, subscriber.stream, log=self._log)
        self._come_again(subscriber)

    def _is_answered(self, subscriber: Subscriber) -> bool:
        """Whether all answers are gone: half a packet is no place for a DISCONNECT."""
        try:
            return subscriber.outbox.push()
        except OSError:  # the broker was faster: nobody is there to say goodbye to
            return False

    def storm(self) -> None:
        self._lives.storm(now_ns())

    def ready_together(self, events: Events) -> Events:
        # Who has answers to write writes them first, so nobody is served in a round until all could.
        return events if self._connections.is_writing else self._reader.read_together(events)

    def watch(self, pause_s: float) -> Events | None:
        if not pause_s or self._connections.is_writing or (left := self._reader.watch(pause_s)) is None:
            return None
        heard = [
            (fd, event)
            for fd, event in self._connections.epoll.poll(0)
            if event != select.EPOLLIN or not self._reader.serves_together(fd)
        ]
        return list((dict(heard) | dict(left)).items())

    def ready(self, fd: int, event: int) -> None:
        if self._openings and fd in self._openings:
            self._openings.ready(fd)
            return
        self._reader.give_back(fd)
        subscriber = self._open[fd]
        try:
            if event & ~select.EPOLLOUT:
                self._reader.read_all(subscriber)
        except OSError as problem:
            self._lose(fd, problem)
            return
        self._answer(fd, subscriber)
        if fd in self._open:
            self._reader.take(subscriber)

    # -- reading --------------------------------------------------------------------------------------------------

    def _pass_over(self, subscriber: Subscriber, view: NDArray[np.uint8], at: int) -> int:
        """The place after a packet that is no message: the answer to a subscription, or what anybody may get."""
        if self._subscriptions is None or not is_suback(view[at:]):
            return connection.pass_over(view, at, level=LEVELS[self._spec.workload.protocol])
        size, granted = self._subscriptions.take(subscriber.client, view[at:])
        if granted is not None:
            self._say(granted)
        return at + size

    def _answer(self, fd: int, subscriber: Subscriber) -> None:
        try:
            is_done = subscriber.outbox.push()
        except OSError as problem:
            self._read_rest(subscriber)
            self._lose(fd, problem)
            return
        self._connections.want_write(fd, not is_done)

    def _read_rest(self, subscriber: Subscriber) -> None:
        """Takes in what had arrived before the broker closed: it was delivered, though no answer can be sent."""
        with contextlib.suppress(OSError):  # the end of the connection, or nothing there
            while True:
                self._reader.read(subscriber)

    def _lose(self, fd: int, problem: OSError) -> None:
        subscriber = self._open.pop(fd)
        self._connections.lost(fd, str(problem))
        subscriber.stream.close()
        comes_again = self._is_lasting or self._spec.workload.clients.reconnect
        if comes_again and self._order.end_ns and self._openings is not None:
            self._come_again(subscriber)
        elif self._subscriptions:
            self._subscriptions.lost(subscriber.client, problem)

    def _come_again(self, subscriber: Subscriber) -> None:
        """Asks for another connection: the broker has kept something for this client, or was asked to."""
        if self._subscriptions:
            self._subscriptions.forget(subscriber.client)
        self._away[subscriber.client.number] = subscriber
        if self._openings is not None:
            self._openings.ask(subscriber.client, due_ns=now_ns())
