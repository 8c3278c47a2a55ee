"""What publishing clients hear over the connections that they publish on.

A publisher's own walk knows acknowledgements and stops at anything else; from there an Ear goes on.
"""

import select
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import connection, wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.backlog import BacklogWatch
from brokerlab.load.broken import broken
from brokerlab.load.lag import Lag
from brokerlab.load.packets import LEVELS
from brokerlab.load.publisher import Publisher
from brokerlab.load.publishing import Publishing
from brokerlab.load.resolver import resolver_of
from brokerlab.load.rows import DeliveryRows
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Go, Subscribe, Subscribed, WorkerSpec
from brokerlab.load.subscriptions import Subscriptions, is_suback
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import DELIVERIES
from brokerlab.study.values import Qos

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]

_ACKS_BYTES = 1 << 18
_PUBCOMP = 0x70  # the answer to PUBREL


class Hearer(Protocol):
    """Does something with what is heard."""

    def heard(self, view: Bytes, begin: int, end: int, held: Bytes, arrived_ns: int) -> None:
        """Is told of the messages of a stretch of the buffer, while the buffer still holds them."""
        ...

    def done(self) -> None:
        """All of a read is taken in, acknowledgements too; or the client is there again."""
        ...

    def leave(self) -> None:
        """The client's connection is over, and it will have another."""
        ...


class Ears:
    """The rows of what a worker's clients hear, and one Ear for each of them."""

    def __init__(
        self, spec: WorkerSpec, log: SessionLog, *,
        note: Callable[[int], None], subscribed: Callable[[Subscribed], None],
    ) -> None:  # fmt: skip
        """`note` is told the number of messages heard so far whenever it changes, `subscribed` what was granted."""
        asking = replace(spec.workload, qos=Qos(spec.hears_qos))
        self._spec, self._log, self._subscribed = replace(spec, workload=asking), log, subscribed
        self._subscriptions: Subscriptions | None = None
        self._writer = PartWriter(spec.folder("deliveries"), spec.node.replace("/", "-"), DELIVERIES)
        self.resolver = resolver_of(spec.workload)
        self.rows = DeliveryRows(self._writer, carries_time=self.resolver is None)
        self.level = LEVELS[spec.workload.protocol]
        self.acks = np.empty(_ACKS_BYTES, dtype=np.uint8)
        self.retransmissions = 0
        self.last_ns = 0
        self.note = note
        self._order, self._lag = Go(0, 0, 0), Lag()
        self._read_ns = 0
        self._backlog: BacklogWatch | None = None

    def go(self, order: Go, publishing: Publishing) -> None:
        """From now on watches whether arrived bytes wait to be read."""
        self._order, self._lag = order, Lag()
        if self._backlog is not None:
            self._backlog.close()
        self._backlog = BacklogWatch(publishing.open, start_ns=order.measure_ns, end_ns=order.end_ns)

    def retime(self, order: Go) -> None:
        self._order = order
        if self._backlog is not None:
            self._backlog.retime(start_ns=order.measure_ns, end_ns=order.end_ns)

    def note_read(self, arrived_ns: int) -> None:
        """What arrived then is taken in, perhaps in several pieces: the first says how long it waited."""
        if arrived_ns != self._read_ns and self._order.measure_ns <= arrived_ns < self._order.end_ns:
            self._lag.note(now_ns() - arrived_ns)
        self._read_ns = arrived_ns

    def watched(self) -> dict[str, Any]:
        """Fields of Stock and Stopped: whether what arrived was read soon."""
        return {
            "receive_lag_buckets": self._lag.buckets(),
            "receive_lag_max_ns": self._lag.max_ns,
            "backlog_bytes": None if self._backlog is None else self._backlog.mean_bytes(),
        }

    def subscribe(self, order: Subscribe, publishing: Publishing) -> None:
        """Has every client ask for what it hears."""
        asked = self._subscriptions = Subscriptions(self._spec, self._log, timeout_s=order.timeout_s)
        for fd, publisher in list(publishing.open.items()):
            publisher.answer(asked.ask(_hearing(publisher.client)))
            publishing.ready(fd, select.EPOLLOUT)

    def subscribe_again(self, publisher: Publisher) -> None:
        """Queues what asks for what the client hears, over its next connection; unless it never asked."""
        if self._subscriptions:
            publisher.answer(self._subscriptions.ask(_hearing(publisher.client)))

    def forget(self, client: Client) -> None:
        """Its connection is over: no answer is to be waited for."""
        if self._subscriptions:
            self._subscriptions.forget(client)

    def tick(self, now: int) -> int | None:
        """When it wants to be called again at the latest: while subscriptions are not answered."""
        return self._subscriptions.tick(now) if self._subscriptions else None

    def pass_over(self, client: Client, rest: Bytes) -> int:
        """The bytes of a packet that is neither message nor acknowledgement."""
        if self._subscriptions is None or not is_suback(rest):
            return connection.pass_over(rest, 0, level=self.level)
        size, granted = self._subscriptions.take(client, rest)
        if granted is not None:
            self._subscribed(granted)
        return size

    def close(self) -> None:
        if self._backlog is not None:
            self._backlog.close()
        self.rows.flush()
        self._writer.close()


