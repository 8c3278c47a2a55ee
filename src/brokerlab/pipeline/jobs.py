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
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerlab import inventory
from brokerlab.errors import UserError
from brokerlab.inventory import Thing
from brokerlab.pipeline.columns import place_among
from brokerlab.pipeline.manifests import RunFacts, manifests_table, places_tables, read_runs
from brokerlab.pipeline.schemas import CELL_PLACES, MANIFESTS, PARTIALS, RUN_PLACES, TABLES
from brokerlab.pipeline.sources import read_back, read_partials, write
from brokerlab.pipeline.tables import TABLE_NAMES, read_table
from brokerlab.pipeline.transforms import family
from brokerlab.pipeline.transforms.capacity import capacity_table
from brokerlab.pipeline.transforms.cells import METRICS, cells_table, run_values
from brokerlab.pipeline.transforms.counters import counters_table
from brokerlab.pipeline.transforms.delivery import delivery_table
from brokerlab.pipeline.transforms.jitter import jitter_table
from brokerlab.pipeline.transforms.latency import histogram_table, latency_table
from brokerlab.pipeline.transforms.runs import runs_table
from brokerlab.pipeline.transforms.sessions import sessions_table
from brokerlab.pipeline.transforms.subscribers import subscribers_table
from brokerlab.pipeline.transforms.throughput import throughput_table
from brokerlab.pipeline.transforms.timeline import timeline_table
from brokerlab.pipeline.transforms.usage import resources_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.stats.interval import t_factor

Say = Callable[[str], None]

_WORKSHOP = ".analysis"  # below tables/; whatever is in it is ours to remove
_COUNTS = (
    "received",
    "received_bytes",
    "sent",
    "sent_bytes",
    "dropped",
    "connections",
    "subscriptions",
    "retained",
    "queued",
)
_PHASES = ("idle", "connect", "subscribe", "warmup", "measure", "drain", "teardown")
_EVENTS = ("tcp", "connack", "suback", "disconnect")


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
        say(f"reading the raw files of {len(facts)} runs")
        write(read_partials(spark, facts), folder / "partials")
        tables = _Tables(spark, facts, folder, say)
        tables.make(read_back(spark, folder / "partials", PARTIALS), confidence_percent=confidence_percent)
        _put_in_place(folder, results)
    return _summary(results, problems)


class _Tables:
    """The tables of one analysis on their way to the workshop's folder."""

    def __init__(self, spark: SparkSession, facts: Sequence[RunFacts], folder: Path, say: Say) -> None:
        self._spark, self._facts, self._folder, self._say = spark, facts, folder, say
        run_places, cell_places = places_tables(facts)
        self._run_places = spark.createDataFrame(run_places, schema=RUN_PLACES)
        self._cell_places = spark.createDataFrame(cell_places, schema=CELL_PLACES)

    def make(self, partials: DataFrame, *, confidence_percent: float) -> None:
        """Writes every table once; a later one reads what an earlier one wrote instead of computing it again."""
        manifests = self._spark.createDataFrame(manifests_table(self._facts), schema=MANIFESTS)
        readable = self._readable(partials)
        runs = self._save("runs", runs_table(manifests, partials=partials))
        delivery = self._save("delivery", delivery_table(partials, runs=readable))
        latency = self._save("latency", latency_table(partials, runs=readable))
        self._save("histogram", histogram_table(partials, runs=readable))
        throughput = self._save("throughput", throughput_table(partials, runs=readable))
        self._save("timeline", timeline_table(partials, runs=readable))
        jitter = self._save("jitter", jitter_table(partials, runs=readable))
        self._save("subscribers", subscribers_table(partials, runs=readable))
        self._save("sessions", sessions_table(partials, runs=readable))
        self._save("capacity", capacity_table(partials, runs=readable))
        resources = self._save("resources", resources_table(partials, runs=readable, throughput=throughput))
        self._save("counters", counters_table(partials, runs=readable))
        values = run_values(
            latency=latency, delivery=delivery, throughput=throughput, jitter=jitter, resources=resources, runs=runs
        )
        factors = self._t_factors(confidence_percent)
        cells = cells_table(values, runs=runs, t_factors=factors, confidence_percent=confidence_percent)
        self._save("cells", cells)

    def _readable(self, partials: DataFrame) -> DataFrame:
        """One row of MANIFESTS per run without a damaged file; found out once and not once a table."""
        damaged = {row.run_id for row in family(partials, "problem").select("run_id").collect()}
        facts = [run for run in self._facts if run.run_id not in damaged]
        return self._spark.createDataFrame(manifests_table(facts), schema=MANIFESTS)

    def _save(self, name: str, table: DataFrame) -> DataFrame:
        self._say(f"table {name}")
        path = self._folder / "tables" / name
        write(self._in_order(name, table), path)
        return read_back(self._spark, path, TABLES[name])

    def _in_order(self, name: str, table: DataFrame) -> DataFrame:
        """The table as one sorted file: a reader without Spark gets its rows in an order that means something."""
        places, key = (self._cell_places, "cell") if name == "cells" else (self._run_places, "run_id")
        placed = table.join(F.broadcast(places), on=key, how="left")
        return placed.coalesce(1).sortWithinPartitions(*_row_order(name)).select(*TABLES[name].names)

    def _t_factors(self, confidence_percent: float) -> dict[int, float]:
        most = max(Counter(run.row["cell"] for run in self._facts).values())
        return {n: t_factor(n, confidence_percent=confidence_percent) for n in range(2, most + 1)}


def _row_order(name: str) -> list[Column | str]:
    """By run or cell, and within it as a reader would list the rows."""
    within: dict[str, list[Column | str]] = {
        "delivery": ["qos_asked", "qos_granted"],
        "latency": ["kind", "group"],
        "histogram": ["kind", "group", "bucket"],
        "throughput": [F.desc("window")],
        "timeline": ["second"],
        "jitter": ["subscriber", "publisher"],
        "subscribers": ["subscriber"],
        "sessions": [place_among("event", _EVENTS), "event"],
        "capacity": ["trial"],
        "resources": ["node", place_among("phase", _PHASES), "phase"],
        "counters": ["node", place_among("count", _COUNTS), "name"],
        "cells": [place_among("metric", list(METRICS))],
    }
    return ["order", "position"] if name == "runs" else ["position", *within[name]]


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
