"""The factors that a study may vary: how a level is read, written, named in a path and put to work.

The readers here also read the one value of a workload that is no factor of its study,
so that `scenario.workload.payload` and the levels of `scenario.variables.payload` obey the same rules.
"""

import re
from dataclasses import replace

from brokerlab.study import (
    ensemble,
    life,
    limits,
    mqtt5,
    names,
    pause,
    quantity,
    roles,
    subscriptions,
    topic_factors,
    topology_part,
    wills,
)
from brokerlab.study.access import read_certificates, read_transport
from brokerlab.study.factor import ON, FactorKind, read_qos, read_switch, read_whole
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.values import AUTO, Content, Level, Qos, Workload

# MQTT 3.1.1 section 2.2.3: the rest of a packet is at most 268,435,455 bytes; topic and packet id are part of it.
LONGEST_PAYLOAD_BYTES = 268_435_455 - 65_535 - 4
_MOST_CLIENTS = 100_000
_MOST_OUTSTANDING = 65_535  # MQTT 3.1.1 section 2.3.1: packet identifiers of one client
_HIGHEST_SPEED = 1e6
_MOST_AT_ONCE = 1_000_000
_HIGHEST_RATE_PER_S = 1e9  # intended times are whole nanoseconds
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def read_name(written: object) -> str:
    """A name of our user's that becomes a part of a path; no dots, which separate keys and levels."""
    if not isinstance(written, str) or not _NAME.fullmatch(written):
        raise RuleError("a name is 1 to 64 letters, digits, - and _, and begins with a letter or a digit")
    return written


def read_broker(written: object) -> str:
    """The name of one of the study's brokers; rules.py checks that it is there."""
    if not isinstance(written, str):
        raise RuleError("must be the name of a broker in system.brokers")
    return written


def read_clients(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_CLIENTS)


def read_window(written: object) -> int | str:
    """Outstanding messages of a saturating load, or that the load finds out how many."""
    if isinstance(written, str):
        return check_name("window, beside whole numbers", written, known=[AUTO])
    return read_inflight(written)


def read_inflight(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_OUTSTANDING)


def read_burst(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_AT_ONCE)


def read_protocol(written: object) -> str:
    """A version of MQTT; 5.0 is a number to YAML, and 5 is what most people call it."""
    text = str(written) if isinstance(written, float | int) else written
    return check_name("MQTT version", "5.0" if text == "5" else text, known=names.PROTOCOLS)


def read_payload_bytes(written: object) -> int:
    size_bytes = quantity.read_bytes(written)
    if size_bytes < 0:
        raise RuleError("must not be negative")
    if size_bytes > LONGEST_PAYLOAD_BYTES:
        raise RuleError(f"must be at most {LONGEST_PAYLOAD_BYTES} B: MQTT's longest packet")
    return size_bytes


def read_content(written: object) -> Content:
    return Content(check_name("content of payloads", written, known=[content.value for content in Content]))


def read_rate_per_s(written: object) -> float:
    rate_per_s = quantity.read_per_s(written)
    if not 0 < rate_per_s <= _HIGHEST_RATE_PER_S:
        raise RuleError(f"must be above 0 and at most {quantity.per_s_text(_HIGHEST_RATE_PER_S)}")
    return rate_per_s


def read_p99_ms(written: object) -> float:
    """The latency that a search allows."""
    p99_ms = quantity.read_milliseconds(written)
    if p99_ms <= 0:
        raise RuleError("must be above 0 ms")
    return p99_ms


def _whole(level: Level) -> int:
    return int(level)


def _with_rate(workload: Workload, level: Level) -> Workload:
    return replace(workload, schedule=replace(workload.schedule, rate_per_s=float(level)))


def _with_content(workload: Workload, level: Level) -> Workload:
    return replace(workload, payload=replace(workload.payload, content=Content(str(level))))


def read_speed(written: object) -> float:
    """How much faster than it was written a file is replayed."""
    try:
        speed = 0.0 if isinstance(written, bool) else float(written)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        speed = 0.0
    if not 0 < speed <= _HIGHEST_SPEED:
        raise RuleError(f"must be a number above 0 and at most {_HIGHEST_SPEED:g}; 2 is twice as fast")
    return speed


def _with_speed(workload: Workload, level: Level) -> Workload:
    return replace(workload, schedule=replace(workload.schedule, speed=float(level)))


def _with_window(workload: Workload, level: Level) -> Workload:
    return replace(workload, schedule=replace(workload.schedule, window=read_window(level)))


def _with_inflight(workload: Workload, level: Level) -> Workload:
    return replace(workload, schedule=replace(workload.schedule, inflight=int(level)))


def _with_p99(workload: Workload, level: Level) -> Workload:
    return replace(workload, schedule=replace(workload.schedule, p99_ms=float(level)))


_KINDS = (
    FactorKind("broker", (), read_broker, str, lambda workload, _level: workload),
    FactorKind("qos", ("qos",), read_qos, _whole, lambda workload, level: replace(workload, qos=Qos(int(level)))),
    FactorKind(
        "payload",
        ("payload",),
        read_payload_bytes,
        lambda level: quantity.bytes_text(int(level)),
        lambda workload, level: replace(workload, payload_bytes=int(level)),
    ),
    FactorKind("content", ("payload", "content"), read_content, str, _with_content),
    FactorKind(
        "rate", ("schedule", "rate"), read_rate_per_s, lambda level: quantity.per_s_text(float(level)), _with_rate
    ),
    FactorKind(
        "publishers",
        ("publishers",),
        read_clients,
        _whole,
        lambda workload, level: replace(workload, publishers=int(level)),
    ),
    FactorKind(
        "subscribers",
        ("subscribers",),
        read_clients,
        _whole,
        lambda workload, level: replace(workload, subscribers=int(level)),
    ),
    FactorKind(
        "protocol",
        ("protocol",),
        read_protocol,
        read_protocol,
        lambda workload, level: replace(workload, protocol=str(level)),
    ),
    FactorKind(
        "transport",
        ("transport",),
        read_transport,
        lambda level: str(read_transport(level)),
        lambda workload, level: replace(workload, transport=read_transport(level)),
    ),
    FactorKind(
        "certificates",
        ("certificates",),
        read_certificates,
        lambda level: str(read_certificates(level)),
        lambda workload, level: replace(workload, certificates=read_certificates(level)),
    ),
    FactorKind(
        "permissions",
        ("permissions",),
        read_switch,
        str,
        lambda workload, level: replace(workload, permissions=level == ON),
    ),
    # Without a place of its own in the workload: what is on or off are its credentials.
    FactorKind(
        "users",
        ("users",),
        read_switch,
        str,
        lambda workload, level: workload if level == ON else replace(workload, credentials=None),
    ),
    FactorKind("window", ("schedule", "window"), read_window, read_window, _with_window),
    FactorKind(
        "speed", ("schedule", "speed"), read_speed, lambda level: quantity.number_text(float(level)), _with_speed
    ),
    FactorKind("inflight", ("schedule", "inflight"), read_inflight, _whole, _with_inflight),
    *life.KINDS,
    FactorKind(
        "p99", ("schedule", "p99"), read_p99_ms, lambda level: quantity.milliseconds_text(float(level)), _with_p99
    ),
    *roles.KINDS,
    *wills.KINDS,
    *pause.KINDS,
    *topic_factors.KINDS,
    *mqtt5.KINDS,
    *subscriptions.KINDS,
    *limits.KINDS,
    *topology_part.KINDS,
    *ensemble.KINDS,
)

FACTORS = {kind.name: kind for kind in _KINDS}
