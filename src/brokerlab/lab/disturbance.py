"""What the machine did while the meter was calibrated, and whether that was too much for the result to be the meter's.

A host that takes the cores away, or a machine with other work, makes ceilings low and schedules late.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from brokerlab.lab.surroundings import Lookout, summarize
from brokerlab.study.values import Guards

Json = dict[str, Any]
PERIOD_S = 0.05  # a measurement may last 0.3 s; what the kernel counts steal by is 0.01 s of a core
_GUARDS = Guards()  # a calibration belongs to no study


def surroundings_within(lookout: Lookout, begin_ns: int, end_ns: int) -> Json:
    """What was seen from the last reading before the begin to the first after the end, as far as there are such."""
    times = [each.at_ns for each in lookout.readings]
    first = max(0, sum(at_ns <= begin_ns for at_ns in times) - 1)
    last = sum(at_ns < end_ns for at_ns in times)
    found = summarize(
        lookout.readings[first : last + 1],
        measure_ns=min(begin_ns, times[first]),
        end_ns=max(end_ns, times[min(last, len(times) - 1)]),
        ranges_uj=lookout.ranges_uj,
    )
    return {name: value for name, value in asdict(found).items() if name != "socket_backlog_bytes"}


def most_steal_percent(around: Mapping[str, Json]) -> float | None:
    """Of the measurement that lost most; None where it is known of none."""
    return max((each["steal_percent"] for each in around.values() if each["steal_percent"] is not None), default=None)


def disturbances(level: Json) -> list[str]:
    """Why what was measured at a QoS may be less than the meter can, by the limits that runs have unless told."""
    reasons = []
    steal_percent, p99_ms = level.get("steal_percent"), (level.get("schedule_error_ms") or {}).get("p99")
    if steal_percent is not None and steal_percent > _GUARDS.steal_percent:
        reasons.append(f"CPU steal: {steal_percent:.1f} % is above {_GUARDS.steal_percent:g} %")
    if p99_ms is not None and p99_ms > _GUARDS.schedule_lag_p99_ms:
        reasons.append(f"schedule error p99: {p99_ms:.2f} ms is above {_GUARDS.schedule_lag_p99_ms:g} ms")
    return reasons
