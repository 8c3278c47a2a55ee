"""`brokerlab run`: the whole way from a study to its report."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from brokerlab.cli.analyze import MasterOption, require_java, write_tables
from brokerlab.cli.calibrate import calibrate_for
from brokerlab.cli.clean import said
from brokerlab.cli.holding import Holding
from brokerlab.cli.known_drivers import known_drivers
from brokerlab.cli.loading import runners
from brokerlab.cli.outcome import print_outcome
from brokerlab.cli.outdir import Mode, opened
from brokerlab.cli.plan import machine_notes
from brokerlab.cli.progress import duration, watching
from brokerlab.cli.studies import OnlyOption, Prepared, SetOption, StudyArgument, prepare, study_path
from brokerlab.cli.terminal import say
from brokerlab.errors import ExitCode, LabError, UserError
from brokerlab.lab.leftovers import remove_leftovers
from brokerlab.lab.remote import require_answers
from brokerlab.quality.study import is_classification, read_classification
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import Plan, plan_json
from brokerlab.study.problems import StudyError
from brokerlab.study.written import study_yaml


class StopAfter(StrEnum):
    RUNS = "runs"
    TABLES = "tables"


class StoppedError(LabError):
    """The user stopped it; what is finished stays."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True, slots=True)
class Request:
    """What was typed, as far as it is needed to type it again."""

    study: str
    out: Path | None
    settings: Sequence[str]
    levels: Sequence[str]
    stop_after: StopAfter | None = None
    master: str | None = None

    def resume_command(self) -> str:
        words = ["brokerlab", "run", self.study, "--resume"]
        words += ["--out", str(self.out)] if self.out else []
        words += [word for setting in self.settings for word in ("--set", setting)]
        words += [word for level in self.levels for word in ("--only", level)]
        words += ["--stop-after", self.stop_after] if self.stop_after else []
        words += ["--master", self.master] if self.master else []
        return shlex.join(words)


def run(
    study: StudyArgument,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to; else results/<study>.")] = None,
    settings: SetOption = None,
    levels: OnlyOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Make the runs that are missing in DIR.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Set what is in DIR aside, and start again.")] = False,
    stop_after: Annotated[StopAfter | None, typer.Option("--stop-after", help="Stop after this step.")] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Wait in the first run with all up; say how to enter.")] = False,
    master: MasterOption = None,
) -> ExitCode:
    """Make the runs of a study, its tables and its report.

    What is in the way (a missing broker, one that cannot be reached, no Java, results that are there already) is told
    before the first run.
    """
    if resume and fresh:
        raise UserError("--resume and --fresh exclude each other")
    if is_classification(study_path(study)):
        return _classify(
            study, out=out, settings=settings or [], levels=levels or [], fresh=fresh, stop_after=stop_after
        )
    request = Request(study, out, settings or [], levels or [], stop_after, master)
    prepared = _prepared(request, needs_java=stop_after is not StopAfter.RUNS)
    require_answers(prepared.plan.cells)
    results = StudyDirectory(out or Path("results") / prepared.study.name)
    mode = Mode.RESUME if resume else Mode.FRESH if fresh else Mode.PLAIN
    plan_text, study_text = plan_json(prepared.plan, prepared.study), study_yaml(prepared.study)
    with (
        opened(results, mode, plan_text=plan_text, study_text=study_text),
        _told_when_interrupted(request, prepared.plan, results),
    ):
        _make_runs(prepared, results, request.master, hold=hold)
        return _finish(prepared, results, request)


def _classify(
    argument: str,
    *,
    out: Path | None,
    settings: Sequence[str],
    levels: Sequence[str],
    fresh: bool,
    stop_after: StopAfter | None,
) -> ExitCode:
    """A study of questionnaires: it has neither cells nor runs."""
    if levels or stop_after is StopAfter.RUNS:
        raise UserError("a classification has no cells and no runs", hint="leave --only and --stop-after runs out")
    from brokerlab.cli.classification import classify  # noqa: PLC0415 - loads what ranking needs

    path = study_path(argument)
    study = read_classification(path, settings=settings)
    text = path.read_text(encoding="utf-8") + "".join(f"# --set {setting}\n" for setting in settings)
    return classify(study, study_text=text, out=out, fresh=fresh, with_report=stop_after is None)


