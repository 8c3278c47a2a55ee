"""`brokerlab plan`: what a study would do here, before anything starts."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from brokerlab.cli.calibrate import amount
from brokerlab.cli.machine import ENOUGH_CORES, usable_cores
from brokerlab.cli.progress import duration
from brokerlab.cli.studies import OnlyOption, Prepared, SetOption, StudyArgument, prepare, study_path
from brokerlab.cli.terminal import Columns, heading, say, table
from brokerlab.errors import UserError
from brokerlab.lab.calibration import ELSEWHERE, failures, missing_setups
from brokerlab.lab.ensemble import bridges_of
from brokerlab.lab.kinds import unknown
from brokerlab.pipeline.java import HINT, find_java
from brokerlab.quality.study import collected, is_classification, model_of, read_classification
from brokerlab.study.ensemble_values import BridgeShape, Join
from brokerlab.study.factors import FACTORS
from brokerlab.study.fault_values import Faults
from brokerlab.study.nearest import listed
from brokerlab.study.plan import Cell, Plan, plan_json
from brokerlab.study.quantity import seconds_text
from brokerlab.study.values import LOCAL

_SHOWN_RUNS = 12  # so many are listed; a longer order is for --json


def plan(
    study: StudyArgument,
    settings: SetOption = None,
    levels: OnlyOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="The whole plan as JSON; the same study, the same bytes.")
    ] = False,
) -> None:
    """Say what a study would do here; nothing is started.

    Prints its cells, its runs in their order, the time they need, and what this machine cannot do.
    """
    if is_classification(study_path(study)):
        print_classification(study, settings or [], levels or [], json=json)
        return
    prepared = prepare(study, settings=settings or [], levels=levels or [])
    if json:
        sys.stdout.write(plan_json(prepared.plan, prepared.study))
    else:
        print_plan(prepared)


def print_classification(argument: str, settings: Sequence[str], levels: Sequence[str], *, json: bool) -> None:
    """A study of questionnaires: its sets of sheets instead of cells."""
    if levels or json:
        raise UserError("a classification has no cells", hint="leave --only and --json out")
    study = read_classification(study_path(argument), settings=settings)
    model = model_of(study)
    answers, _ = collected(study, model)
    say(f"{study.name}: {study.question}")
    heading(f"{model.title}: {len(model.features)} features, the first {study.select} of each set are chosen")
    rows = []
    for name in study.sheets:
        own = [answer for answer in answers if answer.sheets == name]
        numbers = (len({answer.broker for answer in own}), len({answer.rater for answer in own}), len(own))
        rows.append((name, *map(str, numbers), str(sum(answer.low is None for answer in own))))
    table(
        Columns(
            ("set", "brokers", "raters", "answers", "unknown"),
            right=frozenset({"brokers", "raters", "answers", "unknown"}),
        ),
        rows,
    )
    say("no runs; about a minute, for Spark and the report")


def print_plan(prepared: Prepared) -> None:
    study, plan = prepared.study, prepared.plan
    say(f"{study.name}: {study.goals.question}")
    heading(f"{len(plan.cells)} cells, {study.deploy.repetitions} repetitions each")
    _print_cells(plan.cells)
    for line in dict.fromkeys(map(ensemble_text, plan.cells)):
        if line:
            say(line)
    for line in faults_lines(study.scenario.faults):
        say(line)
    heading(f"{len(plan.runs)} runs in this order (seed {plan.seed}), about {duration(plan.expected_s)}")
    for run in plan.runs[:_SHOWN_RUNS]:
        say(f"{run.order:>4}  {run.id}")
    if len(plan.runs) > _SHOWN_RUNS:
        say(f"      and {len(plan.runs) - _SHOWN_RUNS} more; --json has all")
    _print_limits(prepared)


def ensemble_text(cell: Cell) -> str:
    """How the nodes of a cell are joined; empty for one node."""
    ensemble = cell.ensemble
    if not ensemble.is_several:
        return ""
    brokers = f" of {listed(dict.fromkeys(choice.name for choice in cell.members))}" if cell.members else ""
    if ensemble.join is not Join.BRIDGE:
        return f"{ensemble.nodes} nodes{brokers}: {ensemble.join}"
    if ensemble.bridges is BridgeShape.TREE and not cell.topology.is_loopback:
        return f"{ensemble.nodes} nodes{brokers}: bridges along the cheapest tree of the network"
    pairs = ", ".join(f"{one}-{other}" for one, other in bridges_of(ensemble, {}))
    return f"{ensemble.nodes} nodes{brokers}: bridges {pairs}"


def faults_lines(faults: Faults) -> Iterator[str]:
    """What is done to the system while it is measured."""
    for fault in faults.planned:
        when = f"at {seconds_text(fault.at_s)}" if fault.delivered is None else f"after {fault.delivered} deliveries"
        lasts = "" if fault.for_s is None else f", for {seconds_text(fault.for_s)}"
        yield f"fault {when}: {fault.kind} of {fault.target}{lasts}"
    if (nemesis := faults.nemesis) is not None:
        yield f"{nemesis.faults} faults by chance in each run, of {listed(nemesis.kinds)}"


def _print_cells(cells: tuple[Cell, ...]) -> None:
    factors = [name for name, _ in cells[0].levels] if cells else []
    rows = [
        [*(str(FACTORS[name].written(level)) for name, level in cell.levels), cell.broker.driver, cell.broker.preset]
        for cell in cells
    ]
    table(Columns((*factors, "driver", "preset")), rows)


def _print_limits(prepared: Prepared) -> None:
    """What this machine cannot do, and what follows."""
    notes = machine_notes(prepared.plan) + meter_notes(prepared)
    if notes:
        heading("On this machine")
        for note in notes:
            say(f"- {note}")


def machine_notes(plan: Plan) -> list[str]:
    """What is left out and what limits the numbers here, with how to change it."""
    notes = [f"{broker} is left out: {reason}" for broker, reason in plan.left_out]
    notes += [f"{broker} is left out of some cells: {reason}" for broker, reason in plan.unable]
    if usable_cores() < ENOUGH_CORES and not all(_keeps_apart(cell) for cell in plan.cells):
        notes.append(f"broker and load share {usable_cores()} cores: a run in which the load was the limit is invalid")
    if find_java() is None:
        notes.append(f"no Java for the analysis: {HINT}")
    return notes


def meter_notes(prepared: Prepared) -> list[str]:
    """What the runs will not know of their own meter, or not before it is measured."""
    if prepared.study.deploy.load_on != LOCAL:
        return [f"the meter is not calibrated: {ELSEWHERE}"]
    cells = prepared.plan.cells
    notes = failures(cells) + unknown(cells)
    if missing := missing_setups(cells):
        notes.append(
            f"the meter was not calibrated for all of this load: done before the first run ({amount(missing)})"
        )
    return notes


def _keeps_apart(cell: Cell) -> bool:
    """Whether the study gives the broker some cores and leaves others to the load."""
    return cell.limits.cores is not None and len(cell.limits.cores) < usable_cores()
