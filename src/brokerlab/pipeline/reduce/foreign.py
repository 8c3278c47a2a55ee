"""Deliveries of a foreign layout: in any file and any order, so they are sorted by Spark and then reduced as ours.

    files ──► rows, each with the number of its part ──► Spark sorts them ──► reduce/work.py, one part after the other

A part is all deliveries of some subscribers of one run; members of a shared group stay together.
Rows with the same time of arrival are put in the order of subscriber, publisher and seq.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from brokerlab.pipeline.manifests import RunFacts, read_facts
from brokerlab.pipeline.reduce.ledger import COLUMNS
from brokerlab.pipeline.reduce.raw import DamagedFileError, longs, read_file
from brokerlab.pipeline.reduce.work import partial, reduce_deliveries
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.families import SORTABLE
from brokerlab.record.directory import RunDirectory

ORDER = ("part", "received_ns", "subscriber", "publisher", "seq")

_BYTES_PER_PART = 32 * 2**20
_ROWS_AT_ONCE = 500_000
_SCHEMA = arrow_schema(SORTABLE)


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """One file of deliveries, and the parts that its run is spread over."""

    run_directory: str
    file: str
    first_part: int
    parts: int


def foreign_files(runs: Sequence[RunFacts]) -> tuple[list[ForeignFile], int]:
    """The delivery files of runs with a foreign layout, and how many parts they come to."""
    found: list[ForeignFile] = []
    total = 0
    for run in runs:
        files = run.directory.files("deliveries") if run.origin.is_foreign else []
        has_groups = any(subscription.group is not None for subscription in run.subscriptions)
        size = sum(path.stat().st_size for path in files)
        parts = 1 if has_groups else max(1, math.ceil(size / _BYTES_PER_PART))
        place = str(run.directory.path.resolve())
        found += [ForeignFile(place, str(path.resolve()), total, parts) for path in files]
        total += parts if files else 0
    return found, total


def read_rows(work: ForeignFile) -> Iterator[pa.RecordBatch]:
    """The rows of a file as batches of schemas.SORTABLE; a damaged file is one row that says so."""
    try:
        rows = read_file(Path(work.file), "deliveries", COLUMNS)
    except DamagedFileError as problem:
        row = {"run_directory": work.run_directory, "part": work.first_part, "problem": str(problem)}
        yield pa.RecordBatch.from_pylist([row], schema=_SCHEMA)
        return
    own = np.mod(longs(rows, "subscriber"), work.parts)
    columns = {
        **{name: rows.column(name) for name in COLUMNS},
        "run_directory": pa.repeat(pa.scalar(work.run_directory), rows.num_rows),
        "part": pa.array(own + work.first_part, pa.int32()),
        "problem": pa.nulls(rows.num_rows, pa.string()),
    }
    yield from pa.table({name: columns[name] for name in _SCHEMA.names}, schema=_SCHEMA).to_batches(_ROWS_AT_ONCE)


class SortedParts:
    """Takes sorted rows of schemas.SORTABLE and gives the partial results of every part that is complete."""

    def __init__(self) -> None:
        self._rows: list[pa.Table] = []
        self._part: int | None = None

    def add(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        for part in pc.unique(rows.column("part")).to_pylist():
            if part != self._part:
                yield from self.finish()
                self._part = part
            self._rows.append(rows.filter(pc.equal(rows.column("part"), part)))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The results of the last part."""
        rows, self._rows = self._rows, []
        if rows:
            yield from _reduced(pa.concat_tables(rows))


def _reduced(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    run = read_facts(RunDirectory(Path(rows.column("run_directory")[0].as_py())))
    problems = pc.drop_null(rows.column("problem")).to_pylist()
    deliveries = rows.filter(pc.is_null(rows.column("problem"))).select(list(COLUMNS))
    try:
        yield from reduce_deliveries(run, lambda: _portions(deliveries))
    except DamagedFileError as problem:
        problems.append(str(problem))
    if problems:
        yield partial(run, "problem", {"reason": problems})


def _portions(deliveries: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, deliveries.num_rows, _ROWS_AT_ONCE):
        yield deliveries.slice(start, _ROWS_AT_ONCE)
