"""`brokerlab show` on tables of two rows, made by hand."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_program import Program

pytestmark = pytest.mark.unit

LATENCY = pa.table(
    {
        "run_id": ["broker-a.qos-0/1", "broker-a.qos-0/2"],
        "n": pa.array([400, 401], pa.int64()),
        "p99_ms": [1.23456789, None],
    }
)
RUNS = pa.table(
    {
        "run_id": ["broker-a.qos-0/1"],
        "levels": pa.array([[("broker", "a"), ("qos", "0")]], pa.map_(pa.string(), pa.string())),
        "reasons": pa.array([["late", "busy"]], pa.list_(pa.string())),
    }
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for name, content in {"latency": LATENCY, "runs": RUNS}.items():
        folder = tmp_path / "out" / "tables" / name
        folder.mkdir(parents=True)
        pq.write_table(content, folder / "part-0.parquet")
    return tmp_path / "out"


def test_the_list_of_tables_has_row_counts(brokerlab: Program, results: Path) -> None:
    done = brokerlab("show", str(results))

    assert done.stdout.splitlines() == ["table    rows", "runs        1", "latency     2"]


def test_a_table_for_people(brokerlab: Program, results: Path) -> None:
    done = brokerlab("show", str(results), "latency")

    assert done.stdout.splitlines() == [
        "run_id              n   p99_ms",
        "broker-a.qos-0/1  400  1.23457",
        "broker-a.qos-0/2  401        -",
    ]


def test_maps_and_lists_for_people(brokerlab: Program, results: Path) -> None:
    assert brokerlab("show", str(results), "runs").stdout.splitlines()[1].split("  ") == [
        "broker-a.qos-0/1",
        "broker=a, qos=0",
        "late; busy",
    ]


def test_csv_has_every_digit_and_an_empty_field_for_null(brokerlab: Program, results: Path) -> None:
    done = brokerlab("show", str(results), "latency", "--csv")
    rows = list(csv.DictReader(done.stdout.splitlines()))

    assert done.returncode == 0
    assert rows[0] == {"run_id": "broker-a.qos-0/1", "n": "400", "p99_ms": "1.23456789"}
    assert rows[1]["p99_ms"] == ""


def test_json_has_numbers_and_null(brokerlab: Program, results: Path) -> None:
    rows = json.loads(brokerlab("show", str(results), "latency", "--json").stdout)

    assert rows[0]["p99_ms"] == 1.23456789
    assert rows[1]["p99_ms"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["latncy"], "latency"),
        (["delivery"], "brokerlab analyze"),
        (["latency", "--csv", "--json"], "exclude each other"),
        (["--csv"], "need a table"),
    ],
)
def test_what_cannot_be_shown_is_64(brokerlab: Program, results: Path, arguments: list[str], said: str) -> None:
    done = brokerlab("show", str(results), *arguments)

    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr


def test_a_broken_file_is_named(brokerlab: Program, results: Path) -> None:
    (results / "tables" / "latency" / "part-0.parquet").write_bytes(b"PAR1 cut off")
    done = brokerlab("show", str(results), "latency")

    assert done.returncode == 64
    assert "latency" in done.stderr
    assert "Traceback" not in done.stderr
