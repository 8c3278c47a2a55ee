"""A study of kind `classification`: the seven steps of an evaluation by questionnaire, read from one file.

The seven keys are those of every study; what they hold is what a questionnaire needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from brokerlab.errors import UserError
from brokerlab.published.library import published_names
from brokerlab.quality.answers import Answer
from brokerlab.quality.model import Model, read_model
from brokerlab.quality.paper import NAME as PAPER
from brokerlab.quality.paper import Tally, paper_answers, paper_tallies
from brokerlab.quality.sheet import read_sheets
from brokerlab.study.document import Document, read_document
from brokerlab.study.nearest import nearest
from brokerlab.study.problems import RuleError, StudyError
from brokerlab.study.quantity import read_percent

KIND = "classification"
OUTCOMES = ("correct", "incorrect", "none")  # of a service: efficiency, reliability, availability (M-04)
_KEYS: Mapping[str, frozenset[str]] = {
    "goals": frozenset({"question", "rank_by", "select"}),
    "system": frozenset({"boundary", "services"}),
    "metrics": frozenset({"model", "performance"}),
    "scenario": frozenset({"sheets", "measured"}),
    "deploy": frozenset({"raters", "rounds"}),
    "analysis": frozenset({"confidence", "seed", "least_agreement"}),
    "present": frozenset({"beside"}),
}
MEASURED_BY = ("drivers", "probe", "nothing")


@dataclass(frozen=True, slots=True)
class Classification:
    """A study of kind `classification` as values."""

    name: str
    question: str
    select: int
    boundary: str
    services: tuple[str, ...]
    performance: Mapping[str, Mapping[str, str]]  # service -> outcome -> metrics
    model: str
    sheets: Mapping[str, tuple[str, ...]]  # name of a set -> files, folders, `shipped` or `published`
    measured: str
    raters: int  # so many are wanted
    rounds: int
    confidence_percent: float
    seed: int
    least_agreement: float
    beside: tuple[str, ...]
    folder: Path  # where its file stands, from which its sheets are looked for


def is_classification(path: Path) -> bool:
    """Whether the file says that it is one; a file that cannot be read says nothing."""
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError):
        return False
    return isinstance(content, dict) and content.get("kind") == KIND


def read_classification(path: Path, *, settings: Sequence[str] = ()) -> Classification:
    """The study in the file with `--set key=value` laid over it; everything that is wrong is told at once."""
    document = read_document(path, settings=settings)
    _check_keys(document)
    beside = tuple(str(name) for name in document.get("present", "beside") or ())
    for number, name in enumerate(beside):
        if name not in published_names():
            close = nearest(name, published_names())
            document.add(("present", "beside", number), "no such published table", nearest_valid=close)
    measured = str(document.get("scenario", "measured") or MEASURED_BY[0])
    if measured not in MEASURED_BY:
        close = nearest(measured, MEASURED_BY)
        document.add(("scenario", "measured"), "must be drivers, probe or nothing", nearest_valid=close)
    services = tuple(str(each) for each in document.get("system", "services") or ())
    _check_services(document, services)
    found = Classification(
        name=str(document.get("study") or path.stem),
        question=" ".join(str(document.get("goals", "question") or "").split()),
        select=_whole(document, ("goals", "select"), 3),
        boundary=" ".join(str(document.get("system", "boundary") or "").split()),
        services=services,
        performance=document.mapping("metrics", "performance"),
        model=str(document.get("metrics", "model") or "iso25010"),
        sheets=_sheets(document),
        measured=measured,
        raters=_whole(document, ("deploy", "raters"), 1),
        rounds=_whole(document, ("deploy", "rounds"), 1),
        confidence_percent=_percent(document),
        seed=_whole(document, ("analysis", "seed"), 7),
        least_agreement=_real(document, ("analysis", "least_agreement"), 0.667),
        beside=beside,
        folder=path.parent,
    )
    if document.problems:
        raise StudyError(document.problems, hint="`brokerlab presets copy classification` gives one to start from")
    return found


def collected(study: Classification, model: Model) -> tuple[list[Answer], list[Tally]]:
    """What all its sheets say, and what its paper counted without names."""
    answers: list[Answer] = []
    tallies: list[Tally] = []
    for name, places in study.sheets.items():
        if places == ("published",):
            answers += paper_answers(model)
            tallies += paper_tallies(model)
            continue
        answers += read_sheets([_place(study, place) for place in places], model=model, name=name)
    return answers, tallies


def shipped_sheets() -> Path:
    """The sheets of the brokers that brokerlab can start."""
    return Path(str(files("brokerlab.quality") / "sheets"))


def model_of(study: Classification) -> Model:
    path = study.folder / study.model
    return read_model(str(path) if path.suffix in (".yaml", ".yml") and path.exists() else study.model)


def _place(study: Classification, place: str) -> Path:
    if place == "shipped":
        return shipped_sheets()
    path = Path(place) if Path(place).is_absolute() else study.folder / place
    if not path.exists():
        raise UserError(f"scenario.sheets: {place}: no such file or folder beside the study")
    return path


def _check_keys(document: Document) -> None:
    known = ("brokerlab", "study", "kind", *_KEYS)
    for key in document.content:
        if key not in known:
            document.add((key,), "unknown key", nearest_valid=nearest(key, known), of_key=True)
    for part, keys in _KEYS.items():
        for key in document.mapping(part):
            if key not in keys:
                document.add(
                    (part, key), "unknown key of a classification", nearest_valid=nearest(key, keys), of_key=True
                )
    if not document.get("goals", "question"):
        document.add(("goals", "question"), "the key is missing", of_key=True)
    rank_by = document.get("goals", "rank_by")
    if rank_by not in (None, "score"):
        document.add(("goals", "rank_by"), "a classification ranks by score")


def _check_services(document: Document, services: Sequence[str]) -> None:
    """Every service has metrics for its three outcomes (M-04)."""
    for service in services:
        told = document.mapping("metrics", "performance", service)
        missing = [outcome for outcome in OUTCOMES if not told.get(outcome)]
        if missing:
            rule = (
                f"{service} needs metrics for the outcomes correct, incorrect and none; missing: {', '.join(missing)}"
            )
            document.add(("metrics", "performance"), rule, of_key=True)


def _sheets(document: Document) -> dict[str, tuple[str, ...]]:
    written = document.mapping("scenario", "sheets")
    if not written:
        document.add(("scenario", "sheets"), "names at least one set of sheets", of_key=True)
    sets = {}
    for name, places in written.items():
        listed = places if isinstance(places, list) else [places]
        sets[PAPER if listed == ["published"] else name] = tuple(str(place) for place in listed)
    return sets


def _whole(document: Document, path: tuple[str, ...], default: int) -> int:
    value = document.get(*path)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        document.add(path, "must be a whole number from 1")
        return default
    return value


def _real(document: Document, path: tuple[str, ...], default: float) -> float:
    value = document.get(*path)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        document.add(path, "must be a number between 0 and 1")
        return default
    return float(value)


def _percent(document: Document) -> float:
    written: Any = document.get("analysis", "confidence")
    if written is None:
        return 95.0
    try:
        value = read_percent(written)
    except RuleError as problem:
        document.add(("analysis", "confidence"), problem.rule)
        return 95.0
    if not 0 < value < 100:
        document.add(("analysis", "confidence"), "must lie between 0 and 100 %")
    return value
