"""One trial of a search: what was seen of it, and whether the broker carried its rate.

A trial passes when the p99 of latency, counted from the intended time, is within the limit of the study, nothing was
lost, everything was acknowledged (QoS 1 and 2), all that was due could be handed over, and the messages under way did
not grow (stats/backlog.py). Where a guard of the generator or its machine is broken it says nothing about the broker.

Decisions are made while the search goes on, from counts and histograms; the tables are made of the raw rows, and a
message that arrived twice in the place of one that was lost is seen there only.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from brokerlab.lab.guards import machine_reasons, meter_reasons
from brokerlab.lab.search import Attempt, Outcome
from brokerlab.lab.surroundings import Surroundings
from brokerlab.lab.verdict import read_meter
from brokerlab.load.spec import Go, Stock, Stopped
from brokerlab.stats.backlog import growth_percent, stable_percent
from brokerlab.stats.histogram import histogram_quantile
from brokerlab.study.identity import largest_payload_bytes
from brokerlab.study.values import Guards, Workload


@dataclass(frozen=True, slots=True)
class Trial:
    """Counts are of messages that were intended in the trial; a delivery is one arrival at one subscriber."""

    phase: str
    rate_per_s: float  # of each publisher
    outcome: Outcome
    why: tuple[str, ...]  # it did not pass
    published: int
    expected: int  # deliveries
    arrivals: int
    unacknowledged: int
    given_up: int  # due, but never handed over: the trial was over
    blocked: int  # how often the broker took less than was handed to it
    p50_ms: float | None
    p99_ms: float | None
    backlog_growth_percent: float | None

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.rate_per_s, self.outcome)

    def section(self) -> dict[str, object]:
        """For the manifest."""
        return asdict(self) | {"outcome": self.outcome.value, "why": list(self.why)}


def judge_trial(
    phase: str, order: Go, stock: Mapping[str, Stock], *, published: int, expected: int,
    workload: Workload, guards: Guards, around: Surroundings,
) -> Trial:  # fmt: skip
    workers = stock.values()
    quantiles = _latency_ms(list(workers))
    trial = Trial(
        phase=phase,
        rate_per_s=order.rate_per_s or 0.0,
        outcome=Outcome.PASSED,
        why=(),
        published=published,
        expected=expected,
        arrivals=sum(each.arrivals for each in workers),
        unacknowledged=sum(each.unacknowledged for each in workers) if workload.qos else 0,
        given_up=sum(each.given_up for each in workers),
        blocked=sum(each.blocked for each in workers),
        p50_ms=quantiles[0],
        p99_ms=quantiles[1],
        backlog_growth_percent=_growth_percent(list(workers), order, expected),
    )
    if limits := _limits(stock, guards, around, workload):
        return replace(trial, outcome=Outcome.LIMITED, why=tuple(limits))
    seconds = (order.end_ns - order.measure_ns) / 1e9
    failures = _failures(trial, workload.schedule.p99_ms, growth_limit_percent=stable_percent(seconds))
    return replace(trial, outcome=Outcome.FAILED if failures else Outcome.PASSED, why=tuple(failures))


def _limits(stock: Mapping[str, Stock], guards: Guards, around: Surroundings, workload: Workload) -> list[str]:
    """Guards of the meter that were broken."""
    meter = read_meter(
        {
            node: Stopped(
                messages=each.arrivals,
                cpu_ns=each.cpu_ns,
                wall_ns=each.wall_ns,
                lag_buckets=each.lag_buckets,
                lag_max_ns=each.lag_max_ns,
                receive_lag_buckets=each.receive_lag_buckets,
                receive_lag_max_ns=each.receive_lag_max_ns,
                held=each.held,
            )
            for node, each in stock.items()
        }
    )
    return meter_reasons(meter, guards) + machine_reasons(around, guards, payload_bytes=largest_payload_bytes(workload))


def _failures(trial: Trial, limit_ms: float, *, growth_limit_percent: float) -> list[str]:
    failures = []
    if trial.p99_ms is None:
        failures.append("nothing arrived")
    elif trial.p99_ms > limit_ms:
        failures.append(f"p99 of latency: {trial.p99_ms:.3g} ms is above {limit_ms:g} ms")
    if trial.arrivals < trial.expected:
        failures.append(f"{trial.expected - trial.arrivals} of {trial.expected} deliveries did not come")
    if trial.unacknowledged:
        failures.append(f"{trial.unacknowledged} messages were not acknowledged")
    if trial.given_up:
        failures.append(f"{trial.given_up} messages that were due could not be handed over")
    growth = trial.backlog_growth_percent
    if growth is not None and growth > growth_limit_percent:
        failures.append(f"the backlog grew by {growth:.3g} % of what was due, more than {growth_limit_percent:.3g} %")
    return failures


def _latency_ms(workers: Sequence[Stock]) -> tuple[float | None, float | None]:
    """p50 and p99 of all subscribers together."""
    merged = Counter[int]()
    for each in workers:
        merged.update(dict(each.latency_buckets))
    if not merged:
        return None, None
    buckets = np.array(sorted(merged), dtype=np.int64)
    counts = np.array([merged[bucket] for bucket in buckets.tolist()], dtype=np.int64)
    least_ns = min(each.latency_min_ns for each in workers if each.arrivals)
    most_ns = max(each.latency_max_ns for each in workers)
    p50_ns, p99_ns = (
        histogram_quantile(buckets, counts, quantile=quantile, min_ns=least_ns, max_ns=most_ns)
        for quantile in (0.5, 0.99)
    )
    return p50_ns / 1e6, p99_ns / 1e6


def _growth_percent(workers: Sequence[Stock], order: Go, expected: int) -> float | None:
    seconds = (order.end_ns - order.measure_ns) / 1e9
    if not expected:
        return None
    second, last = (sum(each.under_way[place] for each in workers) for place in (0, 1))
    return growth_percent(second, last, due_per_s=expected / seconds, seconds=seconds)
