"""From raw files to tables: numbers that can be checked on paper (pipeline_example.py)."""

import math
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pipeline_example import RECEIVED, write_example
from pipeline_runs import new_study

from brokerlab.errors import UserError
from brokerlab.pipeline.jobs import AnalysisSummary, analyze
from brokerlab.pipeline.schemas import PIPELINE_VERSION, TABLES, arrow_schema
from brokerlab.pipeline.tables import TABLE_NAMES, read_table, table_as_csv

pytestmark = pytest.mark.pipeline

GOLDEN = Path(__file__).with_name("pipeline_example.md")
# In the example QoS and broker vary together, so that no two levels can be held against each other.
# It captures nothing: test_capture_tables.py.
EMPTY = {"comparisons", "traffic", "legs", "captures"}
TEN = "broker-amqtt.qos-1/1"
NATS = "broker-nats.qos-0"


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory, spark):
    """The example's results with their summary and what was said; in a folder whose name Spark could misread."""
    study = new_study(tmp_path_factory.mktemp("example") / "a [b] {c} 100% *")
    write_example(study)
    said = []
    return study, analyze(spark, study, notify=said.append), said


@pytest.fixture(scope="module")
def results(analyzed):
    return analyzed[0]


def row(results, table, **keys):
    rows = [r for r in read_table(results, table).to_pylist() if all(r[key] == value for key, value in keys.items())]
    assert len(rows) == 1
    return rows[0]


def test_summary_counts_verdicts_and_progress_names_every_table(analyzed):
    _, summary, said = analyzed

    assert summary == AnalysisSummary(runs=5, valid=4, invalid=1, collapsed=0, problems=())
    assert said == ["reading the raw files of 5 runs", *(f"table {name}" for name in TABLE_NAMES)]


def test_ledger_of_the_ten_messages(results):
    ledger = row(results, "delivery", run_id=TEN)

    assert {name: ledger[name] for name in TABLES["delivery"].columns.names[2:]} == {
        "qos_asked": 1, "qos_granted": 1, "contract": "at least once", "identity": "full",
        "published": 10, "acknowledged": 9, "never_acknowledged": 1,
        "expected": 10, "delivered": 8, "lost": 2, "acknowledged_lost": 1,
        "duplicated": 2, "duplicated_flagged": 1, "overlapping": 0, "reordered": 1, "stale": 0, "unexpected": 2,
        "resized": 0, "late": 1, "lost_there": None, "lost_back": None,
        "crossing_expected": None, "crossing_delivered": None,
        "failure_percent": 20.0, "drop_percent": 10.0, "availability_percent": 90.0, "verdict": "broken", "doubt": None,
    }  # fmt: skip


def test_latency_of_the_ten_messages(results):
    """Sorted 1 2 4 5 7 9 110: rank 4 is the median, rank 7 everything from p90 on."""
    latency = row(results, "latency", run_id=TEN, kind="intended")

    assert (latency["n"], latency["min_ms"], latency["max_ms"]) == (7, 1.0, 110.0)
    assert latency["mean_ms"] == pytest.approx(138 / 7)
    assert latency["sd_ms"] == pytest.approx(math.sqrt((12276 - 138**2 / 7) / 6))  # 12276: the sum of the squares
    assert latency["p50_ms"] == pytest.approx(5, rel=0.01)
    assert [latency[f"{p}_ms"] for p in ("p90", "p95", "p99", "p99_9", "p99_99")] == pytest.approx([110] * 5, rel=0.01)


def test_latency_since_the_actual_sending_is_a_tenth_of_a_millisecond_less(results):
    latency = row(results, "latency", run_id=TEN, kind="sent")

    assert latency["mean_ms"] == pytest.approx(138 / 7 - 0.1)
    assert (latency["min_ms"], latency["max_ms"]) == (0.9, 109.9)


