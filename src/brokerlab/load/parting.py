"""Publishers with a will: when the load is over some are closed without a word, and the others disconnect.

A connection is closed as the end of a process closes it: the kernel sends FIN, and no DISCONNECT came before.
"""

from brokerlab.load import connection
from brokerlab.load.alarm import now_ns
from brokerlab.load.publisher import Publisher
from brokerlab.load.publishing import Publishing
from brokerlab.load.spec import Leave, Left


class Parting(Publishing):
    """Implements Role; publishes as any publisher does."""

    _leaving_order: Leave | None = None

    def leave(self, order: Leave) -> None:
        """Leaves with the next tick: the loop may still hold news of these sockets."""
        self._leaving_order = order

    def tick(self, now: int) -> int | None:
        if (order := self._leaving_order) is not None:
            self._leaving_order = None
            self._leave(set(order.closed))
        return super().tick(now)

    def _leave(self, closed: set[int]) -> None:
        """First those that are closed, so that nobody's goodbye comes between them."""
        ending = [each for each in self._open.items() if each[1].client.number in closed]
        staying = [each for each in self._open.items() if each[1].client.number not in closed]
        wiped = sum(
            connection.clear_retained(each.client, each.stream, self._spec.workload) for _, each in (*ending, *staying)
        )
        times = tuple(self._close(fd, publisher) for fd, publisher in ending)
        for fd, publisher in staying:
            self._forget(fd)
            connection.disconnect(publisher.client, publisher.stream, log=self._log)
        self._say(Left(times, tuple(publisher.client.number for _, publisher in staying), wiped))

    def _close(self, fd: int, publisher: Publisher) -> tuple[int, int]:
        self._forget(fd)
        at_ns = now_ns()
        publisher.stream.close()
        self._log.add(publisher.client, "dropped", at_ns=at_ns)
        return publisher.client.number, at_ns

    def _forget(self, fd: int) -> None:
        self._turns.leave(fd, self._open.pop(fd))
        self._connections.part(fd)
