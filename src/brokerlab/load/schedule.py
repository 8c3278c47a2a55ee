"""When each message is due: pure functions from a schedule to arrays of intended times.

Open loop (design rule 1): the times depend on the schedule alone, never on what the broker does.
They come in chunks, whose size changes nothing, and what is random depends on (seed, publisher) alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerlab.study.seeds import derived_seed
from brokerlab.study.values import Arrivals, Schedule

CHUNK = 4096
_SECOND_NS = 1_000_000_000
_NOTHING = 1e-9  # of an interval
_NOTHING_OF_ALL = 4e-16  # of so many intervals: what floats may be off after a division or two

Longs = NDArray[np.int64]
Reals = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Span:
    """The schedule of a run and one of its publishers: whose times are asked for, and between which."""

    start_ns: int
    end_ns: int
    measure_ns: int  # the warm-up is before it
    publisher: int = 0
    publishers: int = 1
    seed: int = 0
    chunk: int = CHUNK

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def shift(self) -> float:
        """The part of an interval by which publisher p of n is later than the first, so that they take turns.

        A probe is alone, whatever its number.
        """
        return self.publisher % self.publishers / self.publishers

    def random(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(derived_seed(self.seed, "arrivals", self.publisher)))


def at_rate(schedule: Schedule, rate_per_s: float | None) -> Schedule:
    """The schedule of an order that gives a rate, as each trial of a search does."""
    if rate_per_s is None:
        return schedule
    arrivals = Arrivals.CONSTANT if schedule.arrivals is Arrivals.SEARCH else schedule.arrivals
    return replace(schedule, arrivals=arrivals, rate_per_s=rate_per_s)


def intended_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """The intended times in [start, end) of one publisher, in order, in chunks; closed loops have none."""
    return _BY_ARRIVALS[schedule.arrivals](schedule, span)


def constant_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """At equal intervals; publisher p of n is shifted by p/n of an interval, so that together they are even too."""
    interval_ns = _SECOND_NS / schedule.rate_per_s
    count = _count(span.duration_ns / interval_ns - span.shift)
    return _Even(span, count, interval_ns)


def poisson_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """With independent exponential gaps of mean 1/rate: publishers and devices that know nothing of each other."""
    random, mean_ns = span.random(), _SECOND_NS / schedule.rate_per_s
    last_ns = 0.0
    while last_ns < span.duration_ns:
        gaps_ns = random.standard_exponential(span.chunk) * mean_ns
        gaps_ns[0] += last_ns  # one sum from the first gap on, wherever the chunks are cut
        times_ns = np.cumsum(gaps_ns)
        last_ns = float(times_ns[-1])
        if (chunk := _chunk(span, times_ns[times_ns < span.duration_ns])).size:
            yield chunk


def jitter_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """One message in each interval of a constant rate, off its middle by at most ± `jitter` of the interval.

    The shift is uniform. At most half an interval (the study's rule) keeps the messages in order.
    Publishers take turns: of all but the first an interval has begun already when the schedule does.
    """
    interval_ns = _SECOND_NS / schedule.rate_per_s
    reach, middle = schedule.jitter_percent / 100, span.shift - 0.5
    random = span.random()
    count = _count(span.duration_ns / interval_ns - middle + reach)
    for begin in range(0, count, span.chunk):
        number = np.arange(begin, min(begin + span.chunk, count))
        off = (2 * random.random(number.size) - 1) * reach
        times_ns = (middle + number + off) * interval_ns
        if (chunk := _chunk(span, times_ns[(times_ns >= 0) & (times_ns < span.duration_ns)])).size:
            yield chunk


def burst_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """`burst` messages at once every burst/rate seconds; publishers take turns with their bursts."""
    interval_ns = _SECOND_NS * schedule.burst / schedule.rate_per_s
    bursts = _count(span.duration_ns / interval_ns - span.shift)
    return _numbered(
        span, bursts * schedule.burst, lambda number: (span.shift + number // schedule.burst) * interval_ns
    )


def ramp_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """The rate changes linearly from `rate` at the start of the schedule to `to` at its end, warm-up included.

    With rates a and b over T, a·t + (b - a)·t²/2T messages are due before t; message i is due where that is i.
    """
    duration_s = span.duration_ns / _SECOND_NS
    first, change = schedule.rate_per_s, schedule.to_per_s - schedule.rate_per_s
    count = _count((first + change / 2) * duration_s - span.shift)

    def at_ns(number: Longs) -> Reals:
        due = number + span.shift
        root: Reals = np.sqrt(np.maximum(0, first**2 + 2 * change / duration_s * due))
        return 2 * due / (first + root) * _SECOND_NS  # the form of the solution that holds for change = 0 too

    return _numbered(span, count, at_ns)


def step_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """Each of `rates` for an equal share of the schedule, warm-up included; the count runs on over the steps."""
    borders_ns = np.linspace(0, span.duration_ns, len(schedule.rates_per_s) + 1)
    due = np.cumsum([0.0, *(rate * np.diff(borders_ns)[0] / _SECOND_NS for rate in schedule.rates_per_s)])
    count = _count(float(due[-1]) - span.shift)
    return _numbered(span, count, lambda number: np.interp(number + span.shift, due, borders_ns))


def contact_ns(schedule: Schedule, span: Span) -> Iterator[Longs]:
    """What was collected at `rate` during `store` is sent within the contact window of `within` (F-12).

    The contact opens with the measure phase; rate x store messages are due at equal intervals in it, none outside.
    Collecting is not simulated: the messages are as old as their place in the window, not as their reading.
    """
    count = round(schedule.rate_per_s * schedule.store_s)
    offset_ns, interval_ns = span.measure_ns - span.start_ns, schedule.within_s * _SECOND_NS / count
    return _numbered(span, count, lambda number: offset_ns + (span.shift + number) * interval_ns)


def none_ns(_schedule: Schedule, _span: Span) -> Iterator[Longs]:
    """A closed loop: what happens decides when a message is sent."""
    return iter(())


_BY_ARRIVALS: dict[Arrivals, Callable[[Schedule, Span], Iterator[Longs]]] = {
    Arrivals.CONSTANT: constant_ns,
    Arrivals.POISSON: poisson_ns,
    Arrivals.JITTER: jitter_ns,
    Arrivals.BURST: burst_ns,
    Arrivals.RAMP: ramp_ns,
    Arrivals.STEP: step_ns,
    Arrivals.CONTACT: contact_ns,
    Arrivals.WINDOW: none_ns,
    Arrivals.SATURATE: none_ns,
    Arrivals.REPLAY: none_ns,  # the file decides: load/replay.py
    Arrivals.SEARCH: none_ns,  # its trials are constant
}


def _count(last: float) -> int:
    """How many of 0, 1, 2 … lie below the border.

    One that lies at the border is due at the end, and so not before it: floats that put it a little below, as 29/s over
    1 s do, are not believed.
    """
    return max(0, int(np.ceil(last - max(_NOTHING, last * _NOTHING_OF_ALL))))


class _Even:
    """The chunks of a constant rate; a generator with its closure would take a kilobyte of each of many publishers."""

    __slots__ = ("_begin", "_count", "_interval_ns", "_span")

    def __init__(self, span: Span, count: int, interval_ns: float) -> None:
        self._span, self._count, self._interval_ns = span, count, interval_ns
        self._begin = 0

    @property
    def left(self) -> int:
        return self._count - self._begin

    def __iter__(self) -> Iterator[Longs]:
        return self

    def __next__(self) -> Longs:
        if self._begin >= self._count:
            raise StopIteration
        span, begin = self._span, self._begin
        self._begin = min(begin + span.chunk, self._count)
        return _chunk(span, (span.shift + np.arange(begin, self._begin)) * self._interval_ns)


def left_of(times: Iterator[Longs]) -> int:
    """How many times are left, which are used up by this; those at a constant rate need not be made."""
    return times.left if isinstance(times, _Even) else sum(each.size for each in times)


def _numbered(span: Span, count: int, at_ns: Callable[[Longs], Reals]) -> Iterator[Longs]:
    """Message i is computed from i, not from its predecessor: no rounding error adds up."""
    for begin in range(0, count, span.chunk):
        yield _chunk(span, at_ns(np.arange(begin, min(begin + span.chunk, count))))


def _chunk(span: Span, times_ns: Reals) -> Longs:
    """Times since the start as absolute times; rounding must not carry the last one to the end of the schedule."""
    return span.start_ns + np.minimum(times_ns.astype(np.int64), span.duration_ns - 1)
