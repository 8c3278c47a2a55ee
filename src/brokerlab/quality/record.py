"""The record of an evaluation: its seven steps, and every pass through them with what the audit said.

Step 6 may find the results not satisfactory and name the step to repeat. Passes are added, never changed.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerlab.errors import UserError
from brokerlab.quality.answers import MEASURED, Answer
from brokerlab.quality.model import Model
from brokerlab.quality.study import Classification

STEPS = (
    "define the goals",
    "define the system",
    "define the metrics",
    "define the scenario",
    "deploy and measure",
    "analyse",
    "present",
)
FILE = "record.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Audit:
    """What step 6 says of a pass."""

    is_satisfactory: bool
    back_to: int | None  # the step to repeat, from 1
    reasons: tuple[str, ...]
    by: str  # brokerlab, or who gave the word


def steps_of(study: Classification, model: Model, answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The seven steps as they were taken, in a form that can be kept."""
    judged = [answer for answer in answers if answer.rater != MEASURED]
    taken: list[dict[str, Any]] = [
        {"question": study.question, "rank_by": "score", "select": study.select},
        {"boundary": study.boundary, "services": list(study.services)},
        {"model": model.title, "features": list(model.ids), "performance": _plain(study.performance)},
        {
            "brokers": sorted({answer.broker for answer in judged}),
            "variable": "broker",
            "sheets": {name: list(places) for name, places in study.sheets.items()},
            "measured_by": study.measured,
        },
        {
            "raters": sorted({answer.rater for answer in judged}),
            "rounds": max((answer.round for answer in judged), default=0),
            "answers": len(judged),
            "measured": len(answers) - len(judged),
            "sha256": _digest(answers),
        },
        {"confidence_percent": study.confidence_percent, "least_agreement": study.least_agreement},
        {"beside": list(study.beside)},
    ]
    return [
        {"step": number, "title": title, **about}
        for number, (title, about) in enumerate(zip(STEPS, taken, strict=True), start=1)
    ]


def audit_of(study: Classification, answers: Sequence[Answer], agreement: Sequence[dict[str, Any]]) -> Audit:
    """What can be found without a person: too few raters or rounds, or raters who do not agree."""
    reasons: list[str] = []
    back: list[int] = []
    for name, places in study.sheets.items():
        own = [answer for answer in answers if answer.sheets == name and answer.rater != MEASURED]
        raters, rounds = len({answer.rater for answer in own}), len({answer.round for answer in own})
        if places == ("published",):
            continue  # a paper is taken as it is
        if raters < study.raters:
            reasons.append(f"{name}: {raters} raters, and deploy.raters asks for {study.raters}")
            back.append(5)
        if rounds < study.rounds:
            reasons.append(f"{name}: {rounds} rounds, and deploy.rounds asks for {study.rounds}")
            back.append(5)
    for row in agreement:
        if row["alpha"] is not None and row["alpha"] < study.least_agreement:
            reasons.append(
                f"{row['sheets']}: raters of {row['feature']} agree by alpha {row['alpha']:.2f}, "
                f"less than {study.least_agreement:g}: its anchors are not clear enough"
            )
            back.append(3)
    return Audit(not reasons, min(back, default=None), tuple(reasons), "brokerlab")


def add_pass(folder: Path, *, steps: Sequence[dict[str, Any]], audit: Audit, at: str) -> None:
    """Adds one pass through the seven steps."""
    new: dict[str, Any] = {"format": _FORMAT, "passes": []}
    record = read_record(folder) if (folder / FILE).exists() else new
    number = len(record["passes"]) + 1
    record["passes"].append({"pass": number, "at": at, "steps": list(steps), "audits": [_audit_json(audit, at)]})
    _write(folder, record)


def add_audit(folder: Path, audit: Audit, *, at: str) -> None:
    """Adds a person's word to the last pass."""
    record = read_record(folder)
    if not record["passes"]:
        raise UserError(f"{folder / FILE}: there is no pass to audit")
    record["passes"][-1]["audits"].append(_audit_json(audit, at))
    _write(folder, record)


def read_record(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise UserError(f"{folder}: there is no {FILE}", hint="`brokerlab run classification` makes one") from problem
    except (OSError, ValueError) as problem:
        raise UserError(f"{path}: the record cannot be read: {problem}") from problem
    if not isinstance(record, dict) or record.get("format") != _FORMAT or not isinstance(record.get("passes"), list):
        raise UserError(f"{path}: not a record of this version of brokerlab")
    return record


def _write(folder: Path, record: dict[str, Any]) -> None:
    beside = folder / (FILE + ".part")
    beside.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(folder / FILE)


def _audit_json(audit: Audit, at: str) -> dict[str, Any]:
    return {
        "at": at,
        "by": audit.by,
        "satisfactory": audit.is_satisfactory,
        "back_to": audit.back_to,
        "reasons": list(audit.reasons),
    }


def _digest(answers: Sequence[Answer]) -> str:
    lines = sorted(repr(answer) for answer in answers)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _plain(performance: Any) -> Any:
    return json.loads(json.dumps(performance))
