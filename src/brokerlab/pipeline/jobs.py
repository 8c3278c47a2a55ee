"""Read, transform, write: the only place where the three meet.

raw files ──► partials, written once ──► the tables, written aside ──► put in place together
"""

import fcntl
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerlab import inventory
from brokerlab.errors import UserError
from brokerlab.inventory import Thing
from brokerlab.pipeline.finished import FinishedTables
from brokerlab.pipeline.known import KnownPartials
from brokerlab.pipeline.manifests import RunFacts, filled_columns, manifests_table, places_of, read_runs
from brokerlab.pipeline.schemas import TABLES, arrow_schema
from brokerlab.pipeline.schemas.captured import FOLLOWED, MATCHED, TAPS
from brokerlab.pipeline.schemas.families import FAMILIES
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.sources import read_back, read_partials, small_frame, write
from brokerlab.pipeline.tables import TABLE_NAMES, read_table
from brokerlab.pipeline.transforms import Analysis, Captures
from brokerlab.record.bundle import tables_as_packed
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.nearest import listed

Say = Callable[[str], None]

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_WORKSHOP = ".analysis"  # below tables/; whatever is in it is ours to remove


@dataclass(frozen=True, slots=True)
class AnalysisSummary:
    """What an analysis found."""

    runs: int
    valid: int
    invalid: int
    collapsed: int
    problems: tuple[str, ...]  # run directories that are in no table, because their manifest cannot be read
    as_packed: tuple[str, ...] = ()  # tables that came with a bundle of histograms, which cannot make them again


def analyze(
    spark: SparkSession, results: StudyDirectory, *, confidence_percent: float = 95, notify: Say | None = None
) -> AnalysisSummary:
    """Makes all tables of a study from its run directories; a failure leaves the old tables as they were.

    All runs whose raw files can be read are in the tables; only valid ones are in the cells' means.
    """
    if not 0 < confidence_percent < 100:
        raise UserError(f"a confidence of {confidence_percent} % is not between 0 and 100 %")
    facts, problems = read_runs(results)
    if not facts:
        raise _nothing_to_analyze(results, problems)
    say = notify or (lambda _: None)
    with _workshop(results) as folder:
        kept = _kept_tables(results)
        partials = _partials(spark, results, facts, folder, say)
        _make_tables(spark, facts, partials, folder, confidence_percent=confidence_percent, kept=kept, say=say)
        _put_in_place(folder, results)
    return _summary(results, problems)


def _kept_tables(results: StudyDirectory) -> dict[str, pa.Table]:
    """The tables of a bundle of histograms that only the raw files could give."""
    names = [name for name in tables_as_packed(results) if name in TABLE_NAMES]
    gone = [name for name in names if not results.table(name).is_dir()]
    if gone:
        raise UserError(
            f"{results.path}: raw files were not packed, and the tables that came instead are gone: {listed(gone)}",
            hint="unpack the bundle again",
        )
    return {name: read_table(results, name).cast(arrow_schema(TABLES[name].columns)) for name in names}


def _partials(
    spark: SparkSession, results: StudyDirectory, facts: Sequence[RunFacts], folder: Path, say: Say
) -> DataFrame:
    """The partial results of all runs: read from raw files where they are not known yet."""
    known = KnownPartials(results)
    if known.note:
        say(known.note)
    new = known.missing(facts)
    others = f"; {len(facts) - len(new)} are known" if len(new) < len(facts) else ""
    say(f"reading the raw files of {len(new)} runs{others}")
    if new:
        write(read_partials(spark, new), folder / "partials")
        known.add(folder / "partials", new)
    return known.read(spark, folder)


def _make_tables(
    spark: SparkSession,
    facts: Sequence[RunFacts],
    partials: DataFrame,
    folder: Path,
    *,
    confidence_percent: float,
    kept: Mapping[str, pa.Table],
    say: Say,
) -> None:
    """Writes every table once; a later one is made of what an earlier one came to instead of computing it again."""
    finished = FinishedTables(spark, folder / "tables", places_of(facts))
    filled, damaged = _contents(partials)
    readable = [run for run in facts if run.run_id not in damaged]
    analysis = Analysis(
        partials=partials,
        manifests=spark.createDataFrame(manifests_table(facts), schema=MANIFESTS),
        runs=spark.createDataFrame(manifests_table(readable), schema=MANIFESTS),
        tables=finished,
        filled=filled | filled_columns(readable),
        confidence_percent=confidence_percent,
        most_runs=max(Counter(run.row["cell"] for run in facts).values()),
        captures=_captures(spark, facts, folder, say),
    )
    with _interpreted(spark) if analysis.captures is None else nullcontext():
        for name in TABLE_NAMES:
            say(f"table {name}" + (", as it was packed" if name in kept else ""))
            if name in kept:
                finished.keep(name, kept[name])
                continue
            finished.add(name, import_module(f"brokerlab.pipeline.transforms.{name}").make(analysis))


