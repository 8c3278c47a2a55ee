"""`brokerlab calibrate`: what the meter itself can do, measured against a broker that does nothing."""

from json import dumps
from typing import Annotated, Any

import typer

from brokerlab.cli.terminal import Columns, say, table, warn
from brokerlab.lab.calibration import store_calibration

_LEVELS = ("qos0", "qos1", "qos2")


def calibrate(
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=60, help="How long each of twelve measurements lasts.")
    ] = 1.0,
) -> None:
    """Measure the meter against the null broker.

    The ceilings of publisher and subscriber per core, the error of the schedule, the resolution of arrival times and
    the CPU time per message, at QoS 0, 1 and 2. The result is kept for this machine, and every run's manifest has it.
    """
    from brokerlab.lab.calibrate import calibrate as measure  # noqa: PLC0415 - compiles the load path; --help need not

    measured = measure(seconds=seconds, say=lambda text: warn(f"calibrate: {text}"))
    path = store_calibration(measured)
    if json:
        say(dumps(measured, indent=2))
    else:
        _print(measured)
        say(f"kept in {path}")


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
