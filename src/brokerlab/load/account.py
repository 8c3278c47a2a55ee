"""What a publishing worker says of itself: its CPU, how late it was and what waited, since the last order to go."""

import time
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerlab.load.alarm import now_ns
from brokerlab.load.lag import Lag
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Go, Stock

Longs = NDArray[np.int64]

_AT_ONCE = 4096


class Account:
    """Counts are of messages that were intended in the order's measure phase."""

    def __init__(self, order: Go) -> None:
        self._order = order
        self._lag = Lag()
        self._waited = 0
        self._uncounted: list[Longs] = []
        self._rows = 0  # of them
        self.given_up = 0  # due, but not built when told to halt
        self.blocked = 0  # how often a socket did not take all that was handed to it
        self._cpu_ns, self._wall_ns = -time.process_time_ns(), -now_ns()
        self._is_over = False

    def retime(self, order: Go) -> None:
        self._order = order

    def end(self, now: int) -> None:
        """All is handed over: what the worker does from now on is not counted as work."""
        self._cpu_ns += time.process_time_ns()
        self._wall_ns += now
        self._is_over = True

    @property
    def cpu_ns(self) -> int:
        return self._cpu_ns if self._is_over else max(0, self._cpu_ns + time.process_time_ns())

    @property
    def wall_ns(self) -> int:
        return self._wall_ns if self._is_over else max(0, self._wall_ns + now_ns())

    @property
    def lag(self) -> Lag:
        self._count()
        return self._lag

    @property
    def waited(self) -> int:
        """Messages that waited for room in flight."""
        self._count()
        return self._waited

    def take(self, done: Longs) -> None:
        """Takes finished messages: rows of intended, released and sent times.

        They are counted many at a time: of thousands of publishers each has a few.
        """
        self._uncounted.append(done)
        self._rows += done.shape[1]
        if self._rows >= _AT_ONCE:
            self._count()

    def _count(self) -> None:
        if not self._rows:
            return
        intended, released, sent = np.concatenate(self._uncounted, axis=1)
        self._uncounted, self._rows = [], 0
        is_measured = (intended >= self._order.measure_ns) & (intended < self._order.end_ns) & (sent > 0)
        self._lag.add((sent - released)[is_measured])
        self._waited += int(np.count_nonzero((released > intended) & is_measured))

    def facts(self) -> dict[str, Any]:
        """Fields of Stopped."""
        return {
            "cpu_ns": self.cpu_ns,
            "wall_ns": self.wall_ns,
            "lag_buckets": self.lag.buckets(),
            "lag_max_ns": self.lag.max_ns,
            "waited": self.waited,
        }

    def stock(self, unacknowledged: int, closed_by_broker: list[str]) -> Stock:
        return Stock(
            cpu_ns=self.cpu_ns,
            wall_ns=self.wall_ns,
            closed_by_broker=tuple(closed_by_broker),
            given_up=self.given_up,
            unacknowledged=unacknowledged,
            blocked=self.blocked,
            lag_buckets=self.lag.buckets(),
            lag_max_ns=self.lag.max_ns,
        )


def published_facts(
    publishers: Sequence[Publisher], connected: Collection[Publisher], *, given_up: int
) -> dict[str, Any]:
    """Fields of Stopped; uses up what is left of the schedules."""
    served = {id(each) for each in connected if each.room() and not each.is_blocked}
    left = [(id(each) in served, each.unsent + each.still_due()) for each in publishers]
    return {
        "unsent": sum(count for _, count in left) + given_up,
        "untaken": sum(count for is_served, count in left if not is_served),
        "messages": sum(each.following for each in publishers),
        "wire_bytes": sum(each.wire_bytes for each in publishers),
        "resent": sum(each.resent for each in publishers),
    }
