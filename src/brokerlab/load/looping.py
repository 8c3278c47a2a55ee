"""The looping role: clients that hear their own messages, over the connection on which they publish them.

A self loop (C-04) is such a worker, and so is the latency probe beside a load (S-12).
"""

from collections.abc import MutableSequence
from dataclasses import replace

from brokerlab.load.alarm import now_ns
from brokerlab.load.ears import Ear, Ears
from brokerlab.load.hearing import Hearing
from brokerlab.load.publishing import Publishing
from brokerlab.load.resting import Rest
from brokerlab.load.role import Connections, Report, Say
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Connect, Drain, Go, Progress, Settled, Stock, Stopped, Subscribe, WorkerSpec

_QUIET_NS = 250_000_000  # after the last expected message: time for duplicates to show up
_CHECK_NS = 50_000_000


class Looping:
    """Implements Role: publishes as Publishing does, and hears with Ears."""

    def __init__(
        self, spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say,
        counts: MutableSequence[int], progress: Progress,
    ) -> None:  # fmt: skip
        self._spec, self._say, self._counts = spec, say, counts
        self._ears = Ears(spec, log, note=self._note, subscribed=say)
        self._publishing = Publishing(
            spec,
            connections,
            log,
            self._hear_report,
            counts,
            progress,
            hearing=Hearing(lambda own: Ear(self._ears, own)),
        )
        self._drain: Drain | None = None
        self._drain_ns = 0  # of the order to drain
        self._acknowledged: int | None = None
        self._is_settled = False

    @property
    def gather_s(self) -> float:
        return self._publishing.gather_s

    @property
    def rest(self) -> Rest:
        return self._publishing.rest

    def _note(self, total: int) -> None:
        self._counts[self._spec.heard_index] = total

    def _hear_report(self, report: Report) -> None:
        """What Publishing would say to the lab: when all is acknowledged, more may still be on its way back."""
        if isinstance(report, Settled):
            self._acknowledged = report.messages
        else:
            self._say(report)

    # -- what the lab asks for ------------------------------------------------------------------------------------

    def connect(self, order: Connect) -> None:
        self._publishing.connect(order)

    def subscribe(self, order: Subscribe) -> None:
        self._ears.subscribe(order, self._publishing)

    def go(self, order: Go) -> None:
        self._publishing.go(order)
        self._ears.go(order, self._publishing)

    def retime(self, order: Go) -> None:
        self._publishing.retime(order)
        self._ears.retime(order)

    def drain(self, order: Drain) -> None:
        self._drain, self._drain_ns = order, now_ns()

    def halt(self) -> None:
        self._publishing.halt()

    def stock(self) -> Stock:
        return replace(self._publishing.stock(), **self._ears.watched())

    def close(self) -> Stopped:
        self._ears.close()
        stopped = self._publishing.close()
        heard, again = self._ears.rows.total, self._ears.retransmissions
        return replace(stopped, heard=heard, retransmissions=again, **self._ears.watched())

    # -- what the loop calls --------------------------------------------------------------------------------------

    def tick(self, now: int) -> int | None:
        wakes = [wake_ns for wake_ns in (self._publishing.tick(now), self._ears.tick(now)) if wake_ns is not None]
        if self._drain is None or self._is_settled:
            return min(wakes, default=None)
        is_here = self._ears.rows.total >= self._drain.expected and now - self._ears.last_ns > _QUIET_NS
        is_quiet = 0 < self._drain.quiet_ns < now - max(self._ears.last_ns, self._drain_ns)
        if (is_here and self._acknowledged is not None) or is_quiet or now >= self._drain.deadline_ns:
            self._is_settled = True
            self._say(Settled(self._ears.rows.total))
        return now + _CHECK_NS

    def ready(self, fd: int, event: int) -> None:
        self._publishing.ready(fd, event)