def _prepared(request: Request, *, needs_java: bool) -> Prepared:
    """The study and its plan, with everything that this machine lacks told at once, before the first run."""
    no_java = _java_problem(request.master) if needs_java else None
    try:
        prepared = prepare(request.study, settings=request.settings, levels=request.levels)
    except StudyError:
        raise
    except UserError as problem:
        if no_java is None:
            raise
        both = f"{problem.message}\n{no_java.message}"
        raise UserError(both, hint=f"{problem.hint}\n{no_java.hint}") from problem
    if no_java is not None:
        raise no_java
    return prepared


def _java_problem(master: str | None) -> UserError | None:
    try:
        require_java(master)
    except UserError as problem:
        return problem
    return None


def _make_runs(prepared: Prepared, results: StudyDirectory, master: str | None, *, hold: bool) -> None:
    from brokerlab.lab.campaign import make_runs  # noqa: PLC0415 - compiles the load path, which --help does without

    plan = prepared.plan
    _clean()
    for run in plan.runs:
        if aside := results.set_aside_cut_off(run.id):
            say(f"{run.id} was cut off: set aside as {aside.name}, made again")
    done = sum(results.run(run.id).is_finished() for run in plan.runs)
    left = len(plan.runs) - done
    if left:
        calibrate_for(prepared)
    for note in machine_notes(plan):
        say(f"note: {note}")
    left_s = plan.expected_s * left / max(1, len(plan.runs))
    already = f", {done} already there" if done else ""
    say(f"{prepared.study.name}: {left} runs of {len(plan.cells)} cells, about {duration(left_s)}{already}")
    _keep_probes(prepared, results)
    with (
        runners(prepared.study, results, master=master) as new_runner,
        watching(left_s, left, plainly=hold) as watcher,
    ):
        seen = Holding(watcher, results) if hold else watcher
        make_runs(prepared.study, plan, results, watcher=seen, new_runner=new_runner)


def _keep_probes(prepared: Prepared, results: StudyDirectory) -> None:
    """Beside paper 001 the report has its Table I, which says what crosses between the nodes of each ensemble."""
    from brokerlab.lab.probe.keeping import keep_ensembles  # noqa: PLC0415 - as the load path

    def tell(driver: str, join: str, nodes: int) -> None:
        say(f"probe: what crosses between {nodes} nodes of {driver}, {join}")

    if any(name.startswith("001/") for name in prepared.study.present.beside):
        keep_ensembles(results.probes, prepared.plan.cells, before=tell)


def _clean() -> None:
    """What a killed brokerlab left takes cores and memory from the measurement."""
    leftovers, problems = remove_leftovers()
    for leftover in leftovers:
        say(f"{said(leftover)}: removed")
    for problem in problems:
        say(f"note: {problem}")


def _finish(prepared: Prepared, results: StudyDirectory, request: Request) -> ExitCode:
    if request.stop_after is StopAfter.RUNS:
        say(f"runs: {results.path / 'runs'}")
        return _code_of_runs(prepared.plan, results)
    confidence_percent = prepared.study.analysis.confidence_percent
    write_tables(results, confidence_percent=confidence_percent, master=request.master)
    code = print_outcome(results)
    say()
    if request.stop_after is StopAfter.TABLES:
        say(f"tables: {results.tables}")
    else:
        from brokerlab.report.report import write_report  # noqa: PLC0415 - loads the figures' library

        say(f"report: {write_report(results, drivers=known_drivers())}")
    return code


def _code_of_runs(plan: Plan, results: StudyDirectory) -> ExitCode:
    """From the verdicts of the runs alone; contracts are decided by the analysis."""
    verdicts = [results.run(run.id).manifest()["verdict"]["value"] for run in plan.runs]
    return ExitCode.VALID if all(verdict == "valid" for verdict in verdicts) else ExitCode.CHECK_FAILED


@contextmanager
def _told_when_interrupted(request: Request, plan: Plan, results: StudyDirectory) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        finished = sum(results.run(run.id).is_finished() for run in plan.runs)
        raise StoppedError(
            f"interrupted; {finished} of {len(plan.runs)} runs are finished",
            hint=f"resume with: {request.resume_command()}",
        ) from None
