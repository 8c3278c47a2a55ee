"""Sheets that raters fill in: YAML with one broker each, or CSV with one answer a line.

    sheet: mosquitto                # the broker
    version: 2.1.2
    rater: documentation
    round: 1
    answers:
      installation_easiness: {level: 5, source: "...", because: "..."}
      qos_levels: {has: [0, 1, 2], source: "..."}       # facts, which the model turns into a level
      operating_systems: unknown                        # or a range: {level: 1..3}

Every problem of every file is told at once, with its line.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerlab.errors import UserError
from brokerlab.quality.answers import MEASURED, Answer
from brokerlab.quality.model import Feature, Model
from brokerlab.study.document import Document, read_document
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.problems import Problem, RuleError, StudyError

COLUMNS = ("broker", "version", "rater", "round", "feature", "level", "has", "source", "because")
UNKNOWN = "unknown"
_RANGE = re.compile(r"^(\d+)\s*\.\.\s*(\d+)$")
_KEYS = ("brokerlab", "sheet", "version", "rater", "round", "answers")
_ANSWER_KEYS = ("level", "has", "source", "because")
_HINT = "`brokerlab quality form` writes a sheet to fill in"


@dataclass(frozen=True, slots=True)
class _Raw:
    """An answer as it stands in a file, with the line of each of its parts."""

    file: str
    lines: Mapping[str, int | None]
    content: Mapping[str, Any]  # of COLUMNS

    def problem(self, key: str, rule: str, *, nearest_valid: str | None = None) -> Problem:
        written = self.content.get(key)
        shown = None if written is None or isinstance(written, list | dict) else str(written)
        return Problem(self.file, self.lines.get(key), key, shown, rule, nearest_valid)


def read_sheets(paths: Sequence[Path], *, model: Model, name: str) -> list[Answer]:
    """All answers of these files as the set `name`; a folder stands for the sheets in it."""
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise UserError("there is no sheet to read", hint=_HINT)
    problems: list[Problem] = []
    raws: list[_Raw] = []
    for file in files:
        raws += _of_csv(file, problems) if file.suffix == ".csv" else _of_yaml(file, problems)
    answers = [answer for raw in raws if (answer := _answer(raw, model, name, problems)) is not None]
    problems += [*_twice(raws), *_not_answered(raws, model)]
    if problems:
        raise StudyError(problems, hint=_HINT)
    return answers


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml", ".csv"))
    return [path]


def _of_yaml(file: Path, problems: list[Problem]) -> Iterator[_Raw]:
    document = read_document(file)
    for key in document.content:
        if key not in _KEYS:
            document.add((key,), "unknown key of a sheet", nearest_valid=nearest(key, _KEYS), of_key=True)
    for key, what in (("sheet", "the broker"), ("rater", "its rater"), ("answers", "its answers")):
        if not document.get(key):
            document.add((key,), f"the key is missing: a sheet names {what}", of_key=True)
    head = {
        "broker": document.get("sheet"),
        "version": document.get("version"),
        "rater": document.get("rater"),
        "round": 1 if document.get("round") is None else document.get("round"),
    }
    for feature, written in document.mapping("answers").items():
        content = {"level": written} if not isinstance(written, dict) else written
        for key in content:
            if key not in _ANSWER_KEYS:
                path = ("answers", feature, key)
                document.add(path, "unknown key of an answer", nearest_valid=nearest(key, _ANSWER_KEYS), of_key=True)
        yield _Raw(str(file), _lines(document, feature), {**head, "feature": feature, **content})
    problems += document.problems


def _lines(document: Document, feature: str) -> dict[str, int | None]:
    def line(*path: str) -> int | None:
        place = document.places.get(path)
        return place.line if place else None

    inner = {key: line("answers", feature, key) or line("answers", feature) for key in _ANSWER_KEYS}
    head = {"broker": line("sheet"), "rater": line("rater"), "round": line("round"), "version": line("version")}
    return {**head, "feature": line("answers", feature), **inner}


def _of_csv(file: Path, problems: list[Problem]) -> Iterator[_Raw]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        problems.append(Problem(str(file), None, "", None, f"the file cannot be read: {problem}"))
        return
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in ("broker", "rater", "feature", "level") if name not in (reader.fieldnames or ())]
    if missing:
        rule = f"the first line names the columns {listed(COLUMNS)}; {listed(missing)} is missing"
        problems.append(Problem(str(file), 1, "", None, rule))
        return
    for row in reader:
        content = {key: value.strip() or None for key, value in row.items() if key in COLUMNS and value is not None}
        for needed in ("broker", "rater"):
            if not content.get(needed):
                rule = f"the column is empty: every answer names its {needed}"
                problems.append(Problem(str(file), reader.line_num, needed, None, rule))
        has = content.get("has")
        facts = {} if not has else {"has": [fact.strip() for fact in has.split(";") if fact.strip()]}
        lines = dict.fromkeys(COLUMNS, reader.line_num)
        yield _Raw(str(file), lines, {**content, "round": content.get("round") or 1, **facts})


def _answer(raw: _Raw, model: Model, name: str, problems: list[Problem]) -> Answer | None:
    """The answer, if nothing is wrong with it."""
    feature_id, rater = str(raw.content.get("feature")), str(raw.content.get("rater") or "")
    before = len(problems)
    if feature_id not in model.ids:
        close = nearest(feature_id, model.ids)
        rule = f"unknown feature of {model.name}" + ("" if close else f"; known: {listed(model.ids)}")
        problems.append(raw.problem("feature", rule, nearest_valid=close))
        return None
    if rater == MEASURED:
        problems.append(raw.problem("rater", f"{MEASURED!r} stands for what brokerlab measures: name the rater"))
    number = _whole(raw.content.get("round"))
    if number is None or number < 1:
        problems.append(raw.problem("round", "a round is a whole number from 1"))
    try:
        low, high, facts = _level(raw, model.feature(feature_id))
    except RuleError as broken:
        problems.append(
            raw.problem("has" if raw.content.get("has") else "level", broken.rule, nearest_valid=broken.nearest)
        )
        return None
    if len(problems) > before or not raw.content.get("broker") or not rater:
        return None
    return Answer(
        sheets=name,
        broker=str(raw.content["broker"]),
        version=str(raw.content.get("version") or ""),
        rater=rater,
        round=number or 1,
        feature=feature_id,
        low=low,
        high=high,
        facts=facts,
        source=str(raw.content.get("source") or ""),
        because=str(raw.content.get("because") or ""),
    )


def _level(raw: _Raw, feature: Feature) -> tuple[int | None, int | None, tuple[str, ...] | None]:
    """The least and the largest level, and the facts where they were listed."""
    written, has = raw.content.get("level"), raw.content.get("has")
    if has is not None:
        if written is not None:
            raise RuleError("give a level or facts, not both")
        return _of_facts([str(fact) for fact in has] if isinstance(has, list) else [str(has)], feature)
    if written is None or str(written).strip().lower() == UNKNOWN:
        return None, None, None
    bounds = _RANGE.match(str(written).strip())
    low, high = (int(bounds.group(1)), int(bounds.group(2))) if bounds else (_whole(written), _whole(written))
    if low is None or high is None or not 1 <= low <= high <= feature.roof:
        raise RuleError(
            f"a level of {feature.id} is 1 to {feature.roof}, a range such as 1..{feature.roof}, or unknown"
        )
    return low, high, None


def _of_facts(facts: list[str], feature: Feature) -> tuple[int, int, tuple[str, ...]]:
    if not feature.level_rule:
        raise RuleError(f"{feature.id} is judged by a level from 1 to {feature.roof}, not by facts")
    for fact in facts:
        if feature.items and fact not in feature.items:
            raise RuleError(f"{fact!r} is none of {listed(feature.items)}", nearest_valid=nearest(fact, feature.items))
    if len(set(facts)) < len(facts):
        raise RuleError("a fact is listed twice")
    level = feature.level_of(facts)
    return level, level, tuple(facts)


def _twice(raws: Sequence[_Raw]) -> Iterator[Problem]:
    """An answer that the same rater gives again in the same round."""
    seen: dict[tuple[str, ...], _Raw] = {}
    told: set[tuple[str, ...]] = set()
    for raw in raws:
        who = tuple(str(raw.content.get(key)) for key in ("broker", "rater", "round"))
        first = seen.setdefault((*who, str(raw.content.get("feature"))), raw)
        if first is raw or (raw.file, *who) in told:
            continue
        told.add((raw.file, *who))
        where = first.file if first.file != raw.file else f"line {first.lines.get('broker')}"
        rule = f"the broker is there twice: {where} has it too, by rater {who[1]!r} in round {who[2]}"
        yield raw.problem("broker", rule)


def _not_answered(raws: Sequence[_Raw], model: Model) -> Iterator[Problem]:
    """A sheet without an answer about a feature; `unknown` is one."""
    sheets: dict[tuple[str, ...], list[_Raw]] = {}
    for raw in raws:
        who = tuple(str(raw.content.get(key)) for key in ("broker", "rater", "round"))
        sheets.setdefault((raw.file, *who), []).append(raw)
    for (file, broker, rater, number), answered in sheets.items():
        missing = [name for name in model.ids if name not in {str(raw.content.get("feature")) for raw in answered}]
        if missing:
            about = f"{broker}, rater {rater}, round {number}"
            yield Problem(file, None, about, None, f"no answer about {listed(missing)}; `unknown` is one")


def _whole(written: Any) -> int | None:
    if isinstance(written, bool):
        return None
    text = str(written).strip()
    return int(text) if text.isdecimal() else None
