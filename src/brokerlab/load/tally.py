"""What arrives of one stretch of the schedule, counted while it arrives: a search decides by it."""

import numpy as np
from numpy.typing import NDArray

from brokerlab.load.lag import Lag
from brokerlab.stats.backlog import under_way

Longs = NDArray[np.int64]


class Tally:
    """Takes arrivals in any portions; those that were not intended in the stretch do not count."""

    def __init__(self, start_ns: int, end_ns: int) -> None:
        self._start_ns, self._end_ns = start_ns, end_ns
        self._latency = Lag()
        self.arrivals = 0
        self.min_ns = 0  # without meaning while nothing arrived
        self._second = self._last = 0.0

    def add(self, intended_ns: Longs, received_ns: Longs) -> None:
        is_inside = (self._start_ns <= intended_ns) & (intended_ns < self._end_ns)
        intended_ns, received_ns = intended_ns[is_inside], received_ns[is_inside]
        if not intended_ns.size:
            return
        latency_ns = received_ns - intended_ns
        least_ns = int(latency_ns.min())
        self.min_ns = min(self.min_ns, least_ns) if self.arrivals else least_ns
        self.arrivals += intended_ns.size
        self._latency.add(latency_ns)
        second, last = under_way(intended_ns, received_ns, start_ns=self._start_ns, end_ns=self._end_ns)
        self._second += second
        self._last += last

    @property
    def max_ns(self) -> int:
        return self._latency.max_ns

    def buckets(self) -> tuple[tuple[int, int], ...]:
        return self._latency.buckets()

    @property
    def under_way(self) -> tuple[float, float]:
        return self._second, self._last
