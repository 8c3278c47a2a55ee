"""The pipeline beside DuckDB: latency, ledger and jitter of the same raw files, on the same two cores, in one run.

The files are a study as the lab leaves it: runs of 2.5 million deliveries, three publishers to fifteen subscribers, in
order of arrival; one in a hundred thousand is lost, one duplicated.
Both give, per run, count, mean, standard deviation and six
quantiles of latency; expected, lost, duplicated and reordered; and per flow mean and standard deviation of the times
between arrivals. Counts must be equal, quantiles within a bucket. Spark's start, with a first small study, is not in
the time, and printed apart; the writing of the tables is. CPU time stands beside the time that passed, because the
machine may have had other things to do (cpu_time.py).
Twenty runs have deliveries of their own; those beyond share the raw files of the first twenty by hard links, so that
a study of a thousand million deliveries fits on a small disk. They are read and reduced like any other.

    python -m bench.analysis --million 50 --also 10 100       beside DuckDB at 50; ours alone at the others
    python -m bench.analysis --million 1000 --ours-only
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from bench.cpu_time import counting_group, cpu_s, join_group
from brokerlab import inventory
from brokerlab.pipeline.manifests import RunFacts, manifests_table, read_runs
from brokerlab.pipeline.schemas.families import PARTIALS
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.session import open_session
from brokerlab.pipeline.sources import read_back, read_partials, write
from brokerlab.pipeline.transforms.delivery import delivery_table
from brokerlab.pipeline.transforms.jitter import jitter_table
from brokerlab.pipeline.transforms.latency import latency_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.record.manifest import Manifest
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import RAW_SCHEMAS

PUBLISHERS, SUBSCRIBERS = 3, 15
PER_RUN = 2_500_000
DISTINCT_RUNS = 20
STEP_NS = 10_000
S = 1_000_000_000
ALL_THREE = "latency, ledger and jitter"
LATENCY = "latency alone"
OF_ARRIVALS = "latency; theirs with duplicates"
LIMITS = {ALL_THREE: "0.6", LATENCY: "1.3", OF_ARRIVALS: "-"}
CORES = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    cpu_s: float  # of all processes, those that have ended included; nan: no control group can be made here
    peak_mib: float  # of all below it

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.seconds + other.seconds, self.cpu_s + other.cpu_s, max(self.peak_mib, other.peak_mib))


@dataclass(frozen=True, slots=True)
class Timing:
    what: str
    million: float
    ours: Cost
    theirs: Cost | None  # None: not asked


def write_study(path: Path, *, deliveries: int) -> StudyDirectory:
    """Runs of PER_RUN deliveries each."""
    (path / "runs").mkdir(parents=True)
    study = StudyDirectory(path)
    for number in range(max(1, round(deliveries / PER_RUN))):
        if number < DISTINCT_RUNS:
            _write_run(study, number, deliveries=min(deliveries, PER_RUN))
        else:
            _link_run(study, number)
    return study


def _link_run(study: StudyDirectory, number: int) -> None:
    """A run with a manifest of its own and the raw files of one of the first."""
    run, same = (study.run(f"broker-x.run-{each}/1") for each in (number, number % DISTINCT_RUNS))
    for kind in ("publications", "deliveries"):
        run.raw(kind).mkdir(parents=True)
        for file in same.raw(kind).iterdir():
            os.link(file, run.raw(kind) / file.name)
    _write_manifest(run.manifest_path, number, end_ns=same.manifest()["phases"][2]["end_ns"])


def _write_run(study: StudyDirectory, number: int, *, deliveries: int) -> None:
    run = study.run(f"broker-x.run-{number}/1")
    run.path.mkdir(parents=True)
    random = np.random.default_rng(number)
    messages = deliveries // SUBSCRIBERS // PUBLISHERS * PUBLISHERS
    order = np.arange(messages)
    publisher, seq, intended = order % PUBLISHERS, order // PUBLISHERS, 2 * S + order * STEP_NS
    end_ns = int(intended[-1]) + STEP_NS
    for own in range(PUBLISHERS):
        mine = publisher == own
        _write_rows(
            run.raw("publications"),
            f"publishers-{own}",
            "publications",
            publisher=publisher[mine],
            seq=seq[mine],
            topic=pa.array([f"t/{own}"]).take(pa.array(np.zeros(mine.sum(), np.int32))),
            intended_ns=intended[mine],
            sent_ns=intended[mine] + 1000,
        )
    subscriber, message = np.repeat(np.arange(SUBSCRIBERS), messages), np.tile(order, SUBSCRIBERS)
    dice = random.random(message.size)
    times = np.where(dice < 1e-5, 0, np.where(dice > 1 - 1e-5, 2, 1))
    subscriber, message = np.repeat(subscriber, times), np.repeat(message, times)
    received = intended[message] + random.lognormal(13.5, 0.6, message.size).astype(np.int64)
    by_arrival = np.argsort(received, kind="stable")
    subscriber, message, received = subscriber[by_arrival], message[by_arrival], received[by_arrival]
    _write_rows(
        run.raw("deliveries"),
        "subscribers-0",
        "deliveries",
        subscriber=subscriber,
        publisher=publisher[message],
        seq=seq[message],
        intended_ns=intended[message],
        received_ns=received,
        resolution_ns=np.full(message.size, 50_000),
    )
    _write_manifest(run.manifest_path, number, end_ns=end_ns)


def _write_rows(folder: Path, worker: str, kind: str, **columns: object) -> None:
    schema = RAW_SCHEMAS[kind]
    rows = len(columns["seq"])  # type: ignore[arg-type]
    plain = {"qos": 0, "retain": False, "dup": False, "payload_bytes": 64}
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(pa.array(columns[field.name]).cast(field.type))
        elif field.name in plain:
            arrays.append(pa.array(np.full(rows, plain[field.name])).cast(field.type))
        else:
            arrays.append(pa.nulls(rows, field.type))
    writer = PartWriter(folder, worker, schema)
    for batch in pa.table(arrays, schema=schema).to_batches(max_chunksize=100_000):
        writer.write(batch)
    writer.close()


def _write_manifest(path: Path, number: int, *, end_ns: int) -> None:
    phases = {"connect": (0, S), "warmup": (S, 2 * S), "measure": (2 * S, end_ns), "drain": (end_ns, end_ns + S)}
    clients = {
        "publishers": [{"publisher": each, "topic": f"t/{each}"} for each in range(PUBLISHERS)],
        "subscribers": [{"subscriber": each, "filter": "t/#", "granted_qos": 0} for each in range(SUBSCRIBERS)],
    }
    manifest = Manifest(path)
    manifest.add("run", {"cell": f"broker-x.run-{number}", "repetition": 1, "order": number, "levels": {"broker": "x"}})
    topics = {"publish": "t/{publisher}", "subscribe": "t/#"}
    manifest.add("workload", {"publishers": PUBLISHERS, "subscribers": SUBSCRIBERS, "qos": 0, "topics": topics})
    manifest.add("broker", {"name": "x", "driver": "x"})
    manifest.add("clients", clients)
    manifest.add("phases", [{"name": name, "start_ns": a, "end_ns": b} for name, (a, b) in phases.items()])
    manifest.add("verdict", {"value": "valid", "reasons": []})


_LATENCY = (
    "select filename, count(*), avg(ms), stddev(ms), min(ms), max(ms), "
    "approx_quantile(ms, [.5, .9, .95, .99, .999, .9999]) "
    "from (select filename, (received_ns - intended_ns) / 1e6 ms from {of}) group by filename order by filename"
)


class Theirs:
    """The same in SQL, as DuckDB would have it."""

    def __init__(self, study: StudyDirectory) -> None:
        self._connection = duckdb.connect()
        self._connection.execute(f"set threads={CORES}")
        runs = study.path / "runs"
        self._deliveries = f"read_parquet('{runs}/*/1/deliveries/*.parquet', filename=true)"
        self._publications = f"read_parquet('{runs}/*/1/publications/*.parquet', filename=true)"

    def latency(self) -> list[tuple[object, ...]]:
        """Of all arrivals: less than our table."""
        return self._rows(_LATENCY.format(of=self._deliveries))

    def first_latency(self) -> list[tuple[object, ...]]:
        """As our table has it: of first arrivals, so that a duplicate has no latency of its own."""
        first = (
            "select filename, subscriber, publisher, seq, any_value(intended_ns) intended_ns, "
            f"min(received_ns) received_ns from {self._deliveries} group by filename, subscriber, publisher, seq"
        )
        return self._rows(_LATENCY.format(of=f"({first})"))

    def ledger(self) -> list[tuple[object, ...]]:
        expected = (
            f"select split_part(filename, '/publications/', 1) run, count(*) * {SUBSCRIBERS} expected "
            f"from {self._publications} where sent_ns is not null group by run"
        )
        before = (
            "max(seq) over (partition by filename, subscriber, publisher order by received_ns "
            "rows between unbounded preceding and 1 preceding)"
        )
        seen = (
            "select split_part(filename, '/deliveries/', 1) run, sum(n) n, sum(u) u, sum(r) reordered from ("
            "select filename, subscriber, publisher, count(*) n, count(distinct seq) u, count_if(seq < before) r "
            f"from (select filename, subscriber, publisher, seq, {before} before from {self._deliveries}) "
            "group by all) group by run"
        )
        return self._rows(
            f"select run, expected, expected - u lost, n - u duplicated, reordered from ({expected}) "
            f"join ({seen}) using (run) order by run"
        )

    def jitter(self) -> list[tuple[object, ...]]:
        gap = "received_ns - lag(received_ns) over (partition by filename, subscriber, publisher order by received_ns)"
        return self._rows(
            "select filename, subscriber, publisher, count(*), avg(gap) / 1e6, stddev(gap) / 1e6 from "
            f"(select filename, subscriber, publisher, {gap} gap from {self._deliveries}) group by all"
        )

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = self._connection.execute(query).fetchall()
        return found


class Ours:
    """The pipeline as `brokerlab analyze` runs it, with three of its tables."""

    def __init__(self, spark: SparkSession, study: StudyDirectory, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        facts, problems = read_runs(study)
        assert not problems, problems
        self._facts: list[RunFacts] = facts
        self._round = 0

    def tables(self, names: tuple[str, ...]) -> dict[str, list[dict[str, object]]]:
        self._round += 1
        folder = self._folder / f"round-{self._round}"
        folder.mkdir()
        write(read_partials(self._spark, self._facts), folder / "partials")
        partials = read_back(self._spark, folder / "partials", PARTIALS)
        runs = self._spark.createDataFrame(manifests_table(self._facts), schema=MANIFESTS)
        make: dict[str, Callable[..., DataFrame]] = {
            "latency": latency_table,
            "delivery": delivery_table,
            "jitter": jitter_table,
        }
        for name in names:
            write(make[name](partials, runs=runs).coalesce(1), folder / name)
        return {name: duckdb.read_parquet(f"{folder / name}/*.parquet").to_arrow_table().to_pylist() for name in names}


def compare(spark: SparkSession, *, deliveries: int, is_theirs_too: bool) -> list[Timing]:
    with inventory.temporary_folder("brokerlab-bench-") as folder:
        started = time.perf_counter()
        study = write_study(folder / "study", deliveries=deliveries)
        print(f"{deliveries:,} deliveries written after {time.perf_counter() - started:.0f} s", flush=True)
        ours, million = Ours(spark, study, folder), deliveries / 1e6
        ours_of_all, made = _timed(lambda: ours.tables(("latency", "delivery", "jitter")))
        if not is_theirs_too:
            return [Timing(ALL_THREE, million, ours_of_all, None)]
        theirs = Theirs(study)
        of_arrivals, _ = _timed(theirs.latency)
        of_latency, latency = _timed(theirs.first_latency)
        of_ledger, ledger = _timed(theirs.ledger)
        of_jitter, jitter = _timed(theirs.jitter)
        _check(made, latency, ledger, jitter)
        ours_of_latency, _ = _timed(lambda: ours.tables(("latency",)))
        return [
            Timing(ALL_THREE, million, ours_of_all, of_arrivals + of_ledger + of_jitter),
            Timing(LATENCY, million, ours_of_latency, of_latency),
            Timing(OF_ARRIVALS, million, ours_of_latency, of_arrivals),
        ]


def _check(made: dict, latency: list, ledger: list, jitter: list) -> None:  # type: ignore[type-arg]
    """Both did the same work: counts to the last message, quantiles within a bucket."""
    ours = sorted((row for row in made["latency"] if row["kind"] == "intended"), key=lambda row: row["run_id"])
    theirs = sorted(latency)
    assert [(row["n"], row["max_ms"]) for row in ours] == [(row[1], row[5]) for row in theirs]
    apart = [abs(row["p50_ms"] / other[6][0] - 1) for row, other in zip(ours, theirs, strict=True)]
    assert max(apart) < 0.03, f"medians differ by {max(apart):.1%}"  # a bucket, and their own approximation
    counts = sorted((row["run_id"], row["expected"], row["lost"], row["duplicated"]) for row in made["delivery"])
    assert [row[1:] for row in counts] == [row[1:4] for row in sorted(ledger)], (counts, ledger)
    assert len(made["jitter"]) == len(jitter)


def _timed(work: Callable[[], T]) -> tuple[Cost, T]:
    with _memory() as peaks:
        before, started = cpu_s(), time.perf_counter()
        found = work()
        seconds, used_s = time.perf_counter() - started, cpu_s() - before
    return Cost(seconds, used_s, max(peaks, default=0.0)), found


def run(million: float, *, also: Sequence[float] = (), is_theirs_too: bool = True) -> None:
    """The comparison, in a process of its own: only that can be in the group, and gone when the group is removed."""
    words = ["--million", str(million), *(["--also", *map(str, also)] if also else [])]
    words += [] if is_theirs_too else ["--ours-only"]
    with counting_group() as env:
        subprocess.run([sys.executable, "-m", "bench.analysis", "--inside", *words], env=env, check=True)


@contextmanager
def _memory() -> Iterator[list[float]]:
    """The memory of Java and of the Python workers, each at its largest."""
    done, peaks = threading.Event(), [0.0]

    def watch() -> None:
        me = psutil.Process()
        while not done.wait(0.25):
            alive = [child for child in me.children(recursive=True) if child.is_running()]
            try:
                peaks.append(sum(child.memory_info().rss for child in alive) / 2**20)
            except psutil.NoSuchProcess:
                continue

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()


def run_inside(million: float, *, also: Sequence[float] = (), is_theirs_too: bool = True) -> None:
    """The comparison at one size, and ours alone at others: whether time grows with the data."""
    join_group()
    timings: list[Timing] = []
    started = time.perf_counter()
    with open_session(app="brokerlab-bench", master=f"local[{CORES}]") as spark:
        with inventory.temporary_folder("brokerlab-bench-") as folder:
            first = Ours(spark, write_study(folder / "study", deliveries=100_000), folder)
            first.tables(("latency", "delivery", "jitter"))
        print(f"Spark's start and a first small study: {time.perf_counter() - started:.0f} s", flush=True)
        for size in sorted((million, *also)):
            beside = is_theirs_too and size == million
            timings += compare(spark, deliveries=round(size * 1e6), is_theirs_too=beside)
            show(timings)


def show(timings: list[Timing]) -> None:
    table = Table(title=f"Raw files to tables on {CORES} cores, beside DuckDB {duckdb.__version__}")
    headings = ("deliveries", "tables", "ours s", "DuckDB s", "ratio", "limit", "CPU s", "DuckDB CPU s", "ratio of CPU")
    for heading in (*headings, "time, of proportion", "peak MiB"):
        table.add_column(heading, justify="left" if heading == "tables" else "right")
    for each in timings:
        ours, theirs = each.ours, each.theirs
        table.add_row(
            f"{each.million:g} M", each.what, f"{ours.seconds:.1f}",
            *(_beside(each.what, ours, theirs) if theirs else ("-",) * 3),
            f"{ours.cpu_s:.1f}",
            *((f"{theirs.cpu_s:.1f}", f"{ours.cpu_s / theirs.cpu_s:.2f}") if theirs else ("-",) * 2),
            _growth(timings, each), f"{ours.peak_mib:,.0f}",
        )  # fmt: skip
    Console(width=150).print(table)


def _beside(what: str, ours: Cost, theirs: Cost) -> tuple[str, str, str]:
    return f"{theirs.seconds:.1f}", f"{ours.seconds / theirs.seconds:.2f}", LIMITS[what]


def _growth(timings: list[Timing], of: Timing) -> str:
    """The time of the next smaller size, in proportion to the deliveries, is 1."""
    smaller = [each for each in timings if each.what == of.what and each.million < of.million]
    if not smaller:
        return "-"
    before = max(smaller, key=lambda each: each.million)
    return f"{of.ours.seconds / before.ours.seconds / (of.million / before.million):.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--million", type=float, default=50)
    parser.add_argument("--also", type=float, nargs="*", default=(), help="other sizes, ours alone")
    parser.add_argument("--ours-only", action="store_true", help="without DuckDB")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    (run_inside if chosen.inside else run)(chosen.million, also=chosen.also, is_theirs_too=not chosen.ours_only)
