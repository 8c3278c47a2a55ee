"""From a study file to tables and report through the command line, on real brokers."""

import csv
import io
import json

import pytest
from lab_program import brokerlab, write_study

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver

pytestmark = pytest.mark.e2e

HAS_MOSQUITTO = isinstance(driver("mosquitto").find(), Found)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole-way")
    brokers = {"embedded": "{driver: amqtt}", "mosquitto": "{driver: mosquitto, optional: true}"}
    study = write_study(folder, brokers=brokers, qos="0, 1, 2", repetitions=2)
    ran = brokerlab("run", study, "--out", "out", folder=folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder, ran


def rows(folder, table):
    shown = brokerlab("show", "out", table, "--csv", folder=folder)
    assert shown.returncode == 0, shown.stderr
    return list(csv.DictReader(io.StringIO(shown.stdout)))


def test_every_message_is_accounted_for(finished):
    delivery = rows(finished[0], "delivery")

    assert len(delivery) == (12 if HAS_MOSQUITTO else 6)
    for row in delivery:
        assert int(row["expected"]) == 2 * int(row["published"])
        assert int(row["delivered"]) + int(row["lost"]) == int(row["expected"])
        assert (row["lost"], row["duplicated"], row["unexpected"], row["verdict"]) == ("0", "0", "0", "kept")


def test_no_rate_is_above_the_schedule_and_no_latency_below_zero(finished):
    for row in rows(finished[0], "throughput"):
        assert float(row["published_per_s"]) <= 100.0
        assert float(row["delivered_per_s"]) <= 200.0
    for row in rows(finished[0], "latency"):
        assert float(row["min_ms"]) > 0 or (row["kind"] == "earliest" and float(row["min_ms"]) == 0)
        assert row["negative_count"] == "0"
        assert float(row["min_ms"]) <= float(row["p50_ms"]) <= float(row["p99_ms"]) <= float(row["max_ms"])


@pytest.mark.skipif(not HAS_MOSQUITTO, reason="mosquitto is not installed")
def test_mosquittos_own_counters_equal_ours_at_every_qos(finished):
    counters = [row for row in rows(finished[0], "counters") if "mosquitto" in row["cell"]]
    compared = {row["cell"] for row in counters if row["verdict"] == "equal"}

    assert {row["verdict"] for row in counters} == {"equal", "not comparable"}
    assert {row["count"] for row in counters if row["verdict"] == "equal"} >= {"received", "sent", "dropped"}
    assert compared == {f"broker-mosquitto.qos-{qos}" for qos in (0, 1, 2)}


def test_every_cell_has_its_metrics_over_its_runs(finished):
    cells = rows(finished[0], "cells")

    assert {row["n"] for row in cells if row["metric"] != "capacity.rate_per_s"} == {"2"}
    assert {row["n"] for row in cells if row["metric"] == "capacity.rate_per_s"} == {"0"}  # nothing was searched for
    assert {"latency.p99", "throughput.delivered_per_s", "delivery.failure_percent"} <= {row["metric"] for row in cells}


def test_the_report_is_one_file_that_names_the_question(finished):
    page = (finished[0] / "out" / "report.html").read_text()

    assert "Does it go the whole way?" in page
    assert "report.html" in finished[1].stdout


def test_the_run_directories_hold_the_brokers_configuration_and_log(finished):
    run = finished[0] / "out" / "runs" / "broker-embedded.qos-0" / "1"
    manifest = json.loads((run / "manifest.json").read_text())

    assert manifest["verdict"]["value"] == "valid"
    assert [path for path in (run / "broker" / "0").iterdir() if path.is_file()]
    assert (run / "broker" / "0.log").exists()


def test_a_damaged_file_costs_its_run_and_no_other(finished):
    folder, _ = finished
    run = folder / "out" / "runs" / "broker-embedded.qos-1" / "2"
    victim = next((run / "deliveries").glob("*.parquet"))
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2])
    try:
        analyzed = brokerlab("analyze", "out", folder=folder)
        verdicts = {row["run_id"]: (row["verdict"], row["reasons"]) for row in rows(folder, "runs")}
    finally:
        victim.write_bytes(whole)

    assert analyzed.returncode == 1, analyzed.stderr
    assert verdicts["broker-embedded.qos-1/2"][0] == "invalid"
    assert victim.name in verdicts["broker-embedded.qos-1/2"][1]
    assert {verdict for run_id, (verdict, _) in verdicts.items() if run_id != "broker-embedded.qos-1/2"} == {"valid"}
