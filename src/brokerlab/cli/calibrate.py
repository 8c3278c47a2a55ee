"""`brokerlab calibrate`: what the meter itself can do, measured against a broker that does nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from json import dumps
from typing import Annotated, Any

import typer

from brokerlab.cli.progress import duration
from brokerlab.cli.studies import OnlyOption, Prepared, SetOption, prepare
from brokerlab.cli.terminal import Columns, heading, say, table, warn
from brokerlab.errors import LabError, RunError, UserError
from brokerlab.lab.calibration import (
    ELSEWHERE,
    calibration_path,
    failures,
    missing_setups,
    require_place,
    store_calibration,
    store_failure,
)
from brokerlab.lab.disturbance import disturbances
from brokerlab.lab.kinds import unknown
from brokerlab.lab.setups import (
    MOST_BYTES,
    MOST_CONNECTIONS,
    SetUp,
    connections_here,
    lasting_s,
    setups_of,
    why_not,
)
from brokerlab.load.packets import LEVELS
from brokerlab.study import quantity
from brokerlab.study.nearest import listed
from brokerlab.study.problems import RuleError
from brokerlab.study.values import LOCAL, Transport

_EVERY_QOS = (0, 1, 2)
_OF_ONE = {name: f"--{name}" for name in ("payload", "transport", "protocol", "publishers", "subscribers")}
_OF_A_STUDY = {"settings": "--set", "levels": "--only"}
_ONCE_S = 0.3  # of each measurement, where nobody has asked for more
_TRIES = 2  # likewise
_AROUND_S = 1.2  # of each measurement: a worker starts and ends
_CONNECT_S, _HANDSHAKES_S = 0.0003, 0.002  # of each connection
_MEASUREMENTS = 4  # of each QoS
_AT_ONCE_BYTES_PER_S = 500e6  # of payloads, one of each connection


def calibrate(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            min=0.1,
            max=60,
            help="How long each of twelve measurements lasts; over thousands of connections longer.",
        ),
    ] = 1.0,
    payload: Annotated[str, typer.Option("--payload", help="Of each message, to 16 MiB.")] = "64 B",
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
    _refuse_what_has_no_effect(context, has_study=study is not None)
    if study is None:
        setup = SetUp(_payload_bytes(payload), transport, _protocol(protocol), publishers, subscribers)
        require_possible(setup)
        wanted: Mapping[SetUp, Sequence[int]] = {setup: _EVERY_QOS}
    else:
        wanted = _of_study(prepare(study, settings=settings or [], levels=levels or []))
    require_place()
    done = measure(wanted, seconds)
    if json and done.measured:
        first, *others = done.measured.values()
        say(dumps(first | ({"others": others} if others else {}), indent=2))
    elif not json:
        for setup, each in done.measured.items():
            heading(setup.text)
            _print(each)
        if done.measured:
            say(f"kept in {calibration_path()}")
    for reason in done.disturbed:
        warn(f"calibrate: the machine was disturbed, ceilings may be higher: {reason}")
    if done.failed:
        raise RunError("\n".join(["could not be calibrated:", *done.failed]))


def _refuse_what_has_no_effect(context: typer.Context, *, has_study: bool) -> None:
    """A study says what its set-ups are; without one there is nothing to change or to choose from."""
    idle = _OF_ONE if has_study else _OF_A_STUDY
    sources = {option: context.get_parameter_source(name) for name, option in idle.items()}
    given = [option for option, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if given and has_study:
        raise UserError(f"{listed(given)} beside --study: the study says all of it", hint="--set changes what it says")
    if given:
        raise UserError(f"{listed(given)} without --study: there is nothing to change or to choose from")


def require_possible(setup: SetUp) -> None:
    if reason := why_not(setup):
        raise UserError(reason)
    most, connections = connections_here(), max(setup.publishers, setup.subscribers)
    if connections > most:
        raise UserError(
            f"this machine can have {most:,} connections of a worker, not {connections:,}",
            hint="raise the hard limit of nofile",
        )


def _of_study(prepared: Prepared) -> dict[SetUp, Sequence[int]]:
    """The set-ups that can be calibrated; what is left out is told."""
    if prepared.study.deploy.load_on != LOCAL:
        raise UserError(ELSEWHERE, hint="--set deploy.load_on=local")
    setups = setups_of(prepared.plan.cells)
    for reason in unknown(prepared.plan.cells):
        warn(f"calibrate: {reason}")
    left_out = {setup: reason for setup in setups if (reason := why_not(setup))}
    for setup, reason in left_out.items():
        warn(f"calibrate: {setup.text} is left out: {reason}")
    if len(left_out) == len(setups):
        raise UserError("nothing of this study can be calibrated")
    return {setup: levels for setup, levels in setups.items() if setup not in left_out}


@dataclass(slots=True)
class Done:
    """What came of the set-ups that were wanted."""

    measured: dict[SetUp, dict[str, Any]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)  # which, and why
    disturbed: list[str] = field(default_factory=list)  # likewise: what is kept, but may be too little


def measure(wanted: Mapping[SetUp, Sequence[int]], seconds: float, *, tries: int = 1) -> Done:
    """Measures and keeps each set-up at each QoS, also where others fail; says what it does on the way.

    With more than one try what was disturbed is measured again, and the last try counts.
    """
    done = Done()
    for number, (setup, levels) in enumerate(wanted.items(), start=1):
        place = f"{number} of {len(wanted)}, {setup.text}, " if len(wanted) > 1 else ""
        for qos in levels:
            try:
                found = _tried(setup, qos, seconds, tries=tries, before=f"calibrate: {place}")
            except LabError as problem:
                done.failed.append(f"{setup.text} at QoS {qos}: {problem.message}")
                store_failure(setup, qos, problem.message.partition("\n")[0])
                continue
            store_calibration(found)
            done.measured[setup] = done.measured.get(setup, {}) | found
            if reasons := disturbances(found[f"qos{qos}"]):
                done.disturbed.append(f"{setup.text} at QoS {qos}: {'; '.join(reasons)}")
    return done


def _tried(setup: SetUp, qos: int, seconds: float, *, tries: int, before: str) -> dict[str, Any]:
    """The last try that came to an end, which says what disturbed those before it."""
    from brokerlab.lab.calibrate import calibrate as measured  # noqa: PLC0415 - compiles the load path; --help need not

    told, level = partial(_tell, before), f"qos{qos}"
    found = measured(seconds=seconds, setup=setup, levels=(qos,), say=told)
    for _ in range(tries - 1):
        if not (reasons := disturbances(found[level])):
            break
        told(f"QoS {qos}: once more: {'; '.join(reasons)}")
        try:
            again = measured(seconds=seconds, setup=setup, levels=(qos,), say=told)
        except LabError as problem:
            told(f"QoS {qos}: that failed: {problem.message}")
            break
        found = again | {level: again[level] | {"again_because": reasons}}
    return found


def _tell(before: str, text: str) -> None:
    warn(before + text)


def calibrate_for(prepared: Prepared, *, seconds: float = _ONCE_S) -> None:
    """Briefly, what the cells of a study use and this machine was never calibrated for.

    A run is to say how near its meter came to its own limits.
    """
    if prepared.study.deploy.load_on != LOCAL:
        say(f"note: the meter is not calibrated: {ELSEWHERE}")
        return
    cells = prepared.plan.cells
    if missing := missing_setups(cells):
        try:
            require_place()
            say(f"the meter is calibrated against a broker that does nothing, once for each set-up: {amount(missing)}")
            for each in measure(missing, seconds, tries=_TRIES).disturbed:
                say(f"note: its ceilings may be higher than was measured: {each}")
        except LabError as problem:
            say(f"note: it could not be calibrated: {problem.message}")
    for reason in failures(cells):
        say(f"note: {reason}")


def amount(missing: Mapping[SetUp, Sequence[int]]) -> str:
    """How much there is to do, and how long that takes."""
    takes = duration(sum(len(levels) * expected_s(setup) for setup, levels in missing.items()))
    return f"{len(missing)} set-up{'s' if len(missing) > 1 else ''}, about {takes}"


def expected_s(setup: SetUp) -> float:
    """How long all measurements of a QoS take, roughly."""
    each_s = _HANDSHAKES_S if setup.transport.is_encrypted else _CONNECT_S
    by_connections = (lasting_s(_ONCE_S, count) + each_s * count for count in (setup.publishers, setup.subscribers))
    again_s = each_s * setup.publishers  # to keep a schedule
    at_once_s = (setup.publishers + setup.subscribers) * setup.payload_bytes / _AT_ONCE_BYTES_PER_S
    answering_s = 0.0 if setup.answers is None else _AROUND_S + _ONCE_S
    return answering_s + _MEASUREMENTS * _AROUND_S + 2 * _ONCE_S + sum(by_connections) + again_s + at_once_s


def _payload_bytes(written: str) -> int:
    try:
        payload_bytes = quantity.read_bytes(written)
    except RuleError as problem:
        raise UserError(f"--payload {written}: {problem}") from problem
    if payload_bytes > MOST_BYTES:
        raise UserError(f"--payload {written}: to 16 MiB")
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
        ("answered, per core", "messages/s", "answered_per_s_per_core"),
        ("schedule error p50", "ms", "schedule_error_ms.p50"),
        ("schedule error p99", "ms", "schedule_error_ms.p99"),
        ("schedule error max", "ms", "schedule_error_ms.max"),
        ("receive resolution at the ceiling p50", "ms", "receive_resolution_ms.p50"),
        ("receive resolution at the ceiling p99", "ms", "receive_resolution_ms.p99"),
        ("CPU steal, at most", "%", "steal_percent"),
    ]
    levels = [f"qos{qos}" for qos in _EVERY_QOS if f"qos{qos}" in measured]
    headings = tuple(f"QoS {level[-1]}" for level in levels)
    found = [(name, unit, *(_text(measured[level], path) for level in levels)) for name, unit, path in rows]
    table(
        Columns(("quantity", "unit", *headings), right=frozenset(headings)),
        [row for row in found if set(row[2:]) != {"-"}],
    )


def _text(level: dict[str, Any], path: str) -> str:
    value: Any = level
    for key in path.split("."):
        value = value and value.get(key)
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
