"""Whole raw files as Arrow tables, only the columns asked for; a damaged file is named."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from brokerlab.record.schemas import RAW_SCHEMAS

Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOT_TOLD = -1  # a resolution that the source of a run does not tell


class DamagedFileError(Exception):
    """A raw file that cannot be read, or does not hold what its schema promises; the text names the file."""


def read_files(files: Iterable[str], kind: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """One table per file, in the order given."""
    for file in files:
        yield read_file(Path(file), kind, columns)


def read_file(path: Path, kind: str, columns: Sequence[str]) -> pa.Table:
    """The columns of one raw file, in the types of its schema; null where an older file lacks one that may be null."""
    promised = pa.schema([RAW_SCHEMAS[kind].field(column) for column in columns])
    name = f"{path.parent.name}/{path.name}"
    try:
        # Not pq.read_table: it takes folders called key=value for columns. One file, one thread: Spark has the cores.
        # The cast also refuses nulls where the schema allows none.
        file = pq.ParquetFile(path)
        table = file.read(columns=list(columns), use_threads=False)
        for column in set(columns) - set(file.schema_arrow.names):
            if promised.field(column).nullable:
                table = table.append_column(column, pa.nulls(table.num_rows))
        return table.select(columns).cast(promised)
    except (pa.ArrowException, OSError, KeyError, ValueError) as problem:
        raise DamagedFileError(f"{name} cannot be read: {str(problem).splitlines()[0]}") from problem


def longs(table: pa.Table, column: str) -> Longs:
    """A column without nulls as int64."""
    values: Longs = table.column(column).to_numpy().astype(np.int64, copy=False)
    return values


def longs_or_zero(table: pa.Table, column: str) -> tuple[Longs, Bools]:
    """A column that may hold nulls: its values with 0 for null, and where it is not null."""
    values = table.column(column)
    known = values.is_valid().to_numpy().astype(np.bool_, copy=False)
    return values.fill_null(0).to_numpy().astype(np.int64, copy=False), known


def flags(table: pa.Table, column: str) -> Bools:
    """A flag of a packet; one that a source does not tell is not set."""
    values: Bools = table.column(column).fill_null(False).to_numpy()
    return values


def resolutions(table: pa.Table) -> Longs:
    """How much earlier each delivery may have arrived than its row says; NOT_TOLD where nobody knows."""
    values, is_told = longs_or_zero(table, "resolution_ns")
    return np.where(is_told, values, NOT_TOLD)


def stretches(ascending: NDArray[np.signedinteger]) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of equal values."""
    inner = np.flatnonzero(np.diff(ascending)) + 1
    edges = [0, *inner.tolist(), ascending.size] if ascending.size else []
    yield from pairwise(edges)