def test_resolution_of_the_ten_messages(results):
    """0 0.5 1 3 0 2.5 60: mean 67 / 7. At the earliest they came after 1 1.5 2 3 6.5 7 50 ms, of which 3 is the median.

    As latency can only be less than it seems, each value's own resolution is what it would be less.
    """
    latency, earliest = (row(results, "latency", run_id=TEN, kind=kind) for kind in ("intended", "earliest"))
    values = {r["metric"]: r["resolution"] for r in read_table(results, "values").to_pylist() if r["run_id"] == TEN}

    assert latency["resolution_mean_ms"] == pytest.approx(67 / 7)
    assert latency["resolution_max_ms"] == 60
    assert (earliest["n"], earliest["min_ms"], earliest["max_ms"]) == (7, 1.0, 50.0)
    assert earliest["mean_ms"] == pytest.approx(71 / 7)
    assert values["latency.mean"] == pytest.approx(67 / 7)
    assert values["latency.max"] == 60
    assert [values[f"latency.{p}"] for p in ("p50", "p95", "p99")] == pytest.approx([5 - 3, 60, 60], abs=1.2)
    assert values["jitter.interarrival_sd"] == values["jitter.rfc3550"] == pytest.approx(67 / 7)
    assert values["throughput.delivered_per_s"] is None


def test_resolution_of_cells_is_the_mean_of_their_runs_and_not_known_where_one_is_not(results):
    """Of the largest latency 60, 0.5 and 0 ms; a source that does not tell is not one that is exact."""
    told, untold = (row(results, "cells", cell=c, metric="latency.max") for c in ("broker-amqtt.qos-1", NATS))
    latency = row(results, "latency", run_id=f"{NATS}/1", kind="intended")

    assert told["resolution"] == pytest.approx(60.5 / 3)
    assert (untold["mean"], untold["resolution"]) == (2.0, None)
    assert (latency["n"], latency["resolution_mean_ms"], latency["resolution_max_ms"]) == (10, None, None)
    assert not [r for r in read_table(results, "latency").to_pylist() if (r["cell"], r["kind"]) == (NATS, "earliest")]
    assert row(results, "jitter", cell=NATS)["resolution_mean_ms"] is None


def test_a_run_without_deliveries_has_latency_of_nothing(results):
    latency = row(results, "latency", run_id="broker-amqtt.qos-1/4", kind="intended")

    assert latency["n"] == 0
    assert latency["mean_ms"] is None


def test_histogram_adds_up_to_the_deliveries(results):
    rows = [r for r in read_table(results, "histogram").to_pylist() if r["run_id"] == TEN and r["kind"] == "sent"]

    assert [r["n"] for r in rows] == [1] * 7
    assert all(r["low_ns"] < r["high_ns"] <= r["low_ns"] * 65 / 64 + 1 for r in rows)


def test_throughput_of_the_ten_messages(results):
    """Nine measured, eight of them acknowledged, seven delivered, in two seconds."""
    sent, delivered = (row(results, "throughput", run_id=TEN, window=window) for window in ("send", "delivery"))

    assert (sent["seconds"], sent["published"], sent["acknowledged"], sent["delivered"]) == (2.0, 9, 8, 7)
    assert (sent["published_per_s"], sent["acknowledged_per_s"], sent["payload_bytes_per_s"]) == (4.5, 4.0, 288.0)
    assert (delivered["seconds"], delivered["delivered_per_s"], delivered["payload_bytes_per_s"]) == (2.0, 3.5, 224.0)


def test_resources_of_the_broker(results):
    """0.5 s of CPU for seven deliveries in two seconds: a quarter of a core, so 14/s on a whole one."""
    used = row(results, "resources", run_id=TEN, node="broker/0", phase="measure")

    assert (used["cpu_s"], used["cpu_percent"], used["rss_mean_mib"], used["rss_max_mib"]) == (0.5, 25.0, 60.0, 70.0)
    assert used["cpu_us_per_delivery"] == pytest.approx(500_000 / 7)
    assert used["deliveries_per_core_s"] == pytest.approx(14)
    assert used["projected_per_s"] == pytest.approx(14)
    assert used["projection_is_extrapolation"] is True


