"""Read, transform, write: the only place where the three meet.

raw files ──► partials, written once ──► the tables, written aside ──► put in place together
"""

import fcntl
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerlab import inventory
from brokerlab.errors import UserError
from brokerlab.inventory import Thing
from brokerlab.pipeline.columns import place_among
from brokerlab.pipeline.known import KnownPartials
from brokerlab.pipeline.manifests import RunFacts, manifests_table, places_tables, read_runs
from brokerlab.pipeline.schemas import TABLES
from brokerlab.pipeline.schemas.captured import FOLLOWED, MATCHED, TAPS
from brokerlab.pipeline.schemas.kinds import Among
from brokerlab.pipeline.schemas.manifests import CELL_PLACES, MANIFESTS, RUN_PLACES
from brokerlab.pipeline.sources import read_back, read_partials, small_frame, write
from brokerlab.pipeline.tables import TABLE_NAMES, read_table
from brokerlab.pipeline.transforms import Analysis, Captures, family
from brokerlab.record.directory import StudyDirectory

Say = Callable[[str], None]

_WORKSHOP = ".analysis"  # below tables/; whatever is in it is ours to remove


@dataclass(frozen=True, slots=True)
class AnalysisSummary:
    """What an analysis found."""

    runs: int
    valid: int
    invalid: int
    collapsed: int
    problems: tuple[str, ...]  # run directories that are in no table, because their manifest cannot be read


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
        partials = _partials(spark, results, facts, folder, say)
        tables = _Tables(spark, facts, folder, say)
        tables.make(partials, confidence_percent=confidence_percent)
        _put_in_place(folder, results)
    return _summary(results, problems)


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


class _Tables:
    """The tables of one analysis on their way to the workshop's folder."""

    def __init__(self, spark: SparkSession, facts: Sequence[RunFacts], folder: Path, say: Say) -> None:
        self._spark, self._facts, self._folder, self._say = spark, facts, folder, say
        run_places, cell_places = places_tables(facts)
        self._run_places = spark.createDataFrame(run_places, schema=RUN_PLACES)
        self._cell_places = spark.createDataFrame(cell_places, schema=CELL_PLACES)

    def make(self, partials: DataFrame, *, confidence_percent: float) -> None:
        """Writes every table once; a later one reads what an earlier one wrote instead of computing it again."""
        finished: dict[str, DataFrame] = {}
        analysis = Analysis(
            partials=partials,
            manifests=self._spark.createDataFrame(manifests_table(self._facts), schema=MANIFESTS),
            runs=self._readable(partials),
            tables=finished,
            confidence_percent=confidence_percent,
            most_runs=max(Counter(run.row["cell"] for run in self._facts).values()),
            captures=self._captures(),
        )
        for name in TABLE_NAMES:
            module = import_module(f"brokerlab.pipeline.transforms.{name}")
            finished[name] = self._save(name, module.make(analysis))

    def _captures(self) -> Captures | None:
        """What the runs' captures come to; without any, nothing of what reads them is even loaded."""
        if not any((run.directory.path / "traffic").is_dir() for run in self._facts):
            return None
        reading = import_module("brokerlab.pipeline.capture.reading")
        if not (taps := reading.taps_of_runs(self._facts)):
            return None
        self._say(f"reading {len(taps)} captures")
        write(reading.read_captures(self._spark, taps), self._folder / "followed")
        followed = read_back(self._spark, self._folder / "followed", FOLLOWED)
        write(reading.match_messages(followed), self._folder / "matched")
        return Captures(
            taps=small_frame(self._spark, [tap.row() for tap in taps], TAPS),
            followed=followed,
            matched=read_back(self._spark, self._folder / "matched", MATCHED),
        )

    def _readable(self, partials: DataFrame) -> DataFrame:
        """One row of MANIFESTS per run without a damaged file; found out once and not once a table."""
        damaged = {row.run_id for row in family(partials, "problem").select("run_id").collect()}
        facts = [run for run in self._facts if run.run_id not in damaged]
        return self._spark.createDataFrame(manifests_table(facts), schema=MANIFESTS)

    def _save(self, name: str, table: DataFrame) -> DataFrame:
        self._say(f"table {name}")
        path = self._folder / "tables" / name
        write(self._in_order(name, table), path)
        return read_back(self._spark, path, TABLES[name].columns)

    def _in_order(self, name: str, table: DataFrame) -> DataFrame:
        """The table as one sorted file: a reader without Spark gets its rows in an order that means something."""
        order = [place_among(by.column, by.values) if isinstance(by, Among) else F.col(by) for by in TABLES[name].order]
        return self._placed(table).coalesce(1).sortWithinPartitions(*order).select(*TABLES[name].columns.names)

    def _placed(self, table: DataFrame) -> DataFrame:
        """With the `position` of the row's run or cell, where it is about one."""
        for key, places in (("run_id", self._run_places), ("cell", self._cell_places)):
            if key in table.columns:
                return table.join(F.broadcast(places), on=key, how="left")
        return table


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
    )


def _nothing_to_analyze(results: StudyDirectory, problems: Sequence[str]) -> UserError:
    if problems:
        return UserError(f"{results.path}: no run can be read:\n" + "\n".join(problems))
    return UserError(f"{results.path}: there are no runs to analyze", hint="make some with `brokerlab run`")
