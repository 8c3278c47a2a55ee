"""The publishing role: several publishers in one process, each on its schedule."""

import select
from collections.abc import Callable, Iterator, MutableSequence
from functools import partial
from itertools import chain

import numpy as np

from brokerlab.load import connection
from brokerlab.load.account import Account, published_facts
from brokerlab.load.alarm import now_ns
from brokerlab.load.connection import Session
from brokerlab.load.farewell import say_goodbye
from brokerlab.load.filling import FEW_IN_FLIGHT, Filling
from brokerlab.load.hearing import DEAF, Hearing, Inbox
from brokerlab.load.lives import LEAVE_NS, Lives
from brokerlab.load.messages import due_ns
from brokerlab.load.opening import Openings, connect_facts
from brokerlab.load.publisher import SEEN, Publisher
from brokerlab.load.resting import Rest, rest_of
from brokerlab.load.ring import alike
from brokerlab.load.role import Connections, Events, Say
from brokerlab.load.rows import recorded_at, rows_of
from brokerlab.load.schedule import Span, at_rate
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import (
    Connect,
    Connected,
    Drain,
    Go,
    Progress,
    Sent,
    Settled,
    Stock,
    Stopped,
    Subscribe,
    Subscribed,
    WorkerSpec,
)
from brokerlab.load.turns import Turns
from brokerlab.load.window import window_facts
from brokerlab.load.wire import PACKET_IDS
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import PUBLICATIONS
from brokerlab.study.values import Arrivals, Qos, SessionKind

_WINDOW_PAUSE_NS = 1_000_000
_LOOK_NS = 10_000_000
_BUFFER_BYTES = 1 << 18