def test_trials_of_the_search(results):
    """Ten in two seconds, 2 ms each: in the second quarter five of them, in the last none, so 5 · 2/500 less."""
    silent, measured = (r for r in read_table(results, "capacity").to_pylist() if r["run_id"] == "broker-nats.qos-0/1")

    assert (silent["trial"], silent["phase"], silent["published"], silent["delivered"]) == (1, "trial-1", 0, 0)
    assert (silent["latency_p99_ms"], silent["passed"], silent["why_not"]) == (None, False, ["nothing arrived"])
    assert (measured["phase"], measured["rate_per_s"], measured["asked_per_s"]) == ("measure", 5.0, 5.0)
    assert (measured["published_per_s"], measured["delivered_per_s"], measured["lost"]) == (5.0, 5.0, 0)
    assert (measured["latency_p50_ms"], measured["latency_p99_ms"]) == (2.0, 2.0)
    assert measured["backlog_growth_percent"] == pytest.approx(100 * (0 - 5 * 2 / 500) / (10 / 2))
    assert (measured["acknowledged_lost"], measured["passed"], measured["why_not"]) == (None, True, [])


def test_what_the_search_found_is_the_runs_and_the_cells(results):
    run, cell = (
        row(results, "runs", run_id="broker-nats.qos-0/1"),
        row(results, "cells", cell="broker-nats.qos-0", metric="capacity.rate_per_s"),
    )

    assert (run["capacity_per_s"], run["capacity_low_per_s"], run["capacity_high_per_s"]) == (5.0, 4.0, 10.0)
    assert run["p99_limit_ms"] == 3.0
    assert (cell["n"], cell["mean"], cell["unit"]) == (1, 5.0, "1/s")


def test_counters_beside_ours(results):
    """Of the run whose counters were read; the claims of the others are there, and nothing was told."""
    rows = {r["name"]: r for r in read_table(results, "counters").to_pylist() if r["broker_value"] is not None}

    assert (rows[RECEIVED]["broker_value"], rows[RECEIVED]["our_value"], rows[RECEIVED]["verdict"]) == (11, 11, "equal")
    assert (rows["$SYS/only/zero"]["our_value"], rows["$SYS/only/zero"]["verdict"]) == (None, "not comparable")
    assert (rows["$SYS/uptime"]["broker_value"], rows["$SYS/uptime"]["why"]) == (
        6,
        "its driver does not say what it counts",
    )


def test_cells_hold_valid_runs_with_students_interval(results):
    """Failures of 20, 0 and 10 %: mean 10, sd 10, and 4.303 · 10 / √3 = 24.84 to either side."""
    cell = row(results, "cells", cell="broker-amqtt.qos-1", metric="delivery.failure_percent")

    assert (cell["n"], cell["invalid_runs"], cell["mean"], cell["sd"]) == (3, 1, 10.0, 10.0)
    assert (cell["min"], cell["max"], cell["unit"]) == (0.0, 20.0, "%")
    assert cell["low"] == pytest.approx(-14.84, abs=0.01)
    assert cell["high"] == pytest.approx(34.84, abs=0.01)
    assert dict(cell["levels"]) == {"broker": "amqtt", "qos": "1"}


def test_one_run_has_a_mean_and_no_interval(results):
    cell = row(results, "cells", cell="broker-nats.qos-0", metric="latency.mean")

    assert (cell["n"], cell["mean"], cell["sd"], cell["low"], cell["high"]) == (1, 2.0, None, None, None)


def test_a_metric_that_nobody_measured_has_a_row_without_a_mean(results):
    cell = row(results, "cells", cell="broker-nats.qos-0", metric="resources.broker_cpu_percent")

    assert (cell["n"], cell["mean"]) == (0, None)


