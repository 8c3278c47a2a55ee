"""Reads a study file: YAML with lines (document.py), its shape (model.py), its rules (rules.py), its values.

text ──► document ──► model ──► Study
             └─► rules ──┴─► every problem at once

The rules are asked also where the model refuses, so that one reading finds everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from brokerlab.study import faults
from brokerlab.study.document import Document, read_document
from brokerlab.study.facts import DriverFacts
from brokerlab.study.findings import validated
from brokerlab.study.model import ScenarioPart, StudyPart
from brokerlab.study.problems import StudyError
from brokerlab.study.readers import FORMAT_VERSION
from brokerlab.study.rules import check_rules
from brokerlab.study.values import Factor, Present, Scenario, Study, Workload

_HINT = "`brokerlab plan` checks a study without running it; `brokerlab presets` shows studies to start from"


def read_study(path: Path, *, settings: Sequence[str] = (), drivers: Mapping[str, DriverFacts]) -> Study:
    """The study in the file with the settings (`key=value`) laid over it; StudyError names all that is wrong."""
    document = read_document(path, settings=settings)
    _refuse_newer(document)
    part = validated(document, StudyPart)
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
            faults=faults.value_of(part.scenario.faults, part.scenario.nemesis),
        ),
        deploy=part.deploy.value(part.metrics),
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