class Publishing:
    """Implements Role."""

    def __init__(
        self, spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say,
        counts: MutableSequence[int], progress: Progress, *, hearing: Hearing = DEAF,
    ) -> None:  # fmt: skip
        self._spec, self._connections, self._log, self._say = spec, connections, log, say
        self._counts, self._hearing = counts, hearing
        self._writer = PartWriter(spec.folder("publications"), spec.node.replace("/", "-"), PUBLICATIONS)
        self._rows = rows_of(spec, self._writer)
        self._all: list[Publisher] = []
        self.open = self._open = dict[int, Publisher]()  # by file descriptor: those whose connection stands
        self._lives = Lives(spec)
        self._turns = Turns(
            spec, self._open, self._rows, counts, do=self._guarded, look_after=self._look_after, record=self._record
        )
        self._others_ns = 0  # when something else than a message of those who are lent wants to be seen to
        self._openings: Openings | None = None
        self._away: dict[int, Publisher] = {}  # by number: those that come back
        self._leaving: dict[int, int] = {}  # by file descriptor: until when they wait for acknowledgements
        self._order = Go(0, 0, 0)
        self._is_sent = self._is_settled = False
        self._account = Account(self._order)
        self._seen = np.zeros(len(SEEN), dtype=np.int64)  # acknowledgements of all publishers
        self._inbox = Inbox(hearing.room_bytes(spec))
        self._releases = np.empty(_BUFFER_BYTES, dtype=np.uint8)
        self._filling: Filling | None = None
        if spec.saturates:
            self._filling = Filling(
                spec, counts, progress, connections=connections,
                seen=self._seen, buffer=self._inbox.view, releases=self._releases,
            )  # fmt: skip
        self._limit = 0  # messages in flight of each publisher, that the broker may have told of
        self._gathers = spec.saturates
        self._rest = rest_of(spec, hears=hearing.listen is not None)
        self._asks = spec.workload.qos == Qos.AT_MOST_ONCE  # no acknowledgement says that the broker has a message
        self._refills = spec.workload.schedule.arrivals is Arrivals.WINDOW

    # -- what the lab asks for ------------------------------------------------------------------------------------

    def connect(self, order: Connect) -> None:
        self._openings = Openings(
            self._spec, self._connections.epoll, self._log, opened=self._opened, timeout_s=order.timeout_s
        )
        self._limit = self._filling.limit(timeout_s=order.timeout_s) if self._filling else PACKET_IDS
        self._openings.ask_all(order)

    def _opened(self, session: Session) -> None:
        spec, client, stream = self._spec, session.client, session.stream
        most = min(session.receive_maximum, spec.workload.schedule.inflight or session.receive_maximum)
        limit = min(most, self._limit)
        self._connections.add(client, stream, keep_alive_s=session.keep_alive_s)
        if (publisher := self._away.pop(client.number, None)) is not None:
            self._open[stream.fileno()] = publisher
            join = partial(publisher.join, stream, receive_maximum=limit, is_resumed=session.is_resumed)
            self._guarded(stream.fileno(), join)
            if self._lives.is_single and stream.fileno() in self._open:
                self._came_back(stream.fileno(), publisher)
            return
        messages = self._hearing.messages_of(client, spec, level=session.level, aliases=session.aliases)
        publisher = Publisher(
            client, stream, messages, qos=spec.workload.qos, rows=self._rows, level=session.level,
            receive_maximum=limit, seen=self._seen, record_at=recorded_at(client, len(spec.clients)),
        )  # fmt: skip
        if spec.workload.qos and most < FEW_IN_FLIGHT:
            self._gathers, self._rest = False, Rest.NONE
        if spec.workload.clients.session is SessionKind.PERSISTENT:
            publisher.keep_session()
        self._hearing.begin(publisher)
        self._turns.add(publisher)
        self._all.append(publisher)
        self._open[stream.fileno()] = publisher
        if self._lives.is_single:  # it has shown that it can connect, and comes back with its first message
            self._part(stream.fileno(), publisher)
        if len(self._all) == len(spec.clients):
            self._say(Connected())
        if stream.has_more and stream.fileno() in self._open:
            self.ready(stream.fileno(), select.EPOLLIN)

    def subscribe(self, _order: Subscribe) -> None:
        self._say(Subscribed())

    def go(self, order: Go) -> None:
        self._turns.clear()
        self._order = order
        self._is_sent = self._is_settled = False
        self._account = Account(order)
        spec, schedule = self._spec, at_rate(self._spec.workload.schedule, order.rate_per_s)
        self._lives.begin(order, spec.clients)
        coming = set[int]()  # to what was due when an earlier order was halted, or just after its end
        if self._openings is not None:
            self._openings.go()
            coming = self._openings.withdraw()
        for publisher in () if self._hearing.answers else self._all:
            number = publisher.client.number
            span = Span(order.start_ns, order.end_ns, order.measure_ns, number, spec.workload.publishers, spec.seed)
            publisher.follow(due_ns(publisher.messages, schedule, span))
            if number in self._away and number not in coming:
                self._bring_back(publisher)
        for fd in self._open:
            self._enter(fd)

    def retime(self, order: Go) -> None:
        """Only of those that keep no schedule."""
        self._order = order
        self._account.retime(order)

    def drain(self, _order: Drain) -> None:
        """Nothing to be told: after the last message a publisher waits for every acknowledgement."""

    def halt(self) -> None:
        self._turns.clear()
        self._account.given_up += sum(publisher.give_up() for publisher in self._all)
        self._report(now_ns())

    def stock(self) -> Stock:
        for publisher in self._all:  # what those sent who are lent is recorded already
            self._record(publisher, least=1)
        return self._account.stock(sum(each.in_flight for each in self._all), self._connections.closed_by_broker)

    def close(self) -> Stopped:
        self._turns.clear()
        for publisher in self._all:
            self._record(publisher, everything=True)
        self._rows.flush()
        self._writer.close()
        if self._openings:
            self._openings.close()
        say_goodbye(self._open.values(), self._all, self._spec, log=self._log)
        return Stopped(
            **published_facts(self._all, self._open.values(), given_up=self._account.given_up),
            away=None if self._lives.is_single else len(self._away),
            closed_by_broker=tuple(self._connections.closed_by_broker),
            acknowledgements=dict(zip(SEEN, self._seen.tolist(), strict=True)),
            **self._account.facts(),
            **connect_facts(self._openings),
            **window_facts(self._filling.window if self._filling else None),
            closes=self._lives.closes.facts(),
        )

    # -- what the loop calls --------------------------------------------------------------------------------------

    @property
    def gather_s(self) -> float:
        return self._filling.gather.pause_s(now_ns()) if self._filling and self._gathers else 0.0

    @property
    def rest(self) -> Rest:
        is_waiting = self._leaving or self._openings or self._connections.is_writing
        # One turn of many takes long: resting as long doubled their lag.
        return Rest.NONE if is_waiting or self._turns.is_many else self._rest

    def tick(self, now: int) -> int | None:
        for fd in self._connections.due_for_ping(now):
            if (publisher := self._open.get(fd)) and not publisher.is_blocked:
                self._guarded(fd, partial(publisher.ping, now - self._connections.ping_pause_ns))
        if not self._order.end_ns or self._is_sent:
            self._report(now)  # once a turn: to ask all publishers for every socket would take too long
            return self._openings.tick(now) if self._openings else None
        self._end_lives(now)
        opened_ns = self._openings.tick(now) if self._openings else None
        wakes = (opened_ns, self._lives.next_ns())
        if self._filling:
            if self._order.start_ns <= now < self._order.end_ns:
                self._filling.fill(self._open, self._order, now, do=self._guarded)
        elif self._refills:
            for fd in list(self._open):
                self._refill(fd)
        else:
            self._turns.send_due(now, self._account)
        self._report(now)
        self._others_ns = min([self._next_wake_ns(now_ns()), *(wake_ns for wake_ns in wakes if wake_ns is not None)])
        return min(self._others_ns, self._turns.lent_ns(now_ns()) or self._others_ns)

    def watch(self, pause_s: float) -> Events | None:
        if self._turns.is_lending:
            self._turns.watch(self._others_ns, self._connections.epoll.fileno(), self._account)
            return self._connections.epoll.poll(0)
        is_waiting = self._leaving or self._away or self._openings or self._connections.is_writing
        if self._filling is None or not pause_s or is_waiting or self._is_sent or self._lives.next_ns() is not None:
            return None
        heard = self._filling.watch(self._open, self._order, pause_s, do=self._guarded)
        for publisher in self._open.values() if heard is not None else ():
            self._record(publisher)
        return heard

    def ready(self, fd: int, event: int) -> None:
        if self._openings and fd in self._openings:
            self._openings.ready(fd)
            return
        publisher = self._open[fd]
        if event & select.EPOLLOUT:
            self._guarded(fd, publisher.push)
            self._close_at_once(fd, publisher)
        if event & ~select.EPOLLOUT and fd in self._open:
            read = partial(self._inbox.read, publisher, self._releases)
            self._guarded(fd, read)
            while publisher.stream.has_more and fd in self._open:
                self._guarded(fd, read)
            self._refill(fd)

    # -- sending --------------------------------------------------------------------------------------------------

    def _next_wake_ns(self, now: int) -> int:
        if self._filling:
            return max(self._order.start_ns, now + _WINDOW_PAUSE_NS)
        if self._refills and now < self._order.end_ns:  # acknowledgements wake it, so that a late wake shows only here
            return max(self._order.start_ns, min(self._order.end_ns, (now // _LOOK_NS + 1) * _LOOK_NS))
        if (wake_ns := self._turns.wake_ns(now)) is not None:
            return wake_ns
        return max(self._order.end_ns, now + _WINDOW_PAUSE_NS)

    def _refill(self, fd: int) -> None:
        """The closed loop of a window in flight: a message is due as soon as there is room for it."""
        while self._refills and fd in self._open and self._order.start_ns <= (now := now_ns()) < self._order.end_ns:
            publisher = self._open[fd]
            room = 0 if publisher.is_blocked else min(publisher.room(), publisher.block)
            if not room:
                return
            self._guarded(fd, partial(publisher.send, alike(room, now)))

    def _guarded(self, fd: int, action: Callable[[], object]) -> None:
        """Does something with a publisher's socket and looks after what follows from it."""
        publisher = self._open[fd]
        self._turns.take_back(publisher)
        before = publisher.following
        try:
            action()
        except BlockingIOError:  # nothing to read after all: epoll may wake for less (epoll(7))
            self._look_after(fd, publisher)
        except OSError as problem:
            self._inbox.read_rest(publisher, problem, self._releases)
            self._open.pop(fd)
            self._turns.leave(fd, publisher)
            self._leaving.pop(fd, None)
            self._connections.lost(fd, publisher.explained(problem))
            publisher.stream.close()
            if self._spec.workload.clients.reconnect and self._order.end_ns:
                self._come_again(publisher)
        else:
            self._look_after(fd, publisher)
            if fd in self._leaving and self._lives.is_done(publisher):
                self._part(fd, publisher)
        self._record(publisher)
        self._counts[self._spec.index] += publisher.following - before

    def _look_after(self, fd: int, publisher: Publisher) -> None:
        """After something was sent: what the socket did not take waits for it, and the next message for its time."""
        self._account.blocked += (is_blocked := publisher.is_blocked)
        self._connections.want_write(fd, is_blocked)
        if self._filling is None:
            self._enter(fd)

    def _enter(self, fd: int) -> None:
        """Gives a publisher its turns, if it can send."""
        publisher = self._open[fd]
        is_away = self._lives.is_single or fd in self._leaving
        if not is_away and not publisher.is_blocked and publisher.room():
            self._turns.enter(fd, publisher)

    # -- connections that end by plan -------------------------------------------------------------------------------

    def _end_lives(self, now: int) -> None:
        """Ends the connections whose time is over, at once or as soon as everything is acknowledged."""
        if (numbers := self._lives.over(now)) is None or numbers:
            wanted = set(numbers or ())
            for fd, publisher in list(self._open.items()):
                if numbers is None or publisher.client.number in wanted:
                    self._end(fd, publisher, now)
        waited = self._leaving.items()
        for fd in [fd for fd, until in waited if until <= now or self._lives.is_done(self._open[fd])]:
            self._part(fd, self._open[fd])

    def _end(self, fd: int, publisher: Publisher, now: int) -> None:
        self._turns.leave(fd, publisher)
        if self._lives.is_abrupt or not (self._asks or publisher.in_flight or publisher.is_blocked):
            self._part(fd, publisher)
        elif fd not in self._leaving:
            self._leaving[fd] = now + LEAVE_NS
            if self._asks:
                self._guarded(fd, publisher.ask)

    def _part(self, fd: int, publisher: Publisher) -> None:
        """Ends a connection now and sees to the next one."""
        del self._open[fd]
        self._leaving.pop(fd, None)
        self._turns.leave(fd, publisher)
        self._connections.part(fd)
        if self._lives.is_abrupt or publisher.is_blocked:  # half a packet is no place for a DISCONNECT
            self._log.add(publisher.client, "dropped")
            self._lives.drop_rest(publisher.client.number, fd)
            publisher.stream.close()
        else:
            connection.disconnect(publisher.client, publisher.stream, log=self._log)
        before = publisher.following
        self._come_again(publisher)
        self._counts[self._spec.index] += publisher.following - before

    def _come_again(self, publisher: Publisher) -> None:
        """What was not handed over is due again, over the next connection; closed loops make new messages for room."""
        publisher.leave()
        if self._spec.is_closed:
            publisher.give_up()
        self._away[publisher.client.number] = publisher
        if self._order.end_ns:
            self._bring_back(publisher)

    def storm(self) -> None:
        self._lives.storm(now_ns())

    def _bring_back(self, publisher: Publisher) -> None:
        """Asks for the next connection: for the next message where there is one for each, at once otherwise."""
        due_ns = publisher.next_due_ns() if self._lives.is_single else 0
        if self._openings is not None and due_ns is not None:
            self._openings.ask(publisher.client, due_ns=max(due_ns, now_ns()))

    def _came_back(self, fd: int, publisher: Publisher) -> None:
        """Where each message has its connection: sends the one that this is for."""
        self._leaving[fd] = now_ns() + LEAVE_NS
        self._guarded(fd, partial(publisher.send_next, now_ns(), asks=self._asks and not self._lives.is_abrupt))
        self._close_at_once(fd, publisher)

    def _close_at_once(self, fd: int, publisher: Publisher) -> None:
        if self._lives.closes_at_once and fd in self._open and not publisher.is_blocked:
            self._part(fd, publisher)

    # -- what is said and recorded --------------------------------------------------------------------------------

    def _report(self, now: int) -> None:
        if not self._is_sent:
            is_over = now >= self._order.end_ns if self._spec.is_closed else not self._turns
            if not self._order.end_ns or not is_over or any(each.has_more for each in self._living()):
                return  # in this order: asking ten thousand takes milliseconds
            self._is_sent = True
            self._account.end(now)
            self._say(Sent(tuple((each.client.number, each.following) for each in self._all), self._order.number))
        if not self._is_settled and not any(each.in_flight for each in self._living()):
            self._is_settled = True
            self._say(Settled(sum(each.following - each.in_flight for each in self._all), self._order.number))

    def _living(self) -> Iterator[Publisher]:  # with a connection, or to have one again
        return chain(self._open.values(), self._away.values())

    def _record(self, publisher: Publisher, *, everything: bool = False, least: int | None = None) -> None:
        if (done := publisher.record(everything=everything, least=least)) is not None:
            self._account.take(done)
