"""Subscribers that stop reading for a time, by plan (study/pause_values.py).

A paused subscriber reads nothing at all: what comes fills its socket, and then waits in the broker, which gets no
acknowledgement for it. It still writes, so that keep-alive goes on, and the broker sees a client that is slow and not
one that is gone. Its socket has the kernel's usual buffer, while those of other subscribers are large.

Bytes keep the time of their arrival at the machine where the kernel stamps them, so latency holds the wait in the
broker and not the one in the socket; the messages of one read share the stamp of its last byte, and their resolution
reaches back to when the socket was last seen empty, before the pause.
"""

from collections.abc import Iterable

from brokerlab.load.role import Connections
from brokerlab.load.spec import Go
from brokerlab.study.pause_values import Pause


class Pausing:
    """Whether the subscribers of a worker are to read now."""

    def __init__(self, pause: Pause | None, connections: Connections) -> None:
        self._pause, self._connections = pause, connections
        self._start_ns = self.end_ns = 0
        self.is_on = False

    @property
    def is_planned(self) -> bool:
        return self._pause is not None and self._pause.for_s > 0

    @property
    def span(self) -> tuple[int, int]:
        """From when to when; empty where no pause is planned."""
        return self._start_ns, self.end_ns

    def begin(self, order: Go) -> None:
        """Takes the times of an order for its own."""
        if self._pause is not None and self.is_planned:
            self._start_ns = order.measure_ns + round(self._pause.after_s * 1e9)
            self.end_ns = self._start_ns + round(self._pause.for_s * 1e9)

    def tick(self, now: int, sockets: Iterable[int]) -> int | None:
        """Stops or begins to read where that is due; when it wants to be called again at the latest."""
        is_due = self._start_ns <= now < self.end_ns
        if is_due != self.is_on:
            self.is_on = is_due
            for fd in sockets:
                self._connections.want_read(fd, not is_due)
        return next((at_ns for at_ns in self.span if now < at_ns), None)

    def readable_ns(self, arrived_ns: int) -> int:
        """From when on what arrived could be read: not before the end of a pause, which is no fault of the meter."""
        return self.end_ns if self._start_ns <= arrived_ns < self.end_ns else arrived_ns
