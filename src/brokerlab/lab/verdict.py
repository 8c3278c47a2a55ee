"""Whether a run may be believed: pure functions from what was seen to reasons.

valid: none of the rules below is broken.
invalid: the run is over, but its numbers are not the broker's: the generator was the limit, or counts disagree.
collapsed: the broker did not carry the load to its end: it died, closed connections or refused subscriptions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brokerlab.load.spec import Stopped
from brokerlab.stats.histogram import quantile_ns
from brokerlab.study.values import Guards

VALID, INVALID, COLLAPSED = "valid", "invalid", "collapsed"
_REFUSED = 0x80


@dataclass(frozen=True, slots=True)
class Verdict:
    value: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meter:
    """What the generator says of itself."""

    cpu_percent: Mapping[str, float]  # per worker, from the first to the last message of the schedule
    lag_p50_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    unsent: int
    retransmissions: int
    written_off: int


def read_meter(stopped: Mapping[str, Stopped]) -> Meter:
    """Merges what the workers of a run said; lag is null when nothing was sent in the measure phase."""
    counts: dict[int, int] = {}
    for each in stopped.values():
        for bucket, count in each.lag_buckets:
            counts[bucket] = counts.get(bucket, 0) + count
    return Meter(
        cpu_percent={node: 100 * each.cpu_ns / each.wall_ns for node, each in stopped.items() if each.wall_ns},
        lag_p50_ms=quantile_ns(counts, 0.5) / 1e6 if counts else None,
        lag_p99_ms=quantile_ns(counts, 0.99) / 1e6 if counts else None,
        lag_max_ms=max(each.lag_max_ns for each in stopped.values()) / 1e6 if counts else None,
        unsent=sum(each.unsent for each in stopped.values()),
        retransmissions=sum(each.retransmissions for each in stopped.values()),
        written_off=sum(each.written_off for each in stopped.values()),
    )


def collapse_reasons(stopped: Mapping[str, Stopped], granted_qos: Mapping[int, int]) -> list[str]:
    """Why the broker did not carry the load."""
    closed = [text for each in stopped.values() for text in each.closed_by_broker]
    reasons = []
    if closed:
        reasons.append(f"the broker ended {len(closed)} connections; the first: {closed[0]}")
    if refused := [number for number, qos in granted_qos.items() if qos == _REFUSED]:
        reasons.append(f"the broker refused the subscriptions of {len(refused)} subscribers")
    return reasons


def guard_reasons(meter: Meter, guards: Guards) -> list[str]:
    """Why the generator may have been the limit (S-05)."""
    reasons = [
        f"generator CPU of {node}: {percent:.0f} % is above {guards.generator_cpu_percent:g} %"
        for node, percent in meter.cpu_percent.items()
        if percent > guards.generator_cpu_percent
    ]
    if meter.lag_p99_ms is not None and meter.lag_p99_ms > guards.schedule_lag_p99_ms:
        reasons.append(
            f"schedule lag p99: {meter.lag_p99_ms:.2f} ms is above {guards.schedule_lag_p99_ms:g} ms, "
            "messages left later than they were due"
        )
    if meter.unsent:
        reasons.append(f"{meter.unsent} messages that were due were not handed over before the end of drain")
    return reasons


def judge(collapsed: Sequence[str], invalid: Sequence[str]) -> Verdict:
    if collapsed:
        return Verdict(COLLAPSED, (*collapsed, *invalid))
    return Verdict(INVALID if invalid else VALID, tuple(invalid))
