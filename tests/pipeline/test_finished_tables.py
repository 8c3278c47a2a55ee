"""Tables on their way to disk: in the order that their schema fixes, in one file, and frames again for later ones."""

import pyarrow as pa
import pytest

from brokerlab.pipeline.finished import FinishedTables
from brokerlab.pipeline.schemas import TABLES, arrow_schema
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory

pytestmark = pytest.mark.pipeline

PLACES = {"run_id": pa.array(["b/2", "b/10", "a/1"]), "cell": pa.array(["b", "a"])}


def frame(spark, name, rows):
    """Rows of a table; columns that are not given are null."""
    columns = TABLES[name].columns
    return spark.createDataFrame([{**dict.fromkeys(columns.names), **row} for row in rows], columns)


@pytest.fixture
def study(tmp_path):
    return StudyDirectory(tmp_path)


@pytest.fixture
def finished(spark, study):
    return FinishedTables(spark, study.tables, PLACES)


def test_rows_lie_in_the_order_of_runs_then_of_a_list_and_nulls_come_first(spark, finished, study):
    keys = [("a/1", "send"), ("b/10", "delivery"), ("b/10", "send"), ("b/2", "delivery"), ("b/2", None)]
    finished.add("throughput", frame(spark, "throughput", [{"run_id": run, "window": window} for run, window in keys]))

    rows = read_table(study, "throughput").select(["run_id", "window"]).to_pylist()

    assert [tuple(row.values()) for row in rows] == [
        ("b/2", None),
        ("b/2", "delivery"),
        ("b/10", "send"),
        ("b/10", "delivery"),
        ("a/1", "send"),
    ]


def test_a_table_about_cells_lies_in_the_order_of_cells(spark, finished, study):
    keys = [("a", "latency.p99"), ("b", "latency.p99"), ("b", "latency.mean")]
    finished.add("cells", frame(spark, "cells", [{"cell": cell, "metric": metric} for cell, metric in keys]))

    rows = read_table(study, "cells").select(["cell", "metric"]).to_pylist()

    assert [tuple(row.values()) for row in rows] == [keys[2], keys[1], keys[0]]


def test_a_table_without_rows_has_its_columns(finished, study):
    finished.add("network", None)

    assert read_table(study, "network").schema.equals(arrow_schema(TABLES["network"].columns))
    assert finished["network"].schema == TABLES["network"].columns
    assert finished["network"].collect() == []


def test_later_tables_read_what_is_written(spark, finished):
    finished.add("jitter", frame(spark, "jitter", [{"run_id": "a/1", "subscriber": 3, "publisher": 4}]))

    assert list(finished) == ["jitter"]
    assert [(row.subscriber, row.publisher) for row in finished["jitter"].collect()] == [(3, 4)]
