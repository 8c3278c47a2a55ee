"""Which kinds of load the meter's ceilings are measured of, and why those of others are not known. Pure.

A calibration has one worker that publishes and one that receives what is published, in the ways that lab/setups.py
knows. Who works in another way is not as fast: the ceilings of those ways are not theirs.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from brokerlab.study.identity import Identity, identity_of, tells_publishers_apart
from brokerlab.study.plan import Cell
from brokerlab.study.values import Roles, Workload

Json = dict[str, Any]
PUBLISHING, RECEIVING = "publishing", "receiving"
_MEASURED = (PUBLISHING, RECEIVING)
_FOUND = {  # of a level
    PUBLISHING: (
        "published_per_s",
        "published_per_s_per_core",
        "published_recorded_per_s",
        "published_recorded_per_s_per_core",
        "schedule_error_ms",
    ),
    RECEIVING: ("received_per_s", "received_per_s_per_core", "receive_resolution_ms"),
}
_COSTS = {PUBLISHING: ("published", "published_recorded"), RECEIVING: ("received",)}  # of its cpu_us_per_message


def unmeasured(cell: Cell) -> dict[str, str]:
    """Why there is no ceiling, by what clients of the cell do; empty where there are all."""
    load = cell.workload
    every = (*_of_all(load), *_of_receiving(load))
    return dict(reversed(every))  # of several reasons the first


def unknown(cells: Iterable[Cell]) -> list[str]:
    """Which ceilings runs of these cells will not have because of what their clients do, and why."""
    lacking = dict.fromkeys(each for cell in cells for each in unmeasured(cell).items())
    return [f"there is no ceiling of {what}: {reason}" for what, reason in sorted(lacking)]


def has_none(lacking: Mapping[str, str]) -> bool:
    """Whether nothing that could be measured is left."""
    return all(each in lacking for each in _MEASURED)


def without(level: Json, lacking: Mapping[str, str]) -> Json:
    """What was measured at a QoS, less what is another kind's: null."""
    left = dict(level)
    costs = dict(left.get("cpu_us_per_message", {}))
    for each in _MEASURED:
        if each in lacking:
            left |= dict.fromkeys(_FOUND[each])
            costs |= dict.fromkeys(_COSTS[each])
    return left | {"cpu_us_per_message": costs}


def _of_all(load: Workload) -> Iterator[tuple[str, str]]:
    reasons = []
    if load.role is Roles.LOOP and load.mqtt5.topic_alias:
        reasons.append("clients that hear their own messages are not calibrated with topic aliases")
    if identity_of(load) in (Identity.SHORT, Identity.ORDER) and not tells_publishers_apart(load):
        reasons.append("payloads under 16 B on topics that publishers share are not calibrated")
    for reason in reasons:
        yield from ((each, reason) for each in _MEASURED)


def _of_receiving(load: Workload) -> Iterator[tuple[str, str]]:
    if load.pause is not None and load.pause.for_s:
        yield RECEIVING, "subscribers that pause are not calibrated"
