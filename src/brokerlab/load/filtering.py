"""The role that fills the broker's table of subscriptions, and changes it at a rate while the load goes on.

Changes are an open loop: number i is due at start + (i + 1/2) / rate, in turn a SUBSCRIBE of a new filter and an
UNSUBSCRIBE of the oldest one of the same client, so that the table keeps its size.
A client that comes back subscribes anew to what it had; while nobody is there, what is due is left out and counted.
"""

import select
import time
from collections import Counter
from collections.abc import MutableSequence

from brokerlab.errors import RunError
from brokerlab.load import connection
from brokerlab.load.alarm import now_ns
from brokerlab.load.attending import Attending
from brokerlab.load.connection import Session
from brokerlab.load.filters import FILL, REFILL, SUBSCRIBE, UNSUBSCRIBE, Holder
from brokerlab.load.lag import Lag
from brokerlab.load.opening import connect_facts
from brokerlab.load.outbox import Handed
from brokerlab.load.packets import (
    FIRST_FAILURE,
    LEVELS,
    MalformedPacketError,
    Packet,
    PingResp,
    Publish,
    SubAck,
    UnsubAck,
)
from brokerlab.load.resting import Rest
from brokerlab.load.role import Connections, Say
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import (
    Drain,
    Go,
    Progress,
    Stock,
    Stopped,
    Subscribe,
    Subscribed,
    TableFacts,
    WorkerSpec,
)

_BUFFER_BYTES = 1 << 16
_AHEAD = 4  # SUBSCRIBEs of a client that wait for their answers while the table is filled, or filled anew
_LAST_ANSWERS_S = 2.0


