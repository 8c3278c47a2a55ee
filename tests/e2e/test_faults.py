"""Faults on real brokers: the rows of the table faults sum to the ledger, and tell what was done (F-06).

How long anything takes is the machine's matter; what is asserted is what must hold on any machine.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from side_by_side import make_runs_side_by_side

from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.report.report import write_report
from brokerlab.study.fault_values import Fault, FaultKind, Faults
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)
from brokerlab.study.written import study_yaml
from open_guards import OPEN

pytestmark = pytest.mark.e2e

DONE = (
    Fault(FaultKind.STOP, at_s=0.5, for_s=0.4, node=0),
    Fault(FaultKind.STORM, at_s=1.2),
    Fault(FaultKind.KILL, at_s=2.0, node=0),
    Fault(FaultKind.RESTART, at_s=2.5, node=0),
)
BROKERS = (("nats", 0), ("rumqttd", 1), ("amqtt", 2))


def study(name: str, qos: int) -> Study:
    return Study(
        name="faults",
        goals=Goals("What do faults cost?"),
        system=System((BrokerChoice(name, name),)),
        metrics=("latency", "delivery"),
        scenario=Scenario(
            Workload(publishers=2, subscribers=2, schedule=Schedule(rate_per_s=100.0)),
            (Factor("broker", (name,)), Factor("qos", (qos,))),
            faults=Faults(DONE),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0.2, measure_s=4, drain_s=8)),
        analysis=OPEN,
    )


@pytest.fixture(scope="module")
def struck(tmp_path_factory, spark):
    results = StudyDirectory(tmp_path_factory.mktemp("faults"))
    with ThreadPoolExecutor(len(BROKERS)) as pool:
        list(pool.map(lambda broker: make_runs(study(*broker), results), BROKERS))
    results.path.joinpath("study.yaml").write_text(study_yaml(study(*BROKERS[0])))
    analyze(spark, results)
    return results


def make_runs(own, results):
    make_runs_side_by_side(own, make_plan(own, missing={}).runs, results)


def rows(results, name):
    return read_table(results, name).to_pylist()


def test_every_fault_was_done_in_its_order_and_is_in_the_manifest(struck):
    for directory in struck.runs():
        manifest = json.loads(directory.manifest_path.read_text())
        assert manifest["verdict"]["value"] == "valid", manifest["verdict"]
        assert [each["kind"] for each in manifest["faults"]] == ["stop", "storm", "kill", "restart"]
        times = [each["at_ns"] for each in manifest["faults"]]
        assert times == sorted(times)
        assert manifest["faults"][0]["end_ns"] - times[0] >= 0.4e9


def test_rows_sum_to_the_ledger(struck):
    """Whatever was lost, somebody's fault it was, or it was lost before the first."""
    ledger = {row["run_id"]: row for row in rows(struck, "delivery")}
    faults = rows(struck, "faults")

    assert len(ledger) == len(BROKERS)
    assert len(faults) == len(BROKERS) * (len(DONE) + 1)
    for run_id, own in ledger.items():
        mine = [row for row in faults if row["run_id"] == run_id]
        for name in ("expected", "delivered", "lost", "duplicated"):
            assert sum(row[name] for row in mine) == own[name], (run_id, name)
        assert sum(row["acknowledged_lost"] for row in mine) == (own["acknowledged_lost"] or 0)
        assert all(row["lost"] == row["lost_local"] + row["lost_crossing"] for row in mine)
        assert all(row["lost_crossing"] == 0 for row in mine)


def test_clients_notice_a_kill_and_come_back(struck):
    for row in rows(struck, "faults"):
        if row["kind"] == "kill":
            assert row["connections_lost"] >= 4  # each publisher and subscriber had one
            assert row["noticed_ms"] >= 0
        if row["kind"] == "restart":
            assert row["to_first_ms"] > 0
            assert row["delivered"] > 0
        if row["kind"] == "stop":
            assert row["connections_lost"] == 0  # it only took longer
            assert row["to_first_ms"] is None or row["to_first_ms"] >= 400  # nothing came before it went on


def test_report_shows_them(struck):
    page = write_report(struck).read_text()

    assert 'id="faults"' in page
    assert "kill, node 0" in page
