"""How much of the measure phase a worker could not work, though it would have: no lag says so of a closed loop.

    throttled   its control group was out of CPU time, by the kernel's count (quota.py)
    stalled     it woke more than WOKE_LATE_NS after the time that it had asked to be woken at, or was without a core
                for as long between two waits: all of that time

The second sees whatever holds a process back: a quota that the kernel does not tell of, a stopped process, a host that
takes the cores. Waits for a core that broker and generator share are short, and are not counted.
"""

import math
import time
from pathlib import Path

from brokerlab.load.alarm import now_ns
from brokerlab.load.quota import Quota, most_ns
from brokerlab.load.spec import Go, Held

WOKE_LATE_NS = 10_000_000


class Stalls:
    """Counts anew with each order to go."""

    def __init__(self, *, proc: Path = Path("/proc/self")) -> None:
        self._proc = proc
        self._order = Go(0, 0, 0)
        self._stalled_ns = 0
        self._woke_ns = self._woke_cpu_ns = 0
        self._quota: Quota | None = None
        self._since: tuple[int, tuple[int, ...]] | None = None  # when the counters were read first, and what they said
        self._throttled_percent: float | None = None
        self._turn_ns: float = math.inf  # when they are to be read next: at the begin of the measure phase, and its end

    def begin(self, order: Go) -> None:
        self._order, self._stalled_ns = order, 0
        self._quota, self._since, self._throttled_percent = Quota(proc=self._proc), None, None
        self._turn_ns = order.measure_ns

    def retime(self, order: Go) -> None:
        """Learns the true times; nothing was due before them."""
        self._order, self._turn_ns = order, order.measure_ns

    def woke(self, asked_ns: int, now: int) -> None:
        """Takes that the worker woke now, and had asked to be woken then."""
        if now - asked_ns > WOKE_LATE_NS:
            self._add(asked_ns, now)
        if now >= self._turn_ns:
            self._read(now)
        self._woke_ns, self._woke_cpu_ns = now, time.thread_time_ns()

    def waits(self, now: int) -> None:
        """Takes that it has done what it woke for: it never waits meanwhile, so it works or has no core."""
        if now - self._woke_ns > WOKE_LATE_NS:
            without_ns = now - self._woke_ns - (time.thread_time_ns() - self._woke_cpu_ns)
            if without_ns > WOKE_LATE_NS:
                self._add(now - without_ns, now)

    def _add(self, since_ns: int, until_ns: int) -> None:
        self._stalled_ns += max(0, min(until_ns, self._order.end_ns) - max(since_ns, self._order.measure_ns))

    def _read(self, now: int) -> None:
        if self._quota is None:
            return
        if self._since is None:
            self._since, self._turn_ns = (now, self._quota.read_ns()), self._order.end_ns
            return
        began_ns, before = self._since
        throttled_ns = most_ns(before, self._quota.read_ns())
        if throttled_ns is not None:  # the times of all cores add up: more than all of the time there is not
            self._throttled_percent = min(100.0, 100 * throttled_ns / (now - began_ns))
        self._turn_ns = math.inf

    def held(self, *, has_no_lag: bool) -> Held:
        """What it amounts to so far; where something is due, or to be read, its lag says more than late wakes do."""
        if self._since is not None and self._turn_ns < math.inf:
            self._read(now_ns())
        measured_ns = self._order.end_ns - self._order.measure_ns
        is_known = has_no_lag and measured_ns > 0
        return Held(100 * self._stalled_ns / measured_ns if is_known else None, self._throttled_percent)
