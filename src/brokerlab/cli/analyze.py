"""`brokerlab analyze`: the tables again, from the run directories."""

from typing import Annotated

import typer
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from brokerlab.cli.outcome import print_outcome
from brokerlab.cli.progress import steps
from brokerlab.cli.studies import ResultsArgument
from brokerlab.cli.terminal import warn
from brokerlab.errors import ExitCode, UserError
from brokerlab.pipeline.java import use_java
from brokerlab.pipeline.master import VARIABLE, master_of
from brokerlab.published.library import published
from brokerlab.quality.study import is_classification
from brokerlab.record.directory import StudyDirectory, open_results
from brokerlab.study.quantity import read_percent
from brokerlab.study.values import Analysis

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        envvar=VARIABLE,
        help="Where Spark runs: local[*], spark://HOST:PORT, yarn, k8s://URL or sc://HOST:PORT (Spark Connect).",
    ),
]


def analyze(directory: ResultsArgument, master: MasterOption = None) -> ExitCode:
    """Compute the tables of DIR again, with Spark.

    The runs are only read; what the tables say is printed, and decides the exit code.
    """
    results = open_results(directory)
    if is_classification(results.study):
        raise UserError(
            f"{results.path}: the tables of a classification are made of its sheets",
            hint=f"make them again with `brokerlab run {results.study} --out {results.path}`",
        )
    require_java(master)
    left_out = write_tables(results, confidence_percent=confidence_percent(results), master=master)
    outcome = print_outcome(results)
    return ExitCode.CHECK_FAILED if left_out and outcome is ExitCode.VALID else outcome


def require_java(master: str | None) -> None:
    """Behind Spark Connect the Java is somebody else's."""
    if master_of(master).needs_java:
        use_java()


def write_tables(results: StudyDirectory, *, confidence_percent: float, master: str | None = None) -> tuple[str, ...]:
    """Writes the tables; says which run directories are in none of them and why, and returns that."""
    # Spark takes seconds to load, and most commands do without it.
    from brokerlab.pipeline.beside import write_beside  # noqa: PLC0415
    from brokerlab.pipeline.jobs import analyze as analyze_runs  # noqa: PLC0415
    from brokerlab.pipeline.session import open_session  # noqa: PLC0415

    with steps("analysis") as step:
        step("starting Spark")
        with open_session(app="brokerlab", master=master) as spark:
            summary = analyze_runs(spark, results, confidence_percent=confidence_percent, notify=step)
            if names := beside(results):
                step("table published")
                write_beside(spark, results, names)
    if summary.as_packed:
        warn(f"not made again, because raw files were not packed; as they came: tables {', '.join(summary.as_packed)}")
    for problem in summary.problems:
        warn(f"left out: {problem}")
    return summary.problems


def confidence_percent(results: StudyDirectory) -> float:
    """What the study asked for; the default where the runs have no study file beside them."""
    if not results.study.exists():
        return Analysis().confidence_percent
    try:
        content = YAML(typ="safe", pure=True).load(results.study.read_text(encoding="utf-8"))
        return read_percent(content["analysis"]["confidence"])
    except (OSError, YAMLError, KeyError, TypeError, ValueError) as problem:
        raise UserError(f"{results.study}: analysis.confidence cannot be read: {problem}") from problem


def beside(results: StudyDirectory) -> list[str]:
    """The published tables that the study wants next to its own; none where there is no study file."""
    if not results.study.exists():
        return []
    try:
        content = YAML(typ="safe", pure=True).load(results.study.read_text(encoding="utf-8"))
    except (OSError, YAMLError) as problem:
        raise UserError(f"{results.study}: the study cannot be read: {problem}") from problem
    present = content.get("present") if isinstance(content, dict) else None
    names = present.get("beside") if isinstance(present, dict) else None
    return [published(str(name)).id for name in names or ()]