class Filtering(Attending[Holder]):
    """Implements Role."""

    gather_s, rest = 0.0, Rest.NONE

    def __init__(
        self, spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say,
        _counts: MutableSequence[int], _progress: Progress,
    ) -> None:  # fmt: skip
        super().__init__(spec, connections, log, say, buffer_bytes=_BUFFER_BYTES)
        self._table, self._level = spec.workload.subscriptions, LEVELS[spec.workload.protocol]
        self._holders: list[Holder] = []  # those who have all their filters, in the order in which they take turns
        self._away: dict[int, Holder] = {}  # by number: those that come back
        self._to_fill = 0  # filters without an answer
        self._fill_deadline_ns = self._timeout_ns = 0
        self._fill_began_ns = self._filled_ns = 0
        self._order = Go(0, 0, 0)
        self._next = 0  # change of the schedule
        self._made = 0  # changes of all schedules: the next one begins with the turn at which the last one ended
        self._lag = Lag()
        self._cpu_ns = self._wall_ns = 0
        self._is_over = True
        self._unexpected = 0
        self._asked, self._answered = Counter[str](), Counter[str]()  # filters, by event
        self._codes: dict[str, Counter[int]] = {FILL: Counter(), SUBSCRIBE: Counter(), UNSUBSCRIBE: Counter()}
        self._refills = Counter[int]()
        self._unanswered = self._unsent = 0

    # -- what the lab asks for ------------------------------------------------------------------------------------

    def subscribe(self, order: Subscribe) -> None:
        """Fills the table; a broker may take long over all of it, but not over one answer."""
        self._timeout_ns = int(order.timeout_s * 1e9)
        self._to_fill = self._table.table
        self._fill_began_ns = self._filled_ns = now_ns()
        self._fill_deadline_ns = self._fill_began_ns + self._timeout_ns
        for fd, holder in list(self._open.items()):
            self._fill(fd, holder)
        if not self._to_fill:
            self._say(Subscribed())

    def _fill(self, fd: int, holder: Holder) -> None:
        while holder.to_fill and len(holder.waiting) < _AHEAD:
            holder.fill(now_ns())
        self._push(fd, holder)

    def _refill(self, fd: int, holder: Holder) -> None:
        """What it is asked to change next comes behind all of what it had."""
        while holder.to_refill and len(holder.waiting) < _AHEAD:
            holder.refill(now_ns())
        if not holder.to_refill:
            self._holders.append(holder)
        self._push(fd, holder)

    def go(self, order: Go) -> None:
        self._begin()
        self._order, self._next, self._lag, self._is_over = order, 0, Lag(), False
        self._cpu_ns, self._wall_ns = -time.process_time_ns(), -now_ns()

    def retime(self, _order: Go) -> None:
        """Is ordered to go when the publishers have begun, with the true times."""

    def drain(self, _order: Drain) -> None:
        """Nothing is expected."""

    def halt(self) -> None:
        """The schedule of changes is short and goes on."""

    def stock(self) -> Stock:
        is_going = not self._is_over
        return Stock(
            cpu_ns=self._cpu_ns + is_going * time.process_time_ns(),
            wall_ns=self._wall_ns + is_going * now_ns(),
            closed_by_broker=tuple(self._connections.closed_by_broker),
        )

    def close(self) -> Stopped:
        self._end()
        away = self._end_openings()
        self._wait_for_answers()
        standing = sum(holder.standing for holder in self._open.values())
        for holder in list(self._open.values()):
            self._forsake(holder)
            connection.disconnect(holder.client, holder.stream, log=self._log)
        return Stopped(
            messages=0,
            cpu_ns=max(0, self._cpu_ns),
            wall_ns=max(0, self._wall_ns),
            closed_by_broker=tuple(self._connections.closed_by_broker),
            **connect_facts(self._openings),
            away=away,
            acknowledgements={f"{event} answered": count for event, count in self._answered.items()},
            table=self._facts(standing),
        )

    def _facts(self, standing: int) -> TableFacts:
        every = self._codes | ({REFILL: self._refills} if self._refills else {})
        return TableFacts(
            filled=_granted(self._codes[FILL]),
            fill_s=(self._filled_ns - self._fill_began_ns) / 1e9,
            asked=dict(self._asked),
            refused={event: {code: n for code, n in codes.items() if code} for event, codes in every.items()},
            standing=standing,
            refilled=_granted(self._refills),
            unsent=self._unsent,
            unanswered=self._unanswered,
            unexpected=self._unexpected,
            lag_buckets=self._lag.buckets(),
            lag_max_ns=self._lag.max_ns,
        )

    # -- what the loop calls --------------------------------------------------------------------------------------

    def tick(self, now: int) -> int | None:
        for fd in self._connections.due_for_ping(now):
            self._ping(fd)
        wakes = [self._openings.tick(now) if self._openings else None, self._change(now)]
        if self._to_fill:
            if now >= self._fill_deadline_ns:
                raise RunError(
                    f"the broker's table is not full: {self._to_fill} of {self._table.table} filters have no answer, "
                    f"and none came in {self._timeout_ns / 1e9:g} s"
                )
            wakes.append(self._fill_deadline_ns)
        return min((wake for wake in wakes if wake is not None), default=None)

    def _change(self, now: int) -> int | None:
        """Sends the changes that are due; when the next one is. Those that nobody can make now are made no more."""
        if self._is_over:
            return None
        while (due_ns := self._due_ns()) is not None and due_ns <= now:
            if not self._holders:
                self._unsent += 1
                self._next += 1
                continue
            holder = self._holders[self._made // 2 % len(self._holders)]
            if not holder.has_room:
                return None  # until an answer frees a packet identifier
            is_new = self._made % 2 == 0
            self._asked[SUBSCRIBE if is_new else UNSUBSCRIBE] += 1
            (holder.subscribe if is_new else holder.unsubscribe)(due_ns)
            self._next += 1
            self._made += 1
            self._push(holder.stream.fileno(), holder)
        if due_ns is None and now >= self._order.end_ns:
            self._end()
            return None
        return self._order.end_ns if due_ns is None else due_ns

    def _due_ns(self) -> int | None:
        """Of the next change; None if there is none any more."""
        if self._table.churn_per_s is None:
            return None
        due_ns = self._order.start_ns + int((self._next + 0.5) / self._table.churn_per_s * 1e9)
        return due_ns if due_ns < self._order.end_ns else None

    def _end(self) -> None:
        """The schedule is over: CPU is counted up to here; what was not even built will not be sent."""
        if self._is_over:
            return
        self._is_over = True
        self._cpu_ns += time.process_time_ns()
        self._wall_ns += now_ns()
        while self._due_ns() is not None:
            self._unsent += 1
            self._next += 1

    def _attended(self, session: Session) -> Holder:
        if (holder := self._away.pop(session.client.number, None)) is not None:
            holder.come_back(session.stream)
            return holder
        holder = Holder(session.client, session.stream, self._table, level=self._level)
        self._holders.append(holder)
        return holder

    def _came_back(self, fd: int, each: Holder) -> None:
        self._refill(fd, each)

    def _handed(self, each: Holder) -> Handed:
        def handed(_before: int, count: int, at_ns: int) -> None:
            for _ in range(count):
                due_ns = each.due_ns.popleft()
                if due_ns >= self._order.measure_ns:
                    self._lag.note(max(0, at_ns - due_ns))

        return handed

    def _heard(self, fd: int, each: Holder, data: bytes, arrived_ns: int) -> None:
        for packet in _packets(each, data):
            self._take(each, packet, arrived_ns)
        if each.to_fill:
            self._fill(fd, each)
        if each.to_refill:
            self._refill(fd, each)

    def _take(self, holder: Holder, packet: Packet, arrived_ns: int) -> None:
        match packet:
            case SubAck(packet_id, codes):
                self._answer(holder, packet_id, codes, arrived_ns)
            case UnsubAck(packet_id, codes):
                self._answer(holder, packet_id, codes or (0,), arrived_ns)
            case Publish():
                self._unexpected += 1
            case PingResp():
                pass
            case _:
                raise ConnectionAbortedError(f"the broker sent {packet}, which has no place here")

    def _answer(self, holder: Holder, packet_id: int, codes: tuple[int, ...], arrived_ns: int) -> None:
        asked = holder.waiting.pop(packet_id, None)
        if asked is None or len(codes) != asked.filters:
            raise ConnectionAbortedError(f"the broker answered packet {packet_id} with {len(codes)} codes")
        (self._refills if asked.what == REFILL else self._codes[asked.what]).update(codes)
        holder.standing += -codes.count(0) if asked.what == UNSUBSCRIBE else _granted(Counter(codes))
        self._answered[asked.what] += len(codes)
        self._log.add(holder.client, asked.what, began_ns=asked.at_ns, at_ns=arrived_ns, code=max(codes))
        if asked.what == FILL:
            self._to_fill -= len(codes)
            self._fill_deadline_ns = arrived_ns + self._timeout_ns
            self._filled_ns = arrived_ns
            if not self._to_fill:
                self._say(Subscribed())

    # -- the ends -------------------------------------------------------------------------------------------------

    def _wait_for_answers(self) -> None:
        """To the last changes: they were due just before the end."""
        deadline = time.monotonic() + _LAST_ANSWERS_S
        while waiting := [fd for fd, holder in self._open.items() if holder.waiting]:
            poll = select.poll()
            for fd in waiting:
                poll.register(fd, select.POLLIN | (select.POLLOUT if not self._open[fd].outbox.is_empty else 0))
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return
            for fd, event in poll.poll(remaining_s * 1e3):
                self.ready(fd, select.EPOLLOUT if event == select.POLLOUT else select.EPOLLIN)

    def _forsake(self, holder: Holder) -> None:
        """Counts what will not be answered any more."""
        changes = sum(asked.what in (SUBSCRIBE, UNSUBSCRIBE) for asked in holder.waiting.values())
        self._unsent += len(holder.due_ns)
        self._unanswered += changes - len(holder.due_ns)  # what was not handed over is asked of nobody
        for asked in holder.waiting.values():
            self._log.add(holder.client, f"{asked.what} failed: no answer", began_ns=asked.at_ns)
        holder.due_ns.clear()
        holder.waiting.clear()

    def _lost(self, each: Holder) -> None:
        if each in self._holders:
            self._holders.remove(each)
        self._forsake(each)
        each.standing = 0  # its session ends with its connection
        self._away[each.client.number] = each
        if self._to_fill:
            raise RunError(f"{each.client.name}: the broker closed the connection while its table was filled")


def _granted(codes: Counter[int]) -> int:
    """How many filters."""
    return sum(n for code, n in codes.items() if code < FIRST_FAILURE)


def _packets(holder: Holder, data: bytes) -> list[Packet]:
    try:
        return holder.parser.feed(data)
    except MalformedPacketError as problem:
        raise ConnectionAbortedError(f"the broker sent a malformed packet: {problem}") from problem
