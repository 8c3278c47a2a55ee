"""`brokerlab calibrate`: what the meter itself can do, measured against a broker that does nothing."""

from json import dumps
from typing import Annotated, Any

import typer

from brokerlab.cli.terminal import Columns, say, table, warn
from brokerlab.errors import LabError, UserError
from brokerlab.lab.calibration import calibration_section, require_place, store_calibration
from brokerlab.study import quantity
from brokerlab.study.problems import RuleError

_LEVELS = ("qos0", "qos1", "qos2")
_ONCE_S = 0.3  # of each measurement, where nobody has asked for more
_LEAST_BYTES, _MOST_BYTES = 16, 1 << 20  # a shorter payload has no place for its whole identity


def calibrate(
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=60, help="How long each of twelve measurements lasts.")
    ] = 1.0,
    payload: Annotated[str, typer.Option("--payload", help="Of each message, from 16 B to 1 MiB.")] = "64 B",
) -> None:
    """Measure the meter against the null broker.

    The ceilings of publisher and subscriber per core, the error of the schedule, the resolution of arrival times and
    the CPU time per message, at QoS 0, 1 and 2. The result is kept for this machine, one for each size of payload,
    and every run's manifest has it.
    """
    from brokerlab.lab.calibrate import calibrate as measure  # noqa: PLC0415 - compiles the load path; --help need not

    payload_bytes = _payload_bytes(payload)
    require_place()
    measured = measure(seconds=seconds, payload_bytes=payload_bytes, say=lambda text: warn(f"calibrate: {text}"))
    path = store_calibration(measured)
    if json:
        say(dumps(measured, indent=2))
    else:
        _print(measured)
        say(f"kept in {path}")


def calibrate_once(*, seconds: float = _ONCE_S) -> None:
    """Briefly, where this machine was never calibrated: a run is to say how near its meter came to its own limits."""
    if calibration_section()["value"] is not None:
        return
    from brokerlab.lab.calibrate import calibrate as measure  # noqa: PLC0415 - as above

    try:
        require_place()
        say("the meter is calibrated against a broker that does nothing, once on this machine: less than a minute")
        store_calibration(measure(seconds=seconds, say=lambda _text: None))
    except LabError as problem:
        say(f"note: it could not be calibrated: {problem.message}")


def _payload_bytes(written: str) -> int:
    try:
        payload_bytes = quantity.read_bytes(written)
    except RuleError as problem:
        raise UserError(f"--payload {written}: {problem}") from problem
    if not _LEAST_BYTES <= payload_bytes <= _MOST_BYTES:
        raise UserError(f"--payload {written}: from {_LEAST_BYTES} B, what the identity of a message takes, to 1 MiB")
    return payload_bytes


def _print(measured: dict[str, Any]) -> None:
    """One row a quantity, one column a QoS."""
    rows = [
        ("published", "messages/s", "published_per_s"),
        ("published, per core", "messages/s", "published_per_s_per_core"),
        ("published and recorded", "messages/s", "published_recorded_per_s"),
        ("published and recorded, per core", "messages/s", "published_recorded_per_s_per_core"),
        ("received and recorded", "messages/s", "received_per_s"),
        ("received and recorded, per core", "messages/s", "received_per_s_per_core"),
        ("CPU per publication, recorded", "µs", "cpu_us_per_message.published_recorded"),
        ("CPU per delivery, recorded", "µs", "cpu_us_per_message.received"),
        ("schedule error p50", "ms", "schedule_error_ms.p50"),
        ("schedule error p99", "ms", "schedule_error_ms.p99"),
        ("schedule error max", "ms", "schedule_error_ms.max"),
        ("receive resolution at the ceiling p50", "ms", "receive_resolution_ms.p50"),
        ("receive resolution at the ceiling p99", "ms", "receive_resolution_ms.p99"),
    ]
    headings = ("QoS 0", "QoS 1", "QoS 2")
    table(
        Columns(("quantity", "unit", *headings), right=frozenset(headings)),
        [(name, unit, *(_text(measured[level], path) for level in _LEVELS)) for name, unit, path in rows],
    )


def _text(level: dict[str, Any], path: str) -> str:
    value: Any = level
    for key in path.split("."):
        value = value[key]
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
