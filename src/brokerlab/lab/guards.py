"""Why the meter or its machine may have been the limit (S-05): pure functions from what was measured to reasons."""

from collections.abc import Mapping

from brokerlab.lab.cast import PROBE
from brokerlab.lab.surroundings import Surroundings
from brokerlab.lab.verdict import Meter
from brokerlab.study.values import Guards


def meter_reasons(meter: Meter, guards: Guards) -> list[str]:
    """Guards over what the generator says of itself."""
    reasons = []
    for node, percent in meter.cpu_percent.items():
        limit = guards.subscriber_cpu_percent if node.startswith("subscribers") else guards.generator_cpu_percent
        if percent > limit:
            reasons.append(f"generator CPU of {node}: {percent:.0f} % is above {limit:g} %")
    if late := _worst(meter.late_ms, limit_ms=guards.schedule_lag_p99_ms):
        reasons.append(f"schedule lag p99{late}, messages left later than they were due")
    if unread := _worst(meter.unread_ms, limit_ms=guards.receive_lag_p99_ms):
        reasons.append(f"receive lag p99{unread}, arrived bytes waited to be read")
    reasons += _held_reasons(meter, guards)
    if left := meter.unsent - meter.untaken:
        reasons.append(f"{left} messages that were due were not handed over before the end of drain")
    if meter.cut_short is not None:
        reasons.append(
            f"a window of {meter.cut_short} messages was the limit: the warm-up was over before wider ones brought no "
            "more; give it longer, or the schedule a window"
        )
    if meter.narrow is not None:
        reasons.append(
            f"a window of {meter.narrow} messages was the limit: messages hardly waited in the broker, and no wider "
            "one is tried; give the schedule a window"
        )
    return reasons


def untaken_reasons(meter: Meter) -> list[str]:
    """The broker is overloaded, unless a guard says that it was the generator that could do no more."""
    if not meter.untaken:
        return []
    return [
        f"the broker did not take {meter.untaken} messages that were due by the end of drain: sockets were full, "
        "as many were in flight as may be, or connections were missing"
    ]


def _worst(lags_ms: Mapping[str, float], *, limit_ms: float) -> str:
    """The worker that is beyond the limit most, and by how much; empty if none is.

    The probe is left out: of its few messages the p99 is the latest, which its latency says (pipeline/reduce/parts.py).
    """
    judged = {node: lag_ms for node, lag_ms in lags_ms.items() if node != PROBE}
    worst = max(judged, key=lambda node: judged[node], default=None)
    if worst is None or judged[worst] <= limit_ms:
        return ""
    whose = f" of {worst}" if len(judged) > 1 else ""
    return f"{whose}: {judged[worst]:.2f} ms is above {limit_ms:g} ms"


def _held_reasons(meter: Meter, guards: Guards) -> list[str]:
    """Guards over what held workers back, which a closed loop takes no harm from that anything else would show."""
    throttled = [
        f"CPU quota: {node} was out of time for {percent:.1f} % of a core in the measure phase, "
        f"more than {guards.throttled_percent:g} %"
        for node, percent in meter.throttled_percent.items()
        if percent > guards.throttled_percent
    ]
    stalled = [
        f"stalls: {node} lost {percent:.1f} % of the measure phase by waking late, "
        f"more than {guards.stalled_percent:g} %: something held it back"
        for node, percent in meter.stalled_percent.items()
        if percent > guards.stalled_percent
    ]
    return throttled + stalled


def machine_reasons(around: Surroundings, guards: Guards, *, payload_bytes: int) -> list[str]:
    """Guards over what the machine did; what could not be measured breaks none.

    A socket may always hold two messages: one that is read and one that comes.
    """
    reasons = []
    if around.swap_growth_bytes is not None and around.swap_growth_bytes > guards.swap_growth_bytes:
        reasons.append(f"swap in use grew by {around.swap_growth_bytes} bytes, more than {guards.swap_growth_bytes}")
    if around.steal_percent is not None and around.steal_percent > guards.steal_percent:
        reasons.append(
            f"CPU steal: {around.steal_percent:.1f} % of the measure phase is above {guards.steal_percent:g} %, "
            "other machines on the host took the cores"
        )
    if around.clock_step_ms is not None and around.clock_step_ms > guards.clock_step_ms:
        reasons.append(
            f"the wall clock stepped by {around.clock_step_ms:.2f} ms, more than {guards.clock_step_ms:g} ms: "
            "arrival stamps cannot be trusted"
        )
    most_bytes = guards.socket_backlog_bytes + 2 * payload_bytes
    if around.socket_backlog_bytes is not None and around.socket_backlog_bytes > most_bytes:
        reasons.append(
            f"socket backlog: {around.socket_backlog_bytes:.0f} bytes waited unread on average, "
            f"more than {most_bytes}: the subscriber did not keep up"
        )
    return reasons
