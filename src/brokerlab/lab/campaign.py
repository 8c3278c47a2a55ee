"""All runs of a plan, one after the other, in the plan's order."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brokerlab.lab.run import make_run
from brokerlab.lab.watching import Watcher
from brokerlab.load.runner import Runner
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import Plan, PlannedRun
from brokerlab.study.values import Study

__all__ = ["Outcome", "Watcher", "make_runs"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    run: PlannedRun
    verdict: str
    reasons: tuple[str, ...]


def make_runs(
    study: Study,
    plan: Plan,
    results: StudyDirectory,
    *,
    watcher: Watcher,
    new_runner: Callable[[], Runner] | None = None,
) -> list[Outcome]:
    """Makes the runs that are not finished yet; a run that was cut off is set aside and made again.

    `new_runner` makes what a run's workers run on; processes of this machine without it.
    """
    missing = unfinished(plan, results)
    outcomes = []
    for number, run in enumerate(plan.runs, start=1):
        if run not in missing:
            continue
        results.set_aside_cut_off(run.id)
        watcher.run_started(run, number, len(plan.runs))
        began = time.monotonic()
        runner = new_runner() if new_runner else None
        verdict = make_run(run, study, results.run(run.id), watcher=watcher, runner=runner)
        watcher.run_ended(run, verdict.value, verdict.reasons, time.monotonic() - began)
        outcomes.append(Outcome(run, verdict.value, verdict.reasons))
    return outcomes


def unfinished(plan: Plan, results: StudyDirectory) -> Sequence[PlannedRun]:
    """The runs of the plan that have no verdict yet."""
    return [run for run in plan.runs if not results.run(run.id).is_finished()]
