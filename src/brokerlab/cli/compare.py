"""`brokerlab compare`: two studies, or two levels of one; `--gate` makes a check of it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from brokerlab.cli.terminal import Columns, heading, say, table, warn
from brokerlab.errors import ExitCode, UserError
from brokerlab.pipeline.compare import Change, Gate, changes_of_levels, changes_of_studies, known_metric, read_gate
from brokerlab.record.directory import open_results
from brokerlab.report.metrics import METRICS
from brokerlab.report.numbers import no_finer, significant, time_text

_SHOWN = (
    "latency.p50",
    "latency.p99",
    "throughput.delivered_per_s",
    "delivery.failure_percent",
    "resources.broker_cpu_percent",
)
_EXITS = {"kept": ExitCode.VALID, "broken": ExitCode.CHECK_FAILED, "unknown": ExitCode.UNKNOWN}
_NUMBERS = ("first", "second", "difference", "interval", "%", "p")


def compare(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `brokerlab run` wrote.")],
    others: Annotated[
        list[str],
        typer.Argument(metavar="DIR | LEVEL LEVEL", help="Another such directory, or two levels: broker=a broker=b."),
    ],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="NAME", help="Only this metric; may be repeated.")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            metavar="RULE",
            help="A limit of the difference, as 'latency.p99 <= 5 %'; exit code 0 kept, 1 broken, 2 unknown.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, every digit.")] = False,
) -> ExitCode:
    """Print what the second has more than the first: differences with intervals.

    Needs neither Spark nor Java.
    """
    gates = [read_gate(text) for text in gate or ()]
    chosen = [known_metric(name) for name in metric or ()] or [*_SHOWN, *(rule.metric for rule in gates)]
    changes, alone = _changes(directory, others)
    verdicts = [(rule, rule.verdict(changes)) for rule in gates]
    shown = [change for change in changes if change.metric in chosen]
    if as_json:
        sys.stdout.write(_as_json(shown, verdicts, alone))
    else:
        _print(shown, verdicts, alone)
    worst = next((each for each in ("broken", "unknown") if each in dict(verdicts).values()), "kept")
    return _EXITS[worst]


def _changes(directory: Path, others: Sequence[str]) -> tuple[list[Change], list[str]]:
    results = open_results(directory)
    if len(others) == 1:
        return changes_of_studies(results, open_results(Path(others[0])))
    if len(others) != 2:
        raise UserError(f"{len(others)} things to compare with {directory}", hint="give another DIR, or two levels")
    return changes_of_levels(results, *others), []


def _as_json(changes: Sequence[Change], verdicts: Sequence[tuple[Gate, str]], alone: Sequence[str]) -> str:
    content = {
        "differences": [asdict(change) | {"percent": change.percent} for change in changes],
        "gates": [{"rule": rule.text, "verdict": verdict} for rule, verdict in verdicts],
        "not_compared": list(alone),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _print(changes: Sequence[Change], verdicts: Sequence[tuple[Gate, str]], alone: Sequence[str]) -> None:
    columns = Columns(("metric", "where", *_NUMBERS, "the second is"), right=frozenset(_NUMBERS))
    table(columns, [_row(change) for change in changes])
    if not changes:
        say("(no valid runs to compare)")
    if alone:
        warn(f"only in one of them, and not compared: {', '.join(alone)}")
    if verdicts:
        heading("gates")
        table(Columns(("rule", "verdict")), [(rule.text, verdict) for rule, verdict in verdicts])


def _row(change: Change) -> list[str]:
    is_bound = METRICS[change.metric].is_latency
    interval = "-"
    if change.low is not None and change.high is not None:
        interval = " … ".join(no_finer(end, change.resolution) for end in (change.low, change.high))
    p = "-" if change.corrected_p is None else f"{change.corrected_p:.3f}"
    return [
        f"{change.metric} {change.unit}",
        change.place,
        time_text(change.first, change.resolution, is_bound=is_bound),
        time_text(change.second, change.resolution, is_bound=is_bound),
        time_text(change.difference, change.resolution, is_bound=False),
        interval,
        "-" if change.is_within_resolution else significant(change.percent, digits=2),
        p,
        change.answer + (" (tie)" if change.is_tie else " (resolution)" if change.is_within_resolution else ""),
    ]
