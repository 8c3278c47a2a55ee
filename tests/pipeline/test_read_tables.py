import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokerlab.errors import UserError
from brokerlab.pipeline.schemas import TABLES
from brokerlab.pipeline.tables import TABLE_NAMES, read_table, table_as_csv, table_as_json

pytestmark = pytest.mark.pipeline

EXAMPLE = pa.table(
    {
        "cell": ["a,b", None],
        "levels": pa.array([[("broker", "amqtt"), ("qos", "0")], []], pa.map_(pa.string(), pa.string())),
        "reasons": [["slow", "late"], []],
        "n": [3, None],
        "agrees": [True, None],
        "mean": [1.5, None],
    }
)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_grain_and_order_are_columns_of_the_table(name):
    table = TABLES[name]
    order = {by if isinstance(by, str) else by.column for by in table.order}

    assert set(table.grain) <= set(table.columns.names)
    assert order - {"position"} <= set(table.columns.names)


def test_csv_writes_maps_lists_and_nulls():
    assert table_as_csv(EXAMPLE) == (
        'cell,levels,reasons,n,agrees,mean\n"a,b",broker=amqtt;qos=0,slow; late,3,true,1.5\n,,,,,\n'
    )


def test_csv_can_be_read_again():
    rows = list(csv.DictReader(io.StringIO(table_as_csv(EXAMPLE))))

    assert rows[0]["cell"] == "a,b"


def test_json_keeps_maps_lists_and_nulls():
    first, second = json.loads(table_as_json(EXAMPLE))

    assert first == {
        "cell": "a,b", "levels": {"broker": "amqtt", "qos": "0"}, "reasons": ["slow", "late"], "n": 3, "agrees": True,
        "mean": 1.5,
    }  # fmt: skip
    assert second["levels"] == {}
    assert second["n"] is None


def test_a_table_without_rows_is_a_line_of_names():
    assert table_as_csv(EXAMPLE.slice(0, 0)) == "cell,levels,reasons,n,agrees,mean\n"
    assert json.loads(table_as_json(EXAMPLE.slice(0, 0))) == []


def test_an_unknown_name_gets_the_nearest(study):
    with pytest.raises(UserError, match="no table 'latencies'") as refused:
        read_table(study, "latencies")

    assert "did you mean 'latency'?" in refused.value.hint


def test_tables_that_are_not_made_yet(study):
    with pytest.raises(UserError, match="no table 'latency' yet") as refused:
        read_table(study, "latency")

    assert f"brokerlab analyze {study.path}" in refused.value.hint


def test_a_damaged_table_says_how_to_make_it_again(study):
    study.table("latency").mkdir(parents=True)
    (study.table("latency") / "part-0.parquet").write_bytes(b"PAR1 no more")

    with pytest.raises(UserError, match="cannot be read") as refused:
        read_table(study, "latency")

    assert "brokerlab analyze" in refused.value.hint


def test_files_of_a_table_are_read_by_name(study):
    study.table("runs").mkdir(parents=True)
    for number in (1, 0):
        pq.write_table(pa.table({"n": [number]}), study.table("runs") / f"part-{number}.parquet")

    assert read_table(study, "runs").column("n").to_pylist() == [0, 1]