def _hearing(client: Client) -> Client:
    """As one that asks for its own filter."""
    return replace(client, topic=client.hears)


class Ear:
    """One client's; implements Others (others.py)."""

    def __init__(self, ears: Ears, publisher: Publisher, hearer: Hearer | None = None) -> None:
        self._ears, self._publisher, self._hearer = ears, publisher, hearer
        self._held = np.zeros(wire.HELD_BYTES, dtype=np.uint8)  # QoS 2 identifiers that are not released yet
        self._empty_ns = now_ns()  # when the socket was last seen empty
        self._is_last = False  # whether the last packet of the read is a message with a row of its own
        self._expected = None if ears.resolver is None else ears.resolver.expected()

    def take(self, view: Bytes, length: int, at: int, arrived_ns: int) -> int:
        """Takes in the messages from `at` on; the place of the first packet that is none of them."""
        ears, begin = self._ears, at
        ears.note_read(arrived_ns)
        before = self._held.copy() if self._hearer else self._held
        at, row, used, again, why = wire.walk_deliveries(
            view, length, at, ears.level, ears.rows.wire, ears.rows.used, self._held, ears.acks
        )
        count = row - ears.rows.used
        if ears.resolver is not None and self._expected is not None:
            ears.resolver.resolve(view, ears.level, ears.rows.wire, ears.rows.used, row, self._expected)
        ears.rows.stamp(self._publisher.client.number, row, arrived_ns, arrived_ns - self._empty_ns)
        ears.retransmissions += again
        is_released = used and ears.acks[used - 4] == _PUBCOMP
        self._is_last = bool(count) and at == length and not (again or is_released)
        if used:
            self._publisher.answer(memoryview(ears.acks[:used].tobytes()))
        if count:
            ears.last_ns = arrived_ns
            if self._hearer:
                self._hearer.heard(view, begin, at, before, arrived_ns)
            ears.note(ears.rows.total)
        if row == len(ears.rows.wire):
            ears.rows.flush()
        if why == wire.MALFORMED:
            raise broken(view[at:length], level=ears.level)
        return at if at > begin else at + ears.pass_over(self._publisher.client, view[at:length])

    def leave(self) -> None:
        self._ears.forget(self._publisher.client)
        if self._hearer:
            self._hearer.leave()

    def come_back(self, *, is_resumed: bool) -> None:
        """Subscribes anew, unless the broker has kept the session: identifiers that it had not released go with it."""
        self._publisher.stream.stamp()
        self._empty_ns, self._is_last = now_ns(), False
        if not is_resumed:
            self._held[:] = 0
            self._ears.subscribe_again(self._publisher)
        if self._hearer:
            self._hearer.done()

    def done(self, arrived_ns: int, *, is_empty: bool) -> None:
        """All of a read is taken in."""
        if self._is_last and self._publisher.stream.is_exact:
            self._ears.rows.mark_last_exact()
        self._is_last = False
        if is_empty:
            self._empty_ns = arrived_ns
        if self._hearer:
            self._hearer.done()
