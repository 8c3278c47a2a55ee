"""Finished tables on the way to disk: rows that Spark computed, put in an order that means something, one file each.

Results are small (rows per run, not per message), so they come to this process and are sorted and written here: on a
study of some runs, letting Spark's tasks do that too took longer than all of the computing.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from brokerlab.pipeline.schemas import TABLES, arrow_schema
from brokerlab.pipeline.schemas.kinds import Among, Table

_POSITION = "position"  # the place of a row's run, or of its cell


class FinishedTables(Mapping[str, DataFrame]):
    """The tables of one analysis that are on disk; each is a frame again for whatever is made of it."""

    def __init__(self, spark: SparkSession, folder: Path, places: Mapping[str, pa.Table]) -> None:
        self._spark, self._folder, self._places = spark, folder, places
        self._rows: dict[str, pa.Table] = {}
        self._frames: dict[str, DataFrame] = {}

    def add(self, name: str, table: DataFrame | None) -> None:
        """Computes a table and writes it; None is a table without rows, which costs nothing."""
        fixed = TABLES[name]
        kept = arrow_schema(fixed.columns)
        self.keep(name, kept.empty_table() if table is None else self._computed(table, fixed).cast(kept))

    def keep(self, name: str, rows: pa.Table) -> None:
        """Writes rows that are a finished table already."""
        self._rows[name] = rows
        folder = self._folder / name
        folder.mkdir(parents=True)
        pq.write_table(rows, folder / "part-0.parquet", compression="zstd")

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._frames:
            self._frames[name] = self._spark.createDataFrame(self._rows[name], schema=TABLES[name].columns)
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _computed(self, table: DataFrame, fixed: Table) -> pa.Table:
        """The rows, in their table's order."""
        sorted_by = [by for by in fixed.order if isinstance(by, str) and by != _POSITION]
        names = list(dict.fromkeys([*fixed.columns.names, *sorted_by]))
        rows = table.select(*names).toArrow()
        keys = pa.table({str(place): self._sort_key(by, rows) for place, by in enumerate(fixed.order)})
        order = pc.sort_indices(keys, sort_keys=[(name, "ascending", "at_start") for name in keys.column_names])
        return rows.take(order).select(fixed.columns.names)

    def _sort_key(self, by: str | Among, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        if isinstance(by, Among):
            return pc.index_in(rows.column(by.column), value_set=pa.array(by.values, pa.string()))
        if by != _POSITION:
            return rows.column(by)
        key, places = next((key, places) for key, places in self._places.items() if key in rows.column_names)
        return pc.index_in(rows.column(key), value_set=places)