def test_runs_say_where_they_come_from(results):
    run = row(results, "runs", run_id=TEN)

    assert (run["pipeline"], run["brokerlab"], run["kernel"], run["cores"]) == (PIPELINE_VERSION, "0.1.0", "6.1", 2)
    assert read_table(results, "runs").column("order").to_pylist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_schema_and_grain_on_disk(results, name):
    table = read_table(results, name)
    keys = [tuple(key.values()) for key in table.select(TABLES[name].grain).to_pylist()]

    assert types_of(table.schema) == types_of(arrow_schema(TABLES[name].columns))
    assert len(keys) == len(set(keys))
    assert bool(keys) == (name not in EMPTY)
    assert all(part is not None for key in keys for part in key)


def types_of(schema: pa.Schema) -> dict[str, str]:
    """Arrow names the inside of a map differently in files; whether null is allowed is not ours to say (schemas)."""
    return {field.name: "map" if pa.types.is_map(field.type) else str(field.type) for field in schema}


def test_the_whole_example_reads_as_expected(results):
    """UPDATE_GOLDEN=1 writes the file again; look at the difference before you keep it."""
    names = [name for name in TABLE_NAMES if name != "histogram"]
    text = "".join(f"## {name}\n\n{markdown(read_table(results, name))}\n" for name in names)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")

    assert text == GOLDEN.read_text(encoding="utf-8")


def markdown(table: pa.Table) -> str:
    rows = [line.split(",") for line in table_as_csv(table).splitlines()]
    return "".join(f"| {' | '.join(map(rounded, cells))} |\n" for cells in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


def rounded(cell: str) -> str:
    """Six digits say enough, and the last bits of a float may differ between machines."""
    return f"{float(cell):.6g}" if cell.count(".") == 1 and cell.strip("-").replace(".", "").isdecimal() else cell


def test_nothing_but_tables_is_left_behind(results):
    assert sorted(path.name for path in results.tables.iterdir()) == sorted(TABLE_NAMES)


def test_a_failed_analysis_leaves_the_old_tables(results, spark, tmp_path, monkeypatch):
    study = new_study(tmp_path / "again")
    shutil.copytree(results.path, study.path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in study.tables.rglob("*.parquet")}
    monkeypatch.setattr("brokerlab.pipeline.transforms.delivery.make", lambda *_, **__: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        analyze(spark, study)

    assert {path: path.read_bytes() for path in study.tables.rglob("*.parquet")} == before
    assert sorted(path.name for path in study.tables.iterdir()) == sorted(TABLE_NAMES)


def test_no_runs_is_the_users_error(spark, study):
    with pytest.raises(UserError, match="there are no runs to analyze") as refused:
        analyze(spark, study)

    assert "brokerlab run" in refused.value.hint


@pytest.mark.parametrize("confidence_percent", [0, 100])
def test_an_impossible_confidence_is_the_users_error(spark, study, confidence_percent):
    with pytest.raises(UserError, match="between 0 and 100"):
        analyze(spark, study, confidence_percent=confidence_percent)


def test_faults_divide_the_ledger_among_them(results):
    """A fault at 2.55 s: 5 to 9 are its, of which 6 and 8 are lost; 3 was overtaken and 5 doubled before it."""
    before, after = read_table(results, "faults").to_pylist()

    assert [(row["fault"], row["expected"], row["delivered"], row["lost"]) for row in (before, after)] == [
        (0, 5, 5, 0),
        (1, 5, 3, 2),
    ]
    assert (before["duplicated"], after["duplicated"]) == (1, 1)
    assert (before["reordered"], after["reordered"]) == (1, 0)
    assert (before["acknowledged_lost"], after["acknowledged_lost"]) == (0, 1)
    assert (after["kind"], after["target"], after["at_s"]) == ("kill", "node 0", 0.55)
    assert after["to_first_ms"] == after["to_all_ms"] == 157.0  # 7, due at 2.7 s and 7 ms under way
    assert (after["noticed_ms"], after["connections_lost"]) == (450.0, 1)
    assert after["to_steady_ms"] is None  # ten messages a second have no rate
