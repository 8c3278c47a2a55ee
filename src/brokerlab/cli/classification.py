"""A study of kind `classification` on its way: sheets, tables, record, report."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from brokerlab.brokers.registry import DRIVERS
from brokerlab.cli.outdir import Mode, opened
from brokerlab.cli.progress import steps
from brokerlab.cli.terminal import Columns, heading, say, table
from brokerlab.errors import ExitCode
from brokerlab.pipeline.java import use_java
from brokerlab.pipeline.tables import read_table
from brokerlab.presets import preset_names
from brokerlab.published.claims import read_claims
from brokerlab.quality.answers import Answer
from brokerlab.quality.measured import measured_answers
from brokerlab.quality.model import Model
from brokerlab.quality.paper import Tally
from brokerlab.quality.record import Audit, add_pass, audit_of, steps_of
from brokerlab.quality.study import Classification, collected, model_of
from brokerlab.record.directory import StudyDirectory

Row = dict[str, Any]


def classify(
    study: Classification, *, study_text: str, out: Path | None, fresh: bool = False, with_report: bool = True
) -> ExitCode:
    """Makes tables, record and report of a classification; another run into the same directory is another pass."""
    model = model_of(study)
    answers, tallies = collected(study, model)
    use_java()
    results = StudyDirectory(out or Path("results") / study.name)
    plan_text = json.dumps({"kind": "classification", "study": study.name}, indent=2) + "\n"
    with opened(results, Mode.FRESH if fresh else Mode.RESUME, plan_text=plan_text, study_text=study_text):
        results.study.write_text(study_text, encoding="utf-8")
        answers = [*answers, *_measured(study, answers, model)]
        _write_tables(study, model, answers, tallies, results)
        audit = audit_of(study, answers, _rows(results, "quality_agreement"))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        add_pass(results.path, steps=steps_of(study, model, answers), audit=audit, at=now)
        print_ranking(results)
        _print_audit(audit)
        if with_report:
            from brokerlab.report.quality_report import write_quality_report  # noqa: PLC0415 - loads the figures' library

            say()
            say(f"report: {write_quality_report(results)}")
        else:
            say(f"tables: {results.tables}")
    return ExitCode.VALID if audit.is_satisfactory else ExitCode.CHECK_FAILED


def _measured(study: Classification, answers: Sequence[Answer], model: Model) -> list[Answer]:
    if study.measured == "nothing":
        return []
    from brokerlab.cli.quality_facts import facts_of  # noqa: PLC0415 - loads the probe

    judged = [answer for answer in answers if study.sheets.get(answer.sheets) != ("published",)]
    facts = facts_of({answer.broker for answer in judged}, by=study.measured)
    return measured_answers(judged, facts, model=model)


def _write_tables(
    study: Classification, model: Model, answers: Sequence[Answer], tallies: Sequence[Tally], results: StudyDirectory
) -> None:
    # Spark takes seconds to load, and what is wrong with the sheets is told before.
    from brokerlab.pipeline.claims import write_claims  # noqa: PLC0415
    from brokerlab.pipeline.quality import Judging, write_quality  # noqa: PLC0415
    from brokerlab.pipeline.session import open_session  # noqa: PLC0415

    judging = Judging(study.select, study.confidence_percent, study.seed)
    with steps("classification") as step:
        step("starting Spark")
        with open_session(app="brokerlab-quality") as spark:
            write_quality(spark, answers, results, model=model, tallies=tallies, judging=judging, notify=step)
            if tallies:
                step("table claims")
                about = [claim for claim in read_claims() if claim.paper == "000" and claim.kind in ("share", "member")]
                write_claims(spark, about, ours=(), to=results)


def print_ranking(results: StudyDirectory) -> None:
    """The ranking of every set, and where what was measured is not what the sheets say."""
    scores, quality = _rows(results, "quality_scores"), _rows(results, "quality")
    for name in dict.fromkeys(row["sheets"] for row in scores):
        heading(f"{name}: score of at most {max(row['most'] for row in scores)}")
        rows = [_score_row(row) for row in scores if row["sheets"] == name]
        table(
            Columns(("rank", "broker", "version", "score", "possible ranks", "chosen"), right=frozenset({"rank"})), rows
        )
    differing = [row for row in quality if row["differs"]]
    if differing:
        heading("Measured otherwise than the sheet says (what was measured counts)")
        for row in differing:
            sheet = "unknown" if row["sheet_low"] is None else f"{row['sheet_low']:g}"
            facts = f" ({', '.join(row['measured_facts'])})" if row["measured_facts"] else ""
            say(f"{row['broker']}, {row['feature']}: level {row['measured']:g}{facts}, sheet {sheet}")
    for name in dict.fromkeys(row["sheets"] for row in scores):
        command = next_command([row for row in scores if row["sheets"] == name])
        if command:
            say()
            say(f"to measure the chosen of {name}: {command}")


def next_command(scores: Sequence[Row]) -> str | None:
    """The command that measures the chosen brokers; None where one of them has no driver."""
    chosen = [row["broker"] for row in scores if row["selected"]]
    if not chosen or not all(name in DRIVERS for name in chosen):
        return None
    preset = "methodology" if "methodology" in preset_names() else "first-light"
    drivers = ", ".join(f"{name}: {{driver: {name}}}" for name in chosen)
    return (
        f"brokerlab run {preset} --set 'system.brokers={{{drivers}}}' "
        f"--set 'scenario.variables.broker=[{', '.join(chosen)}]'"
    )


def _score_row(row: Row) -> tuple[str, ...]:
    exact = row["score_high"] - row["score_low"] < 1e-9
    score = f"{row['score']:.2f}" if exact else f"{row['score_low']:.2f} to {row['score_high']:.2f}"
    places = (
        str(row["rank_best"]) if row["rank_best"] == row["rank_worst"] else f"{row['rank_best']} to {row['rank_worst']}"
    )
    chosen = "" if not row["selected"] else "yes" if row["selection_is_certain"] else "yes, if the unknown allows"
    return str(row["rank"]), row["broker"], row["version"] or "-", score, places, chosen


def _print_audit(audit: Audit) -> None:
    heading("Audit (step 6)")
    if audit.is_satisfactory:
        say("satisfactory")
        return
    for reason in audit.reasons:
        say(reason)
    say(f"not satisfactory: back to step {audit.back_to}; the record keeps this")


def _rows(results: StudyDirectory, name: str) -> list[Row]:
    rows: list[Row] = read_table(results, name).to_pylist()
    return rows


def with_sheets(
    study: Classification, *, sheets: dict[str, tuple[str, ...]], model: str, select: int, measured: str
) -> Classification:
    """The same study about other sheets."""
    return replace(study, name="quality", sheets=sheets, model=model, select=select, measured=measured, folder=Path())
