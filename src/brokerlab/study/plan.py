"""The plan of a study: its cells, and its runs in the order in which they will be made.

A plan depends on the study and its seed only: the same study gives the same plan, byte for byte.
Repetitions are interleaved (F-22): every repetition runs all cells once, in an order of its own.
The place of a run in that order is a hash, so a broker that is left out or a `--only` leaves
the order and the seeds of the others as they are.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from brokerlab.errors import UserError
from brokerlab.study.arrivals import search_s
from brokerlab.study.ensemble_values import SINGLE, Ensemble
from brokerlab.study.factors import FACTORS
from brokerlab.study.fault_values import NO_FAULTS, Faults
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.nearest import listed
from brokerlab.study.population import client_count
from brokerlab.study.replay import measure_s
from brokerlab.study.seeds import derived_seed
from brokerlab.study.selection import is_selected, read_selection
from brokerlab.study.topology import ON_LOOPBACK, Topology
from brokerlab.study.values import Arrivals, BrokerChoice, Level, Qos, Roles, Study, Workload
from brokerlab.study.written import study_yaml

PLAN_FORMAT = 1

# Estimates, for people: starts, proof of readiness, connects, stops, and a drain that ends as soon as
# the last messages are there, which it does unless some are lost.
_AROUND_RUN_S = 2.5
_NETWORK_S = 5.0  # building and proving one
_ANALYSIS_S = 15.0
_NO_QOS: Mapping[str, Sequence[int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of levels, and what it means for broker and workload."""

    id: str  # a path component, such as "broker-amqtt.qos-1"
    levels: tuple[tuple[str, Level], ...]
    broker: BrokerChoice
    workload: Workload
    limits: Limits = UNLIMITED  # of each of the broker's nodes
    topology: Topology = ON_LOOPBACK
    ensemble: Ensemble = SINGLE
    members: tuple[BrokerChoice, ...] = ()  # by node, of a mixed ensemble
    faults: Faults = NO_FAULTS

    @property
    def choices(self) -> tuple[BrokerChoice, ...]:
        """The broker of each node."""
        return self.members or (self.broker,) * self.ensemble.nodes


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One repetition of one cell."""

    cell: Cell
    repetition: int  # from 1
    order: int  # place in the whole plan, from 1; kept when --only leaves others out
    seed: int
    placement_seed: int = 0  # one for all cells of a repetition, whose clients are then at the same places

    @property
    def id(self) -> str:
        return f"{self.cell.id}/{self.repetition}"


@dataclass(frozen=True, slots=True)
class Plan:
    study: str
    seed: int
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]
    left_out: tuple[tuple[str, str], ...]  # (broker, reason): optional brokers that are not here
    expected_s: float  # the timed phases and the usual starts and stops
    unable: tuple[tuple[str, str], ...] = ()  # (broker, reason): optional brokers without a QoS that the study varies


def make_plan(
    study: Study, *, missing: Mapping[str, str], keep: Sequence[str] = (), qos: Mapping[str, Sequence[int]] = _NO_QOS
) -> Plan:
    """The plan without the optional brokers that are missing (name -> reason), cut down to `keep` (factor=level).

    Another missing broker raises UserError, unless `keep` leaves it out. Optional brokers are left out of the
    cells with a QoS that they do not have; `qos` is what each has (name -> levels), and who is not in it has all.
    """
    here = [cell for cell in _cells(study) if not (cell.broker.optional and cell.broker.name in missing)]
    wanted = [cell for cell in here if _is_able(cell, qos)]
    plan = Plan(
        study=study.name,
        seed=study.deploy.seed,
        cells=tuple(wanted),
        runs=_runs(wanted, seed=study.deploy.seed, repetitions=study.deploy.repetitions),
        left_out=_left_out(study, missing),
        expected_s=0.0,
        unable=_unable([cell for cell in here if not _is_able(cell, qos)], qos),
    )
    plan = _cut_down(plan, keep)
    _refuse_missing(plan, missing)
    return replace(plan, expected_s=_expected_s(plan.runs, study))


def only(plan: Plan, levels: Sequence[str]) -> Plan:
    """The plan cut down to the levels (`qos=1`): several of one factor add up, several factors narrow down."""
    cut = _cut_down(plan, levels)
    runs_s = (plan.expected_s - _ANALYSIS_S) * len(cut.runs) / len(plan.runs)  # all runs last equally long
    return replace(cut, expected_s=round(runs_s + _ANALYSIS_S, 3))


def plan_json(plan: Plan, study: Study) -> str:
    """The plan as JSON text: the same for the same study, without times and facts of the machine.

    Of a broker that is left out only the name is written: the reason is the machine's.
    """
    content = {
        "format": PLAN_FORMAT,
        "study": plan.study,
        "study_digest": blake2b(study_yaml(study).encode(), digest_size=16).hexdigest(),
        "seed": plan.seed,
        "repetitions": study.deploy.repetitions,
        "phases": asdict(study.deploy.phases),
        "factors": [{"name": factor.name, "levels": factor.levels} for factor in study.scenario.variables],
        "cells": [_cell_json(cell) for cell in plan.cells],
        "runs": [_run_json(run) for run in plan.runs],
        "left_out": [broker for broker, _ in plan.left_out],
        "unable": [list(pair) for pair in plan.unable],
        "expected_s": plan.expected_s,
    }
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _cut_down(plan: Plan, levels: Sequence[str]) -> Plan:
    if not levels:
        return plan
    cells = [cell.levels for cell in plan.cells]
    selection = read_selection(levels, cells=cells, left_out=dict(plan.left_out))
    runs = tuple(run for run in plan.runs if is_selected(run.cell.levels, selection))
    if not runs:
        raise UserError(f"no cell is left by --only {' --only '.join(levels)}", hint="leave one of them out")
    kept = tuple(cell for cell in plan.cells if is_selected(cell.levels, selection))
    names = {cell.broker.name for cell in kept}
    return replace(plan, cells=kept, runs=runs, unable=tuple(pair for pair in plan.unable if pair[0] in names))


def _cells(study: Study) -> list[Cell]:
    """Every combination of levels; the last factor of the file changes fastest.

    At QoS 0 nothing is in flight: such cells differ in their level of `inflight` by name only, and the last one stays.
    """
    factors = study.scenario.variables
    brokers = {broker.name: broker for broker in study.system.brokers}
    last_inflight = {factor.levels[-1] for factor in factors if factor.name == "inflight"}
    combinations = itertools.product(*(factor.levels for factor in factors))
    cells = [
        _cell(tuple(zip((factor.name for factor in factors), levels, strict=True)), study, brokers)
        for levels in combinations
    ]
    return [
        cell
        for cell in cells
        if cell.workload.qos != Qos.AT_MOST_ONCE
        or not last_inflight
        or cell.workload.schedule.inflight in last_inflight
    ]


def _cell(levels: tuple[tuple[str, Level], ...], study: Study, brokers: Mapping[str, BrokerChoice]) -> Cell:
    workload, limits, topology = study.scenario.workload, study.system.limits, study.scenario.topology
    ensemble = study.system.ensemble
    for factor, level in levels:
        kind = FACTORS[factor]
        workload = kind.apply(workload, level)
        limits = kind.limit(limits, level) if kind.limit else limits
        topology = kind.network(topology, level) if kind.network else topology
        ensemble = kind.ensemble(ensemble, level) if kind.ensemble else ensemble
    broker = brokers[str(dict(levels)["broker"])]
    name = ".".join(f"{factor}-{FACTORS[factor].label(level)}" for factor, level in levels)
    names = ensemble.members
    members = tuple(brokers[names[number % len(names)]] for number in range(ensemble.nodes)) if names else ()
    faults = study.scenario.faults
    if faults:  # who loses its connection by plan comes back
        workload = replace(workload, clients=replace(workload.clients, reconnect=True))
    return Cell(name, levels, broker, workload, limits, topology, ensemble, members, faults)


def _runs(cells: Sequence[Cell], *, seed: int, repetitions: int) -> tuple[PlannedRun, ...]:
    """One shuffle of all cells for each repetition, in the order of the repetitions."""
    every = [(repetition, cell) for repetition in range(1, repetitions + 1) for cell in cells]
    shuffled = sorted(every, key=lambda run: (run[0], derived_seed(seed, "order", run[0], run[1].id), run[1].id))
    return tuple(
        PlannedRun(
            cell,
            repetition,
            order,
            seed=derived_seed(seed, "run", cell.id, repetition),
            placement_seed=derived_seed(seed, "placement", repetition),
        )
        for order, (repetition, cell) in enumerate(shuffled, start=1)
    )


def _left_out(study: Study, missing: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    used = {level for factor in study.scenario.variables if factor.name == "broker" for level in factor.levels}
    return tuple(
        (broker.name, missing[broker.name])
        for broker in study.system.brokers
        if broker.optional and broker.name in missing and broker.name in used
    )


def _lacking(cell: Cell, qos: Mapping[str, Sequence[int]]) -> set[int]:
    """The QoS levels that the cell's broker would need and does not have."""
    workload = cell.workload
    needed = {int(workload.qos)} | ({int(workload.echo.qos)} if workload.role is Roles.ECHO else set())
    return needed - set(qos.get(cell.broker.name, tuple(Qos)))


