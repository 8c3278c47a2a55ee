"""When the connections of a worker's clients end by plan: pure, on the monotonic clock.

    churn   client k of n first after lifetime * (k + 1) / n, then every lifetime: at any time equally many
    storm   all at once, every so often

Publishers do, and subscribers where the study says that all do; in a churn k of n counts the client's own kind.
Nothing ends by plan before the first message is due or after the schedule is over.
"""

import heapq
from collections.abc import Sequence

from brokerlab.load.closes import Closes
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.study.population import population
from brokerlab.study.values import ABRUPT, PER_MESSAGE, Behaviour, ClientLife, Who

LEAVE_NS = 5_000_000_000  # the longest that a client waits for acknowledgements before it disconnects by plan


class Lives:
    """Hands out the clients whose connection is to end."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._life: ClientLife = spec.workload.clients
        self._spec = spec
        self._churn: list[tuple[int, int]] = []  # a heap of (when, client)
        self._storm_ns = 0  # the next; 0 is none
        self._end_ns = 0
        self._is_struck = False  # by a storm that no plan of the clients had
        self.closes = Closes()
        is_publishing = spec.node.startswith("publishers")
        is_meant = is_publishing or self._life.who is Who.ALL
        self._clients = population(spec.workload).get(spec.node.partition("/")[0], 1)  # of its kind, in all workers
        self.is_single = is_publishing and self._life.behaviour in PER_MESSAGE
        self._churns = is_meant and self._life.behaviour is Behaviour.CHURN
        self._storms = is_meant and self._life.behaviour is Behaviour.STORM

    @property
    def is_abrupt(self) -> bool:
        """Whether a connection ends without DISCONNECT and without waiting for acknowledgements."""
        return self._is_struck or self._life.behaviour in ABRUPT

    @property
    def closes_at_once(self) -> bool:
        """Whether a connection ends as soon as its one message is handed over."""
        return self.is_single and self.is_abrupt and bool(self._end_ns)

    def drop_rest(self, publisher: int, fd: int) -> None:
        """Where each message has its connection, which is closed at once: what is on its way is lost with it."""
        if self.closes_at_once:
            self.closes.drop_rest(publisher, fd)

    def begin(self, order: Go, clients: Sequence[Client]) -> None:
        self._end_ns = order.end_ns
        if self._storms and self._life.every_s:
            self._storm_ns = order.start_ns + int(self._life.every_s * 1e9)
        if self._churns and self._life.lifetime_s:
            share_ns = self._life.lifetime_s * 1e9 / self._clients
            self._churn = [(order.start_ns + int(share_ns * (each.number + 1)), each.number) for each in clients]
            heapq.heapify(self._churn)

    def storm(self, now: int) -> None:
        """Has all connections end now, once, whatever the plan was."""
        self._is_struck, self._storm_ns = True, now

    def is_done(self, publisher: Publisher) -> bool:
        """Whether a connection may end: the broker has answered everything, at QoS 0 a ping behind it.

        Else the next connection of the client, which takes the session over, could end this one before its bytes came.
        """
        return not (publisher.in_flight or publisher.is_blocked or publisher.is_asking)

    def next_ns(self) -> int | None:
        """When the next connection ends by plan."""
        times = [self._storm_ns] if self._storm_ns else []
        times += [self._churn[0][0]] if self._churn else []
        return min((at_ns for at_ns in times if at_ns < self._end_ns), default=None)

    def over(self, now: int) -> Sequence[int] | None:
        """The clients whose connections end now, by their numbers; None is all of them."""
        if self._storm_ns and self._storm_ns <= now and self._storm_ns < self._end_ns:
            every_ns = int((self._life.every_s or 0) * 1e9)
            self._storm_ns += every_ns * (1 + (now - self._storm_ns) // every_ns) if every_ns else -self._storm_ns
            return None
        numbers = []
        while self._churn and self._churn[0][0] <= now and self._churn[0][0] < self._end_ns:
            at_ns, number = self._churn[0]
            lifetime_ns = int((self._life.lifetime_s or 0) * 1e9)
            heapq.heapreplace(self._churn, (at_ns + lifetime_ns * (1 + (now - at_ns) // lifetime_ns), number))
            numbers.append(number)
        return numbers
