"""Finished tables, read with pyarrow: no Spark, no Java.

read_table(results, "latency") ──► pyarrow.Table ──► table_as_csv, table_as_json
"""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokerlab.errors import UserError
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.nearest import listed, nearest

TABLE_NAMES = (
    "runs",
    "delivery",
    "latency",
    "histogram",
    "throughput",
    "timeline",
    "jitter",
    "subscribers",
    "sessions",
    "capacity",
    "resources",
    "counters",
    "network",
    "overhead",
    "faults",
    "traffic",
    "legs",
    "captures",
    "values",
    "cells",
    "comparisons",
    "effects",
)

# Tables that no analysis of runs makes: each is written by its own command, where it is asked for.
TABLES_APART = (
    "published",
    "rankings",
    "boxes",
    "equations",
    "traces",
    "claims",
    "quality",
    "quality_scores",
    "quality_groups",
    "quality_levels",
    "quality_agreement",
)


def read_table(results: StudyDirectory, name: str) -> pa.Table:
    """The whole table, in the order in which it was written: cells in natural order, then repetitions."""
    _refuse_unknown(name)
    files = sorted(results.table(name).glob("*.parquet"))
    if not files:
        raise UserError(
            f"{results.path}: there is no table {name!r} yet",
            hint=f"make the tables with `brokerlab analyze {results.path}`",
        )
    try:
        return pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    except (pa.ArrowException, OSError) as problem:
        raise UserError(
            f"{results.table(name)}: the table cannot be read: {problem}",
            hint=f"make the tables again with `brokerlab analyze {results.path}`",
        ) from problem


def _refuse_unknown(name: str) -> None:
    known = (*TABLE_NAMES, *TABLES_APART)
    if name in known:
        return
    meant = nearest(name, known)
    question = f"did you mean {meant!r}? " if meant else ""
    raise UserError(f"there is no table {name!r}", hint=f"{question}the tables are {listed(known)}")


def table_as_csv(table: pa.Table) -> str:
    """One line per row under a line of names; maps as `broker=amqtt;qos=0`, lists joined with `; `, null empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([_cell(row[name]) for name in table.column_names] for row in _rows(table))
    return out.getvalue()


def table_as_json(table: pa.Table) -> str:
    """A list of objects, one per row; maps are objects, null is null."""
    maps = [field.name for field in table.schema if pa.types.is_map(field.type)]
    rows = [{**row, **{name: _as_dict(row[name]) for name in maps}} for row in _rows(table)]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def _rows(table: pa.Table) -> Sequence[dict[str, Any]]:
    rows: Sequence[dict[str, Any]] = table.to_pylist()
    return rows


def _as_dict(pairs: Sequence[tuple[str, Any]] | None) -> dict[str, Any] | None:
    return None if pairs is None else dict(pairs)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, list):
        return str(value)
    is_map = bool(value) and all(isinstance(item, tuple) for item in value)
    return ";".join(f"{key}={_cell(item)}" for key, item in value) if is_map else "; ".join(map(_cell, value))
