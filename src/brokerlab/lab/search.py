"""Which rate a search tries next, and what it has found: pure functions of the trials made so far.

    from ── ×2 ── ×2 ── ×2 ── fails, fails again
                   └── halves the (logarithmic) gap until it is within the precision ── the last that passed, again

One bad moment of a busy machine must not decide: a failure counts when a second trial at its rate failed too, a pass
is taken at once, but the one that the search ends with is repeated. Where two trials disagree a third decides.
The result is a rate and an interval about it, in which trials disagreed or none was made: from the largest rate that
always passed to the smallest that always failed, the stretch that is measured at the end counting as a trial.
A trial in which a guard of the generator was broken says nothing about the broker and is made again; four of them at
one rate end the search: other machines on a host take cores for seconds, a generator at its limit is there every time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from brokerlab.study.values import Schedule

_TWICE = 2
_TOO_OFTEN = 4
_DIGITS = 4  # of the rates that are tried: nobody needs more, and people read them


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    LIMITED = "limited"  # by the generator


@dataclass(frozen=True, slots=True)
class Attempt:
    rate_per_s: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Found:
    """The capacity lies in [low, high]; the rates are those of one publisher."""

    rate_per_s: float | None  # the largest that passed twice; None: not even the lowest did
    low_per_s: float  # the largest up to it that always passed; 0: none did
    high_per_s: float | None  # the smallest above it that always failed; None: none did
    is_limited: bool = False  # the generator could not go further


def next_rate(attempts: Sequence[Attempt], terms: Schedule) -> float | None:
    """The rate of the next trial; None when the search is over."""
    seen = _Seen(attempts)
    if seen.is_limited:
        return None
    if attempts and attempts[-1].outcome is Outcome.LIMITED:
        return attempts[-1].rate_per_s
    if tied := [rate for rate in seen.rates if seen.passes(rate) == seen.failures(rate)]:
        return min(tied)
    low, high = seen.low, seen.high
    if high is not None and seen.failures(high) < _TWICE:
        return high
    if low is None:
        return terms.from_per_s if high is None else None
    gap = _between(low, high, terms)
    return low if gap is None and seen.passes(low) < _TWICE else gap


def found(attempts: Sequence[Attempt], measured: Sequence[Attempt] = ()) -> Found:
    """What a search that is over has found, or one that was ended as far as it came.

    What was seen while it was `measured` at the rate that was found leaves that rate as it is.
    """
    seen, every = _Seen(attempts), _Seen([*attempts, *measured])
    rate, high = seen.low, seen.high
    always = [each for each in every.rates if rate is not None and each <= rate and not every.failures(each)]
    never = [each for each in every.rates if high is not None and each >= high and not every.passes(each)]
    return Found(rate, max(always, default=0.0), min(never, default=None), seen.is_limited)


def _between(low: float, high: float | None, terms: Schedule) -> float | None:
    """A rate that would tell more; None when the gap is small enough, or the end of the range is reached."""
    if high is None:
        return None if low >= terms.to_per_s else min(2 * low, terms.to_per_s)
    if high / low <= 1 + terms.precision_percent / 100:
        return None
    middle = math.sqrt(low * high)
    return round(middle, _DIGITS - 1 - math.floor(math.log10(middle)))


class _Seen:
    """The trials by their rate."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._outcomes: dict[float, list[Outcome]] = {}
        for attempt in attempts:
            self._outcomes.setdefault(attempt.rate_per_s, []).append(attempt.outcome)

    @property
    def rates(self) -> list[float]:
        """Those with a trial that says something about the broker."""
        return [rate for rate in self._outcomes if self.passes(rate) + self.failures(rate)]

    def passes(self, rate: float) -> int:
        return self._outcomes[rate].count(Outcome.PASSED)

    def failures(self, rate: float) -> int:
        return self._outcomes[rate].count(Outcome.FAILED)

    @property
    def is_limited(self) -> bool:
        return any(outcomes.count(Outcome.LIMITED) >= _TOO_OFTEN for outcomes in self._outcomes.values())

    @property
    def high(self) -> float | None:
        """The smallest rate that failed more often than it passed."""
        return min((rate for rate in self.rates if self.failures(rate) > self.passes(rate)), default=None)

    @property
    def low(self) -> float | None:
        """The largest below it that passed more often than it failed."""
        passed = [rate for rate in self.rates if self.passes(rate) > self.failures(rate)]
        high = self.high
        return max((rate for rate in passed if high is None or rate < high), default=None)
