"""`brokerlab import`: foreign results as run directories."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from brokerlab.cli.terminal import Columns, say, table, warn
from brokerlab.errors import ExitCode, UserError
from brokerlab.imports import pcap
from brokerlab.imports.base import Options
from brokerlab.imports.registry import FORMATS, format_of
from brokerlab.imports.writing import Written, import_runs
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.nearest import listed
from brokerlab.study.quantity import read_seconds

_ABOUT = {**{name: form.about for name, form in FORMATS.items()}, pcap.NAME: pcap.ABOUT}
_FORMATS = "\b\n" + "\n".join(f"{name:<15} {about}" for name, about in _ABOUT.items())


def import_results(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="See above.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file of that format, or a folder of such files.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to; else results/<PATH's name>.")
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--level", metavar="FACTOR=LEVEL", help="What was measured: broker=emqx, qos=1 …; may be repeated."
        ),
    ] = None,
    published: Annotated[
        int | None, typer.Option("--published", metavar="N", help="Each publisher is known to have sent N messages.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="From one sample to the next, if no times are told: 1 s."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="TIME", help="A pause of sending this long begins another repetition: 30 s."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME=NODE", help="What a container is, as emqx_0=broker/0; may be repeated."),
    ] = None,
    mapping: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="Which column is what, for csv.")
    ] = None,
    port: Annotated[
        list[int] | None,
        typer.Option("--port", metavar="PORT", help="Of the broker, for pcap: 1883 if not given; may be repeated."),
    ] = None,
) -> ExitCode:
    levels = _pairs(level, "--level", "FACTOR=LEVEL")
    options = Options(
        published=_positive(published),
        every_s=_seconds(every, "--every"),
        split_s=_seconds(split, "--split"),
        mapping=mapping,
        qos=_qos(levels.get("qos")),
        nodes=_pairs(node, "--node", "NAME=NODE"),
    )
    results = StudyDirectory(out or Path("results") / path.resolve().stem)
    if format_name == pcap.NAME:
        say("captured: " + listed(pcap.import_captures(path, results, levels=levels, ports=port or ())))
        say(f"now: brokerlab analyze {results.path}")
        return ExitCode.VALID
    written = import_runs(format_of(format_name), path, results, levels=levels, options=options)
    _tell(written)
    say(f"now: brokerlab analyze {results.path}")
    return ExitCode.VALID


import_results.__doc__ = f"""Turn results of other tools into run directories, for `brokerlab analyze`.

What a source does not tell stays unknown; lines that cannot be read are counted and shown.

{_FORMATS}
"""


def _tell(written: Sequence[Written]) -> None:
    rows = [(run.run_id, f"{run.deliveries:,}", f"{run.lines:,}", f"{run.malformed:,}") for run in written]
    table(
        Columns(("run", "deliveries", "lines", "malformed"), right=frozenset(("deliveries", "lines", "malformed"))),
        rows,
    )
    for example in dict.fromkeys(example for run in written for example in run.examples):
        warn(f"malformed: {example}")


def _pairs(written: Sequence[str] | None, option: str, form: str) -> dict[str, str]:
    pairs = {}
    for each in written or ():
        name, is_pair, value = each.partition("=")
        if not is_pair or not name or not value:
            raise UserError(f"{option} {each!r} is not {form}")
        pairs[name] = value
    return pairs


def _seconds(written: str | None, option: str) -> float | None:
    if written is None:
        return None
    try:
        seconds = read_seconds(written)
    except ValueError as problem:
        raise UserError(f"{option} {written!r}: {problem}", hint="write it as 1 s or 500 ms") from problem
    if seconds <= 0:
        raise UserError(f"{option} {written!r} is not above zero")
    return seconds


def _positive(published: int | None) -> int | None:
    if published is not None and published < 1:
        raise UserError(f"--published {published} is not above zero")
    return published


def _qos(level: str | None) -> int | None:
    if level is None:
        return None
    if level not in ("0", "1", "2"):
        raise UserError(f"--level qos={level} is not 0, 1 or 2")
    return int(level)
