"""What the machine did around a run that no broker is to blame for: swapping, stolen cores, clock steps;
and the energy that all of it took, where the machine counts it.

A thread reads a few files below /proc twice a second, and the lab has them read at the boundaries of the schedule, so
that a phase is judged however short it is; what follows from the readings is pure.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from brokerlab.lab.energy import Package, joules, packages
from brokerlab.load.wallclock import wall_less_monotonic_ns

PERIOD_S = 0.5
_IDLE = slice(3, 5)  # idle and waiting for storage; this and the next:
_STEAL = 7  # place in the first line of /proc/stat after its name, proc(5)
_TICK_FIELDS = 8  # user to steal; guest time is part of user time


@dataclass(frozen=True, slots=True)
class Reading:
    """The machine at one time."""

    at_ns: int
    swap_used_bytes: int
    steal_ticks: int
    idle_ticks: int
    all_ticks: int
    wall_less_mono_ns: int
    energy_uj: tuple[int, ...] = ()  # of each package that has a counter


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run's readings amount to; None where there were too few, or no tick of 10 ms between them."""

    readings: int
    swap_growth_bytes: int | None  # over the run; of a search over its last trial
    steal_percent: float | None  # of all cores, in the measure phase
    clock_step_ms: float | None  # of the wall clock against the monotonic one, likewise
    socket_backlog_bytes: float | None  # unread in the fullest socket, mean of the measure phase (load/backlog.py)
    system_cpu_percent: float | None = None  # of all cores, in the measure phase, whoever used them
    energy_j: float | None = None  # of all processors, in the measure phase, whoever used them; None: no counters


def read_machine(counters: Sequence[Package] = ()) -> Reading:
    """Reads the machine now."""
    ticks = [int(field) for field in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
    return Reading(
        at_ns=time.monotonic_ns(),
        swap_used_bytes=psutil.swap_memory().used,
        steal_ticks=ticks[_STEAL],
        idle_ticks=sum(ticks[_IDLE]),
        all_ticks=sum(ticks[:_TICK_FIELDS]),
        wall_less_mono_ns=wall_less_monotonic_ns(),
        energy_uj=tuple(counter.read_uj() for counter in counters),
    )


def summarize(
    readings: Sequence[Reading],
    *,
    measure_ns: int,
    end_ns: int,
    backlogs_bytes: Sequence[float | None] = (),
    ranges_uj: Sequence[int] = (),
    since_ns: int | None = None,
) -> Surroundings:
    """What the readings of a run say, of which those in [measure_ns, end_ns] are the measure phase.

    Swap and clock are looked at from the last reading before `since_ns` on: what was before a trial is not its own.
    The backlogs are those that the subscribing workers saw; the largest counts.
    """
    if since_ns is not None:
        before = sum(each.at_ns < since_ns for each in readings)
        readings = readings[max(0, before - 1) :]
    measured = [each for each in readings if measure_ns <= each.at_ns <= end_ns]
    ticks = measured[-1].all_ticks - measured[0].all_ticks if measured else 0
    first = readings[0] if readings else None
    return Surroundings(
        readings=len(readings),
        swap_growth_bytes=max(each.swap_used_bytes for each in readings) - first.swap_used_bytes if first else None,
        steal_percent=100 * (measured[-1].steal_ticks - measured[0].steal_ticks) / ticks if ticks else None,
        clock_step_ms=_largest_step_ms(readings) if first else None,
        system_cpu_percent=100 * (1 - (measured[-1].idle_ticks - measured[0].idle_ticks) / ticks) if ticks else None,
        energy_j=joules([each.energy_uj for each in measured], ranges_uj),
        socket_backlog_bytes=max((each for each in backlogs_bytes if each is not None), default=None),
    )


def _largest_step_ms(readings: Sequence[Reading]) -> float:
    """The two clocks run at one rate, also while NTP slews them, so their difference changes by steps alone."""
    return max(abs(each.wall_less_mono_ns - readings[0].wall_less_mono_ns) for each in readings) / 1e6


class Lookout:
    """A context manager that reads the machine until it is left."""

    def __init__(self, *, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self.readings: list[Reading] = []
        self._counters = packages()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lookout", daemon=True)

    def __enter__(self) -> Self:
        self.mark()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def ranges_uj(self) -> list[int]:
        """Where each counter of energy starts anew."""
        return [counter.range_uj for counter in self._counters]

    def mark(self, at_ns: int | None = None) -> None:
        """Reads the machine; at a boundary of the schedule (`at_ns`) for that time, though it is a moment later.

        Readings stand in the order in which they were made: no counter goes back from one to the next.
        """
        with self._lock:
            reading = read_machine(self._counters)
            self.readings.append(reading if at_ns is None else replace(reading, at_ns=at_ns))

    def _watch(self) -> None:
        while not self._over.wait(self._period_s):
            self.mark()
