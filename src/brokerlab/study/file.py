"""Reads a study file: YAML with lines (document.py), its shape (model.py), its rules (rules.py), its values.

text ──► document ──► model ──► Study
             └─► rules ──┴─► every problem at once

The rules are asked also where the model refuses, so that one reading finds everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from pydantic import ValidationError

from brokerlab.study.document import Document, KeyPath, read_document
from brokerlab.study.facts import DriverFacts
from brokerlab.study.model import ScenarioPart, StudyPart
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.part import Part
from brokerlab.study.problems import Problem, RuleError, StudyError
from brokerlab.study.readers import FORMAT_VERSION
from brokerlab.study.rules import check_rules
from brokerlab.study.values import Factor, Present, Scenario, Study, Workload

_HINT = "`brokerlab plan` checks a study without running it; `brokerlab presets` shows studies to start from"

# What pydantic calls a value of the wrong kind, and what we call it.
_WRONG_KIND = {
    "model_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "list_type": "must be a list, such as [a, b]",
    "bool_type": "must be true or false",
    "too_short": "must not be empty",
}


def read_study(path: Path, *, settings: Sequence[str] = (), drivers: Mapping[str, DriverFacts]) -> Study:
    """The study in the file with the settings (`key=value`) laid over it; StudyError names all that is wrong."""
    document = read_document(path, settings=settings)
    _refuse_newer(document)
    part = _validated(document)
    check_rules(document, drivers=drivers)
    if document.problems or part is None:
        raise StudyError(document.problems, hint=_HINT)
    return _study(part, document)


def missing_brokers(study: Study, *, drivers: Mapping[str, DriverFacts]) -> dict[str, str]:
    """The study's brokers that are not on this machine, each with the reason."""
    reasons = {broker.name: drivers[broker.driver].reason_missing for broker in study.system.brokers}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _refuse_newer(document: Document) -> None:
    """A newer format is the only thing to say: every other problem may come from it."""
    version = document.get("brokerlab")
    if isinstance(version, int) and not isinstance(version, bool) and version > FORMAT_VERSION:
        rule = f"this brokerlab reads study files up to version {FORMAT_VERSION}"
        raise StudyError([document.problem(("brokerlab",), rule)], hint="install a newer brokerlab")


def _validated(document: Document) -> StudyPart | None:
    try:
        return StudyPart.model_validate(document.content, context={"folder": Path(document.file).parent})
    except ValidationError as refused:
        for error in refused.errors(include_url=False):
            document.problems.append(_problem(document, error))
        return None


def _problem(document: Document, error: Any) -> Problem:
    """Pydantic's finding as a problem of ours: its place, its rule, the nearest valid name."""
    path: KeyPath = tuple(error["loc"])
    of_key = path[-1:] == ("[key]",)
    path = path[:-1] if of_key else path
    if error["type"] == "missing":
        return document.problem(path, "the key is missing", of_key=True)
    if error["type"] == "extra_forbidden":
        return _unknown_key(document, path)
    while path not in document.places:  # a name that stands for a mapping: its place is the name's
        path = path[:-1]
    if error["input"] is None:
        return document.problem(path, "is empty: give it a value, or leave the key out", of_key=True)
    broken = error.get("ctx", {}).get("error")
    if isinstance(broken, RuleError):
        return document.problem(path, broken.rule, nearest_valid=broken.nearest, of_key=of_key)
    return document.problem(path, _WRONG_KIND.get(error["type"], error["msg"]))


def _unknown_key(document: Document, path: KeyPath) -> Problem:
    part = _part_at(path[:-1])
    key, known = str(path[-1]), list(part.model_fields)
    what = "factor" if path[:-1] == ("scenario", "variables") else "key"
    if key in part.later:
        return document.problem(path, f"this {what} is not available yet", of_key=True)
    close = nearest(key, known)
    rule = f"unknown {what}" if close else f"unknown {what}; known: {listed(known)}"
    return document.problem(path, rule, nearest_valid=close, of_key=True)


def _part_at(path: KeyPath) -> type[Part]:
    """The model of the mapping at the path; a mapping of names, such as brokers, has one model for all."""
    found: Any = StudyPart
    for part in path:
        is_model = isinstance(found, type) and issubclass(found, Part)
        found = found.model_fields[part].annotation if is_model else get_args(found)[-1]
        if isinstance(found, UnionType):  # a mapping that may be left out altogether
            found = get_args(found)[0]
    model: type[Part] = found
    return model


def _study(part: StudyPart, document: Document) -> Study:
    return Study(
        name=part.study,
        goals=part.goals.value(),
        system=part.system.value(),
        metrics=tuple(part.metrics),
        scenario=Scenario(
            workload=_workload(part.scenario),
            variables=_variables(part, document),
            topology=part.scenario.topology.value(),
        ),
        deploy=part.deploy.value(),
        analysis=part.analysis.value(),
        present=Present(beside=tuple(part.present.beside)),
    )


def _workload(part: ScenarioPart) -> Workload:
    return replace(part.workload.value(), placement=part.placement.value(part.locality))


def _variables(part: StudyPart, document: Document) -> tuple[Factor, ...]:
    """The factors in the order of the file; without `broker` among them, all brokers come first."""
    levels = part.scenario.variables.levels
    varied = tuple(Factor(name, levels(name)) for name in document.mapping("scenario", "variables"))
    if any(factor.name == "broker" for factor in varied):
        return varied
    # A mixed ensemble is one system, which is called by its first member.
    brokers = part.system.ensemble.members[:1] or tuple(part.system.brokers)
    return (Factor("broker", brokers), *varied)
