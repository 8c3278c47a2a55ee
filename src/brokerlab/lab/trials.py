"""Makes the trials of a search, one after the other, on one broker that stays up; lets it drain between them.

    warmup at the lowest rate ── trial-1 ── trial-2 ── … ── measure at the rate that was found ── drain

Phases are those of the schedule; what is still under way when a trial ends is waited for before the next one begins.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from brokerlab.errors import RunError
from brokerlab.lab.search import Found, found, next_rate
from brokerlab.lab.surroundings import Lookout, summarize
from brokerlab.lab.trial import Trial, judge_trial
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Go, Stock
from brokerlab.study.values import Study, Workload

LEAD_NS = 100_000_000  # between the order to go and the first message
_MEASURE = "measure"  # the phase at the rate that was found
_GRACE_NS = 500_000_000  # after a trial, before what could not be sent is given up
_QUIET_NS = 500_000_000  # without an arrival: what is not here is lost, or as good as lost

Expected = Callable[[Mapping[int, int]], Mapping[str, int]]  # publications per publisher -> deliveries per worker
Pass = Callable[[str, Go], None]  # lets a phase of the schedule go by and notes it


@dataclass(slots=True)
class Trials:
    """The state of one search."""

    crew: Crew
    lookout: Lookout
    study: Study
    workload: Workload
    expected: Expected
    pass_phase: Pass
    made: list[Trial] = field(default_factory=list)
    _number: int = 0
    _before: dict[int, int] = field(default_factory=dict)  # publications per publisher, of the orders before

    def search(self) -> float | None:
        """The rate to measure at: that which was found, or the lowest; None when the broker gave up."""
        terms, phases = self.workload.schedule, self.study.deploy.phases
        if phases.warmup_s:
            self._try("warmup", terms.from_per_s, phases.warmup_s)
        while (rate := next_rate([trial.attempt for trial in self.made], terms)) is not None:
            trial, stock = self._try(f"trial-{len(self.made) + 1}", rate, terms.trial_s)
            self.made.append(trial)
            if any(each.closed_by_broker for each in stock.values()):
                return None
        return self.found.rate_per_s or terms.from_per_s

    @property
    def found(self) -> Found:
        tried = [trial.attempt for trial in self.made if trial.phase != _MEASURE]
        return found(tried, measured=[trial.attempt for trial in self.made if trial.phase == _MEASURE])

    def order(self, rate_per_s: float, seconds: float) -> Go:
        """The next order: all of it is measured."""
        self._number += 1
        start_ns = time.monotonic_ns() + LEAD_NS
        return Go(start_ns, start_ns, start_ns + int(seconds * 1e9), self._number, rate_per_s)

    def news(self, publications: Mapping[int, int]) -> dict[int, int]:
        """Publications per publisher of the last order alone, from those of all orders."""
        news = {number: count - self._before.get(number, 0) for number, count in publications.items()}
        self._before = dict(publications)
        return news

    def judge(self, phase: str, order: Go, news: Mapping[int, int]) -> tuple[Trial, dict[str, Stock]]:
        """What the workers saw of the last order."""
        stock = self.crew.stock()
        trial = judge_trial(
            phase, order, stock, published=sum(news.values()), expected=sum(self.expected(news).values()),
            workload=self.workload, guards=self.study.analysis.guards,
            around=summarize(
                self.lookout.readings, measure_ns=order.measure_ns, end_ns=order.end_ns, since_ns=order.start_ns,
                backlogs_bytes=[each.backlog_bytes for each in stock.values()],
            ),
        )  # fmt: skip
        return trial, stock

    def _try(self, phase: str, rate_per_s: float, seconds: float) -> tuple[Trial, dict[str, Stock]]:
        order = self.order(rate_per_s, seconds)
        self.crew.go(order)
        self.pass_phase(phase, order)
        publications = self.crew.sent(deadline_ns=order.end_ns + _GRACE_NS)
        deadline_ns = time.monotonic_ns() + int((seconds + self.study.deploy.phases.drain_s) * 1e9)
        if publications is None:
            self.crew.halt()
            publications = self.crew.sent(deadline_ns=deadline_ns)
        if publications is None:
            raise RunError(f"the broker took nothing more of what {phase} had for it at {rate_per_s:g}/s per publisher")
        news = self.news(publications)
        self.crew.drain(dict(self.expected(news)), deadline_ns=deadline_ns, quiet_ns=_QUIET_NS)
        return self.judge(phase, order, news)


def search_section(trials: Trials) -> dict[str, object]:
    """For the manifest; rates are of one publisher."""
    outcome = trials.found
    return {
        "p99_limit_ms": trials.workload.schedule.p99_ms,
        "trials": [trial.section() for trial in trials.made],
        "found": {
            "rate_per_s": outcome.rate_per_s,
            "low_per_s": outcome.low_per_s,
            "high_per_s": outcome.high_per_s,
            "is_limited": outcome.is_limited,
        },
    }


def search_reasons(trials: Trials) -> list[str]:
    """Why the rate that was found is not the broker's capacity."""
    if not trials.found.is_limited:
        return []
    last = trials.made[-1] if trials.made[-1].phase != _MEASURE else trials.made[-2]
    reached = f"at least {trials.found.low_per_s:g}/s per publisher" if trials.found.low_per_s else "not known"
    return [f"capacity: {reached}; the generator was the limit at {last.rate_per_s:g}/s: {'; '.join(last.why)}"]