def _is_able(cell: Cell, qos: Mapping[str, Sequence[int]]) -> bool:
    return not cell.broker.optional or not _lacking(cell, qos)


def _unable(cells: Sequence[Cell], qos: Mapping[str, Sequence[int]]) -> tuple[tuple[str, str], ...]:
    """Brokers with the QoS levels that they are not measured at."""
    levels: dict[str, set[int]] = {}
    for cell in cells:
        levels.setdefault(cell.broker.name, set()).update(_lacking(cell, qos))
    return tuple((name, f"it has no QoS {listed(map(str, sorted(own)))}") for name, own in levels.items())


def _refuse_missing(plan: Plan, missing: Mapping[str, str]) -> None:
    needed = dict.fromkeys(choice.name for cell in plan.cells for choice in (cell.broker, *cell.members))
    lines = [f"broker {name} is not on this machine: {missing[name]}" for name in needed if name in missing]
    if lines:
        hint = "install what is missing, mark such brokers `optional: true`, or choose others with --only broker=NAME"
        raise UserError("\n".join(lines), hint=hint)
    if not plan.cells:
        reasons = "\n".join(f"broker {name} is left out: {reason}" for name, reason in plan.left_out)
        raise UserError(f"nothing is left to run\n{reasons}", hint="install one of these brokers")