@contextmanager
def _interpreted(spark: SparkSession) -> Iterator[None]:
    """Plans are interpreted meanwhile: compiling them costs more than half of the time where partials are few.

    Rows of captures are many, and worth the compiling.
    """
    before = {name: spark.conf.get(name) for name in _INTERPRETED}
    _configure(spark, _INTERPRETED)
    try:
        yield
    finally:
        _configure(spark, before)


def _configure(spark: SparkSession, values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is not None:
            spark.conf.set(name, value)


def _contents(partials: DataFrame) -> tuple[frozenset[str], frozenset[str]]:
    """The families that have rows, and the runs with a damaged file; found out once and not once a table."""
    (found,) = partials.agg(
        *(F.count(name).alias(name) for name in FAMILIES),
        F.collect_set(F.when(F.col("problem").isNotNull(), F.col("run_id"))).alias("damaged"),
    ).collect()
    return frozenset(name for name in FAMILIES if found[name]), frozenset(found["damaged"])


def _captures(spark: SparkSession, facts: Sequence[RunFacts], folder: Path, say: Say) -> Captures | None:
    """What the runs' captures come to; without any, nothing of what reads them is even loaded."""
    if not any((run.directory.path / "traffic").is_dir() for run in facts):
        return None
    reading = import_module("brokerlab.pipeline.capture.reading")
    if not (taps := reading.taps_of_runs(facts)):
        return None
    say(f"reading {len(taps)} captures")
    write(reading.read_captures(spark, taps), folder / "followed")
    followed = read_back(spark, folder / "followed", FOLLOWED)
    write(reading.match_messages(followed), folder / "matched")
    return Captures(
        taps=small_frame(spark, [tap.row() for tap in taps], TAPS),
        followed=followed,
        matched=read_back(spark, folder / "matched", MATCHED),
    )


@contextmanager
def _workshop(results: StudyDirectory) -> Iterator[Path]:
    """An empty folder beside the tables that nobody else uses, removed at the end with all that is in it."""
    try:
        results.tables.mkdir(exist_ok=True)
        lock = os.open(results.tables, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as problem:
        raise UserError(f"{results.tables}: tables cannot be written there: {problem.strerror}") from problem
    folder = results.tables / _WORKSHOP
    try:
        _hold(lock, results)
        shutil.rmtree(folder, ignore_errors=True)  # of an analysis that was killed
        with inventory.noted(Thing("folder", str(folder.absolute()))):
            try:
                (folder / "tables").mkdir(parents=True)
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _hold(lock: int, results: StudyDirectory) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        raise UserError(f"{results.path}: another analysis is at work there", hint="wait until it is done") from problem


def _put_in_place(folder: Path, results: StudyDirectory) -> None:
    """Moves the finished tables to their names; the old ones go with the workshop."""
    old = folder / "old"
    old.mkdir()
    for name in TABLE_NAMES:
        if results.table(name).exists():
            results.table(name).rename(old / name)
        (folder / "tables" / name).rename(results.table(name))


def _summary(results: StudyDirectory, problems: Sequence[str]) -> AnalysisSummary:
    verdicts = Counter(read_table(results, "runs").column("verdict").to_pylist())
    return AnalysisSummary(
        runs=verdicts.total(),
        valid=verdicts["valid"],
        invalid=verdicts["invalid"],
        collapsed=verdicts["collapsed"],
        problems=tuple(problems),
        as_packed=tables_as_packed(results),
    )


def _nothing_to_analyze(results: StudyDirectory, problems: Sequence[str]) -> UserError:
    if problems:
        return UserError(f"{results.path}: no run can be read:\n" + "\n".join(problems))
    return UserError(f"{results.path}: there are no runs to analyze", hint="make some with `brokerlab run`")
