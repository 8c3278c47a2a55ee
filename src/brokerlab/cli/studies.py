"""From what the user typed to a study and its plan: a file or a preset, with --set and --only, on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer

from brokerlab.brokers.base import Broker, ChecksOptions, Clusters, Found, Missing, RunsElsewhere
from brokerlab.brokers.limits import require_possible
from brokerlab.brokers.registry import DRIVERS, PINNED
from brokerlab.errors import UserError
from brokerlab.lab.reach import foreign_addresses, nodes_shortfall, read_reach, shortfalls
from brokerlab.lab.remote import check_reachable
from brokerlab.network.privileges import reason_deaf, reason_unable
from brokerlab.presets import preset_names, preset_path
from brokerlab.published.library import published
from brokerlab.study.access import users_of
from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import missing_brokers, read_study
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.plan import Plan, make_plan
from brokerlab.study.population import client_count
from brokerlab.study.values import LOCAL, Study

StudyArgument = Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or the name of a preset.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another value for a key of the study; may be repeated."),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="FACTOR=LEVEL", help="Only the cells with this level; may be repeated."),
]
ResultsArgument = Annotated[Path, typer.Argument(metavar="DIR", help="What `brokerlab run` wrote.")]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A study that can be run here, and its plan."""

    study: Study
    plan: Plan


def prepare(argument: str, *, settings: Sequence[str], levels: Sequence[str]) -> Prepared:
    """The study and its plan; every problem of the study is raised at once, and so is every missing broker."""
    facts = _by_whole_names({name: _facts(driver, driver.find()) for name, driver in DRIVERS.items()})
    study = read_study(study_path(argument), settings=settings, drivers=facts)
    _require_secrets(study)
    for name in study.present.beside:
        published(name)
    qos = {broker.name: facts[broker.driver].qos for broker in study.system.brokers}
    plan = make_plan(study, missing=missing_brokers(study, drivers=facts), keep=levels, qos=qos)
    _refuse_foreign_addresses(study, plan)
    _refuse_too_many_connections(plan)
    _refuse_too_many_nodes(plan)
    for limits in dict.fromkeys(cell.limits for cell in plan.cells):
        require_possible(limits)
    for cell in plan.cells:
        check_reachable(cell)
    _require_networks(study)
    return Prepared(study, plan)


def _by_whole_names(facts: dict[str, DriverFacts]) -> dict[str, DriverFacts]:
    """With the names that say the version as well."""
    return facts | {name: facts[broker.name] for name, broker in PINNED.items()}


def _refuse_foreign_addresses(study: Study, plan: Plan) -> None:
    """No client would connect from them. On a cluster they are those of other machines, and workers find out."""
    if study.deploy.load_on != LOCAL:
        return
    wanted = dict.fromkeys(address for cell in plan.cells for address in cell.workload.clients.addresses)
    if foreign := foreign_addresses(wanted):
        raise UserError(
            f"scenario.workload.clients.addresses: this machine has no {listed(foreign)}",
            hint="list addresses that it has (`ip address` shows them), or how many of loopback there shall be",
        )


def _refuse_too_many_connections(plan: Plan) -> None:
    """A run that cannot connect all its clients would tell nothing of the broker."""
    reach = read_reach()
    lines = [
        f"{cell.id} needs {client_count(cell.workload):,} connections: {'; '.join(reasons)}"
        for cell in plan.cells
        if (reasons := shortfalls(cell.workload, reach))
    ]
    if lines:
        raise UserError("\n".join(lines), hint="`brokerlab doctor` says what this machine can reach")


def _require_networks(study: Study) -> None:
    """Only loopback is there without being made, and only root may listen to it."""
    topology = study.scenario.topology
    if study.deploy.captures and (reason := reason_deaf()) is not None:
        raise UserError(f"deploy.captures: {reason}", hint="run it as root, or with --set deploy.captures=[]")
    if not topology.is_loopback and (reason := reason_unable()) is not None:
        raise UserError(
            f"scenario.topology: {topology.shape} cannot be made here: {reason}",
            hint="run it as root, or with --set scenario.topology=loopback",
        )


def _refuse_too_many_nodes(plan: Plan) -> None:
    """Nodes that do not fit into the memory would be killed, or swap."""
    available_bytes = psutil.virtual_memory().available
    lines = [reason for cell in plan.cells if (reason := nodes_shortfall(cell, available_bytes))]
    if lines:
        raise UserError("\n".join(lines), hint="lower system.ensemble.nodes or system.limits.memory")


def _require_secrets(study: Study) -> None:
    """Passwords must be at hand before anything starts; a study that is only read back needs none."""
    credentials = study.scenario.workload.credentials
    try:
        if credentials is not None:
            users_of(credentials, 0)
    except UserError as problem:
        raise UserError(f"scenario.workload.credentials: {problem.message}", hint=problem.hint) from problem


def _facts(driver: Broker, found: Found | Missing) -> DriverFacts:
    abilities = driver.abilities
    return DriverFacts(
        qos=tuple(int(qos) for qos in abilities.qos),
        presets=abilities.presets,
        options=abilities.options,
        check_option=driver.check_option if isinstance(driver, ChecksOptions) else None,
        protocols=abilities.protocols,
        transports=tuple(str(transport) for transport in abilities.transports),
        has_credentials=abilities.has_credentials,
        has_permissions=abilities.has_permissions,
        has_client_certificates=abilities.has_client_certificates,
        has_shared_subscriptions=abilities.has_shared_subscriptions,
        has_clusters=isinstance(driver, Clusters) and abilities.has_clusters,
        is_elsewhere=isinstance(driver, RunsElsewhere),
        most_nodes=abilities.most_nodes,
        reason_missing=f"{found.reason} ({found.hint})" if isinstance(found, Missing) else None,
    )


def study_path(argument: str) -> Path:
    """The file that was meant: a file that exists, else a preset, else whatever looks like a file."""
    path = Path(argument)
    looks_like_file = path.suffix in (".yaml", ".yml") or len(path.parts) > 1
    return path if path.is_file() or looks_like_file else known_preset(argument)


def known_preset(name: str) -> Path:
    """The file of a preset; an unknown one is refused with the nearest name."""
    names = preset_names()
    if name in names:
        return preset_path(name)
    close = nearest(name, names)
    hint = f"did you mean {close}?" if close else f"presets are: {listed(names)}"
    raise UserError(f"{name}: neither a file nor a preset", hint=hint)


def needed_drivers(preset: str) -> list[str]:
    """The drivers that a preset cannot do without."""
    study, _ = _as_if_installed(preset)
    return [choice.driver for choice in study.system.brokers if not choice.optional]


def whole_plan(preset: str) -> Plan:
    """The plan of a preset where all of its brokers are installed."""
    study, qos = _as_if_installed(preset)
    return make_plan(study, missing={}, qos=qos)


def _as_if_installed(preset: str) -> tuple[Study, dict[str, tuple[int, ...]]]:
    """The study, and the QoS that each of its brokers has."""
    facts = _by_whole_names({name: _facts(driver, Found("", "")) for name, driver in DRIVERS.items()})
    study = read_study(preset_path(preset), settings=(), drivers=facts)
    return study, {broker.name: tuple(facts[broker.driver].qos) for broker in study.system.brokers}
