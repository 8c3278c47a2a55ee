"""Spark's door to files: the raw files become partial results inside its tasks, and tables are read and written.

A frame of pieces of work, one partition per bundle, goes through an Arrow table function, which is a thin
shell around reduce/work.py. (`mapInArrow` would do the same, but asks for pandas, which nothing else of ours
needs; a Python data source starts three more Python processes only to be planned.)
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from brokerlab.pipeline.manifests import RunFacts, read_facts
from brokerlab.pipeline.reduce.foreign import ORDER, ForeignFile, SortedParts, foreign_files, read_rows
from brokerlab.pipeline.reduce.raw import DamagedFileError
from brokerlab.pipeline.reduce.traces import trace_rows
from brokerlab.pipeline.reduce.work import Work, bundles_of, pieces_of, reduce_work
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.families import FOREIGN_FILE, PARTIALS, SORTABLE, WORK
from brokerlab.pipeline.schemas.traces import MOST_OF_A_FLOW, TABLE, TRACES
from brokerlab.record.directory import RunDirectory

_FEWEST_TASKS = 8  # some more than a small machine's cores, so that they end together
_BYTES_PER_TASK = 64 * 2**20


class ReadForeign:
    """The table function that reads files of a foreign layout, row by row."""

    def eval(self, work: pa.RecordBatch) -> Iterator[pa.Table]:
        for row in work.to_pylist():
            for batch in read_rows(ForeignFile(**row)):
                yield pa.Table.from_batches([batch])


class ReduceSorted:
    """The table function that reduces rows of a foreign layout, when Spark has sorted them."""

    def __init__(self) -> None:
        self._parts = SortedParts()

    def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        for batch in self._parts.add(pa.Table.from_batches([rows])):
            yield pa.Table.from_batches([batch])

    def terminate(self) -> Iterator[pa.Table]:
        for batch in self._parts.finish():
            yield pa.Table.from_batches([batch])


class ReduceWork:
    """The table function; its rows of work come in batches and its partial results leave in batches."""

    def eval(self, work: pa.RecordBatch) -> Iterator[pa.Table]:
        for row in work.to_pylist():
            run = read_facts(RunDirectory(Path(row["run_directory"])))
            for batch in reduce_work(Work(run, tuple(row["deliveries"]))):
                yield pa.Table.from_batches([batch])


class TraceRuns:
    """The table function that lists the messages of runs; one with a damaged file is told of by the analysis."""

    def eval(self, work: pa.RecordBatch) -> Iterator[pa.Table]:
        for row in work.to_pylist():
            run = read_facts(RunDirectory(Path(row["run_directory"])))
            with suppress(DamagedFileError):
                rows = [{**each, "cell": run.row["cell"]} for each in trace_rows(run, most=MOST_OF_A_FLOW)]
                yield pa.Table.from_pylist(rows, schema=arrow_schema(TRACES))


def read_traces(spark: SparkSession, runs: Sequence[RunFacts]) -> DataFrame:
    """The table `traces` of the runs, from their raw files."""
    frame = spark.createDataFrame(_work_table([[Work(run)] for run in runs]), schema=WORK)
    traced: Any = F.arrow_udtf(TraceRuns, returnType=TRACES)
    traces: DataFrame = traced(frame.repartition(min(len(runs), _FEWEST_TASKS)).asTable())
    return traces.coalesce(1).sortWithinPartitions(*TABLE.grain)


def read_partials(spark: SparkSession, runs: Sequence[RunFacts]) -> DataFrame:
    """The partial results of the runs, computed anew by every action on the frame: write them once."""
    work = [piece for run in runs for piece in pieces_of(run)]
    tasks = max(_FEWEST_TASKS, math.ceil(sum(piece.size_bytes for piece in work) / _BYTES_PER_TASK))
    bundles = bundles_of(work, count=tasks)
    frame = spark.createDataFrame(_work_table(bundles), schema=WORK)
    reduced: Any = F.arrow_udtf(ReduceWork, returnType=PARTIALS)  # typed as a decorator only
    partials: DataFrame = reduced(frame.repartitionById(len(bundles), "bundle").asTable())
    sorted_first = _read_foreign(spark, runs)
    return partials if sorted_first is None else partials.unionByName(sorted_first)


def _read_foreign(spark: SparkSession, runs: Sequence[RunFacts]) -> DataFrame | None:
    """The partial results of deliveries that lie in no order of ours; None where there are none."""
    files, parts = foreign_files(runs)
    if not files:
        return None
    table = pa.Table.from_pylist([asdict(file) for file in files], schema=arrow_schema(FOREIGN_FILE))
    read: Any = F.arrow_udtf(ReadForeign, returnType=SORTABLE)
    reduced: Any = F.arrow_udtf(ReduceSorted, returnType=PARTIALS)
    rows: DataFrame = read(spark.createDataFrame(table, schema=FOREIGN_FILE).repartition(len(files), "file").asTable())
    in_order: DataFrame = reduced(rows.repartitionById(parts, "part").sortWithinPartitions(*ORDER).asTable())
    return in_order


def _work_table(bundles: Sequence[Sequence[Work]]) -> pa.Table:
    rows = [
        {"bundle": number, "run_directory": str(work.run.directory.path.resolve()), "deliveries": list(work.deliveries)}
        for number, bundle in enumerate(bundles)
        for work in bundle
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(WORK))


def small_frame(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: T.StructType) -> DataFrame:
    """A few rows as one partition: nothing that is made of it alone is ever shuffled."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(schema))
    return spark.createDataFrame(table, schema=schema).coalesce(1)


def read_back(spark: SparkSession, path: Path, schema: T.StructType) -> DataFrame:
    """A frame that a job has written."""
    literal = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.resolve()))  # Spark takes paths for patterns
    return spark.read.schema(schema).parquet(f"file:{literal}")


def write(frame: DataFrame, path: Path) -> None:
    """Writes a frame to a folder that does not exist yet."""
    frame.write.parquet(f"file:{path.resolve()}")
