"""Whether a run may be believed: pure functions from what was seen to reasons.

valid: none of the rules below is broken.
invalid: the run is over, but its numbers are not the broker's: the generator was the limit, or counts disagree.
collapsed: the broker did not carry the load to its end: it died, closed connections, refused subscriptions
or did not take in time what was due.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from brokerlab.lab.cores import Division
from brokerlab.load.spec import Granted, Stopped
from brokerlab.stats.histogram import histogram_quantile

VALID, INVALID, COLLAPSED = "valid", "invalid", "collapsed"
_REFUSED = 0x80
Buckets = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    value: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meter:
    """What the generator says of itself."""

    cpu_percent: Mapping[str, float]  # per worker, from the first to the last message of the schedule
    lag_p50_ms: float | None  # this and the next five: of all workers together
    lag_p99_ms: float | None
    lag_max_ms: float | None
    unsent: int
    untaken: int
    waited: int  # for the window in flight, which is the broker's time
    retransmissions: int
    written_off: int
    receive_lag_p50_ms: float | None = None
    receive_lag_p99_ms: float | None = None
    receive_lag_max_ms: float | None = None
    late_ms: Mapping[str, float] = field(default_factory=dict)  # per worker: the schedule lag's p99
    unread_ms: Mapping[str, float] = field(default_factory=dict)  # per worker: the receive lag's p99
    device_p50_ms: float | None = None  # this and the next two: how long devices kept a message; null without devices
    device_p99_ms: float | None = None
    device_max_ms: float | None = None
    cut_short: int | None = None  # a window that was kept because the warm-up was over, not because it was wide enough
    narrow: int | None = None  # one that was kept because no wider one is tried
    stalled_percent: Mapping[str, float] = field(
        default_factory=dict
    )  # per publishing worker of a closed loop (load/stalls.py)
    throttled_percent: Mapping[str, float] = field(default_factory=dict)  # per worker whose kernel tells


def read_meter(stopped: Mapping[str, Stopped]) -> Meter:
    """Merges what the workers of a run said; lag is null when nothing was sent in the measure phase.

    Each worker's lag is kept apart too: one that is late among many would not be seen in what all have together.
    """
    sent = {node: (each.lag_buckets, each.lag_max_ns) for node, each in stopped.items()}
    read = {node: (each.receive_lag_buckets, each.receive_lag_max_ns) for node, each in stopped.items()}
    p50_ms, p99_ms, max_ms = lag_ms(list(sent.values()))
    received = lag_ms(list(read.values()))
    device = lag_ms([(each.device_buckets, each.device_max_ns) for each in stopped.values()])
    return Meter(
        cpu_percent={node: 100 * each.cpu_ns / each.wall_ns for node, each in stopped.items() if each.wall_ns},
        lag_p50_ms=p50_ms,
        lag_p99_ms=p99_ms,
        lag_max_ms=max_ms,
        unsent=sum(each.unsent for each in stopped.values()),
        untaken=sum(each.untaken for each in stopped.values()),
        waited=sum(each.waited for each in stopped.values()),
        retransmissions=sum(each.retransmissions for each in stopped.values()),
        written_off=sum(each.written_off for each in stopped.values()),
        receive_lag_p50_ms=received[0],
        receive_lag_p99_ms=received[1],
        receive_lag_max_ms=received[2],
        late_ms=_known({node: lag_ms([lag])[1] for node, lag in sent.items()}),
        unread_ms=_known({node: lag_ms([lag])[1] for node, lag in read.items()}),
        device_p50_ms=device[0],
        device_p99_ms=device[1],
        device_max_ms=device[2],
        cut_short=next((each.window for each in stopped.values() if each.is_window_cut_short), None),
        stalled_percent=_known({node: each.held.stalled_percent for node, each in stopped.items()}),
        throttled_percent=_known({node: each.held.throttled_percent for node, each in stopped.items()}),
        narrow=next((each.window for each in stopped.values() if each.is_widest_window_narrow), None),
    )


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {node: value for node, value in values.items() if value is not None}


def window_section(workers: Iterable[Stopped]) -> dict[str, object]:
    """For the manifest: the window of a saturating load, and how it was found where the study leaves it open."""
    stopped = list(workers)
    sizes = [each for each in stopped if each.window is not None]
    pauses = [each.reading_pause_s for each in stopped if each.reading_pause_s is not None]
    settled_ns = sizes[0].window_settled_ns if sizes else None
    return {
        "window": sizes[0].window if sizes else None,
        "window_steps": [
            {"window": window, "delivered_per_s": per_s} for each in sizes for window, per_s in each.window_steps
        ],
        "window_settled_s": None if settled_ns is None else settled_ns / 1e9,
        "reading_pause_s": max(pauses, default=None),
    }


def connect_lag_section(workers: Iterable[Stopped]) -> dict[str, float | None]:
    """For the manifest: how late connections were begun that were due at a time; null where none was."""
    p50_ms, p99_ms, max_ms = lag_ms([(each.connect_lag_buckets, each.connect_lag_max_ns) for each in workers])
    return {"p50": p50_ms, "p99": p99_ms, "max": max_ms}


def lag_ms(workers: Sequence[tuple[Buckets, int]]) -> tuple[float | None, float | None, float | None]:
    """Median, p99 and maximum of a lag of all workers together, each a histogram and its maximum."""
    merged = Counter[int]()
    for histogram, _ in workers:
        merged.update(dict(histogram))
    if not merged:
        return None, None, None
    buckets = np.array(sorted(merged), dtype=np.int64)
    counts = np.array([merged[bucket] for bucket in buckets.tolist()], dtype=np.int64)
    max_ns = max(largest_ns for _, largest_ns in workers)
    p50, p99 = (
        histogram_quantile(buckets, counts, quantile=quantile, min_ns=0, max_ns=max_ns) for quantile in (0.5, 0.99)
    )
    return p50 / 1e6, p99 / 1e6, max_ns / 1e6


def meter_section(
    meter: Meter, stopped: Mapping[str, Stopped], *, inflight: int | None, division: Division
) -> dict[str, object]:
    """For the manifest: what the generator says of itself."""
    return {
        "workers": [
            {
                "node": node,
                "cpu_percent": meter.cpu_percent.get(node),
                "throttled_percent": meter.throttled_percent.get(node),
                "stalled_percent": meter.stalled_percent.get(node),
                "schedule_lag_p99_ms": meter.late_ms.get(node),
                "receive_lag_p99_ms": meter.unread_ms.get(node),
                "messages": each.messages,
                "wire_bytes_per_message": each.wire_bytes / each.messages if each.wire_bytes else None,
                "acknowledgements": each.acknowledgements,
                "away": each.away,
            }
            for node, each in stopped.items()
        ],
        "schedule_lag_ms": {"p50": meter.lag_p50_ms, "p99": meter.lag_p99_ms, "max": meter.lag_max_ms},
        **window_section(stopped.values()),
        "inflight": inflight,
        "waited_for_inflight": meter.waited,
        "resent": sum(each.resent for each in stopped.values()),
        "connect_lag_ms": connect_lag_section(stopped.values()),
        "closes": [asdict(closed) for each in stopped.values() for closed in each.closes],
        "refused_connects": sum(each.refused_connects for each in stopped.values()),
        "unsent": meter.unsent,
        "untaken": meter.untaken,
        "retransmissions": meter.retransmissions,
        "written_off": meter.written_off,
        "receive_lag_ms": {
            "p50": meter.receive_lag_p50_ms,
            "p99": meter.receive_lag_p99_ms,
            "max": meter.receive_lag_max_ms,
        },
        "device_ms": {"p50": meter.device_p50_ms, "p99": meter.device_p99_ms, "max": meter.device_max_ms},
        "device_buckets": [list(pair) for each in stopped.values() for pair in each.device_buckets],
        "shares_cores_with_broker": division.is_shared,  # then every process may run on every core
        "cores": division.cores,
    }


def collapse_reasons(
    stopped: Mapping[str, Stopped],
    granted: Iterable[Granted],
    devices: Iterable[Granted] = (),
    *,
    is_planned: bool = False,
) -> list[str]:
    """Why the broker did not carry the load; where faults are planned connections end by plan."""
    closed = [] if is_planned else [text for each in stopped.values() for text in each.closed_by_broker]
    reasons = []
    if closed:
        reasons.append(f"the broker ended {len(closed)} connections; the first: {closed[0]}")
    for kind, answers in (("subscribers", granted), ("devices", devices)):
        if refused := [each for each in answers if max(each.codes) >= _REFUSED]:
            reasons.append(f"the broker refused the subscriptions of {len(refused)} {kind}")
    return reasons


def judge(collapsed: Sequence[str], invalid: Sequence[str]) -> Verdict:
    if collapsed:
        return Verdict(COLLAPSED, (*collapsed, *invalid))
    return Verdict(INVALID if invalid else VALID, tuple(invalid))
