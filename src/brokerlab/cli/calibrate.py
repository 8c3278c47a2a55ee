"""`brokerlab calibrate`: what the meter itself can do, measured against a broker that does nothing."""

from collections.abc import Mapping, Sequence
from functools import partial
from json import dumps
from typing import Annotated, Any

import typer

from brokerlab.cli.progress import duration
from brokerlab.cli.studies import OnlyOption, SetOption, prepare
from brokerlab.cli.terminal import Columns, heading, say, table, warn
from brokerlab.errors import LabError, UserError
from brokerlab.lab.calibration import calibration_path, missing_setups, require_place, store_calibration
from brokerlab.lab.setups import LEAST_BYTES, MOST_BYTES, MOST_CONNECTIONS, SetUp, setups_of
from brokerlab.load.packets import LEVELS
from brokerlab.study import quantity
from brokerlab.study.plan import Cell
from brokerlab.study.problems import RuleError
from brokerlab.study.values import Transport

_EVERY_QOS = (0, 1, 2)
_ONCE_S = 0.3  # of each measurement, where nobody has asked for more
_AROUND_S = 1.2  # of each measurement: a worker starts and ends
_CONNECT_S, _HANDSHAKES_S = 0.0003, 0.001  # of each connection
_MEASUREMENTS = 4  # of each QoS


def calibrate(
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=60, help="How long each of twelve measurements lasts.")
    ] = 1.0,
    payload: Annotated[str, typer.Option("--payload", help="Of each message, from 16 B to 16 MiB.")] = "64 B",
    transport: Annotated[Transport, typer.Option("--transport", help="What MQTT is carried by.")] = Transport.TCP,
    protocol: Annotated[str, typer.Option("--protocol", help="3.1, 3.1.1 or 5.0.")] = "3.1.1",
    publishers: Annotated[
        int, typer.Option("--publishers", min=1, max=MOST_CONNECTIONS, help="Connections of the publishing worker.")
    ] = 1,
    subscribers: Annotated[
        int, typer.Option("--subscribers", min=1, max=MOST_CONNECTIONS, help="Connections of the receiving worker.")
    ] = 1,
    study: Annotated[
        str | None, typer.Option("--study", help="Every set-up of this study or preset, instead of one.")
    ] = None,
    settings: SetOption = None,
    levels: OnlyOption = None,
) -> None:
    """Measure the meter against the null broker.

    The ceilings of publisher and subscriber per core, the error of the schedule, the resolution of arrival times and
    the CPU time per message, at QoS 0, 1 and 2. The result is kept for this machine, one for each set-up, and the
    manifests of runs have that of their own.
    """
    if study is None:
        setup = SetUp(_payload_bytes(payload), transport, _protocol(protocol), publishers, subscribers)
        wanted: Mapping[SetUp, Sequence[int]] = {setup: _EVERY_QOS}
    else:
        wanted = setups_of(prepare(study, settings=settings or [], levels=levels or []).plan.cells)
    require_place()
    measured = _measure(wanted, seconds)
    if json:
        first, *others = measured
        say(dumps(first | ({"others": others} if others else {}), indent=2))
        return
    for setup, each in zip(wanted, measured, strict=True):
        heading(setup.text)
        _print(each)
    say(f"kept in {calibration_path()}")


def _measure(wanted: Mapping[SetUp, Sequence[int]], seconds: float) -> list[dict[str, Any]]:
    """Measures and keeps each set-up, and says what it does on the way."""
    from brokerlab.lab.calibrate import calibrate as measure  # noqa: PLC0415 - compiles the load path; --help need not

    measured = []
    for number, (setup, levels) in enumerate(wanted.items(), start=1):
        place = f"{number} of {len(wanted)}, {setup.text}, " if len(wanted) > 1 else ""
        tell = partial(_tell, f"calibrate: {place}")
        measured.append(measure(seconds=seconds, setup=setup, levels=levels, say=tell))
        store_calibration(measured[-1])
    return measured


def _tell(before: str, text: str) -> None:
    warn(before + text)


def calibrate_for(cells: Sequence[Cell], *, seconds: float = _ONCE_S) -> None:
    """Briefly, what these cells use and this machine was never calibrated for.

    A run is to say how near its meter came to its own limits.
    """
    missing = missing_setups(cells)
    if not missing:
        return
    try:
        require_place()
        say(f"the meter is calibrated against a broker that does nothing, once for each set-up: {amount(missing)}")
        _measure(missing, seconds)
    except LabError as problem:
        say(f"note: it could not be calibrated: {problem.message}")


def amount(missing: Mapping[SetUp, Sequence[int]]) -> str:
    """How much there is to do, and how long that takes."""
    takes = duration(sum(len(levels) * _MEASUREMENTS * _expected_s(setup) for setup, levels in missing.items()))
    return f"{len(missing)} set-up{'s' if len(missing) > 1 else ''}, about {takes}"


def _expected_s(setup: SetUp) -> float:
    """One measurement, roughly."""
    connections = max(setup.publishers, setup.subscribers)
    return _ONCE_S + _AROUND_S + connections * (_HANDSHAKES_S if setup.transport.is_encrypted else _CONNECT_S)


def _payload_bytes(written: str) -> int:
    try:
        payload_bytes = quantity.read_bytes(written)
    except RuleError as problem:
        raise UserError(f"--payload {written}: {problem}") from problem
    if not LEAST_BYTES <= payload_bytes <= MOST_BYTES:
        raise UserError(f"--payload {written}: from {LEAST_BYTES} B, what the identity of a message takes, to 16 MiB")
    return payload_bytes


def _protocol(written: str) -> str:
    if written not in LEVELS:
        raise UserError(f"--protocol {written}: there is no such version", hint=f"one of {', '.join(LEVELS)}")
    return written


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
    levels = [f"qos{qos}" for qos in _EVERY_QOS if f"qos{qos}" in measured]
    headings = tuple(f"QoS {level[-1]}" for level in levels)
    table(
        Columns(("quantity", "unit", *headings), right=frozenset(headings)),
        [(name, unit, *(_text(measured[level], path) for level in levels)) for name, unit, path in rows],
    )


def _text(level: dict[str, Any], path: str) -> str:
    value: Any = level
    for key in path.split("."):
        value = value[key]
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