def _expected_s(runs: Sequence[PlannedRun], study: Study) -> float:
    phases = study.deploy.phases
    around_s = phases.idle_s + phases.warmup_s + _AROUND_RUN_S
    around_s += 0.0 if study.scenario.topology.is_loopback else _NETWORK_S
    workloads = [run.cell.workload for run in runs]
    searches = [each.schedule for each in workloads if each.schedule.arrivals is Arrivals.SEARCH]
    runs_s = sum(around_s + measure_s(each, phases) + _ramp_s(each) for each in workloads) + sum(
        map(search_s, searches)
    )
    return round(runs_s + _ANALYSIS_S, 3)


def _ramp_s(workload: Workload) -> float:
    """How long the clients take to connect, where they do it at a rate."""
    rate_per_s = workload.clients.connect_rate_per_s
    return client_count(workload) / rate_per_s if rate_per_s else 0.0


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "levels": dict(cell.levels),
        "broker": asdict(cell.broker),
        "workload": asdict(cell.workload),
        **({"limits": asdict(cell.limits)} if cell.limits else {}),
        **({} if cell.topology.is_loopback else {"topology": asdict(cell.topology)}),
        **({"faults": asdict(cell.faults)} if cell.faults else {}),
        **({"ensemble": asdict(cell.ensemble)} if cell.ensemble.is_several else {}),
    }


def _run_json(run: PlannedRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "cell": run.cell.id,
        "repetition": run.repetition,
        "order": run.order,
        "seed": run.seed,
    }
