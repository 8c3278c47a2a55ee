"""A run on a real Mosquitto, captured: what the wire says agrees with what our clients recorded (M-24, M-26)."""

import pyarrow.dataset as ds
import pytest

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver
from brokerlab.lab.campaign import make_runs
from brokerlab.network.privileges import reason_deaf
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.report.report import write_report
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Qos,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.e2e

PUBLISHERS, SUBSCRIBERS, RATE_PER_S, SECONDS = 3, 2, 200, 1.0
TAPS = ("publisher", "broker", "subscriber")


class Silent:
    def run_started(self, run, number, total):
        """Nobody watches a test."""

    def phase_started(self, name, seconds):
        """Nobody watches a test."""

    def run_ended(self, run, verdict, reasons, seconds):
        """Nobody watches a test."""


def study():
    workload = Workload(
        PUBLISHERS, SUBSCRIBERS, qos=Qos.AT_LEAST_ONCE, schedule=Schedule(rate_per_s=RATE_PER_S), payload_bytes=64
    )
    return Study(
        name="captured",
        goals=Goals("Does the wire agree?"),
        system=System((BrokerChoice("mosquitto", "mosquitto"),)),
        metrics=("latency", "delivery", "traffic"),
        scenario=Scenario(workload, (Factor("broker", ("mosquitto",)),)),
        deploy=Deploy(repetitions=1, captures=TAPS, phases=Phases(warmup_s=0.3, measure_s=SECONDS, drain_s=1.5)),
        analysis=OPEN,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory, spark):
    if not isinstance(driver("mosquitto").find(), Found):
        pytest.skip("needs Mosquitto")
    if why := reason_deaf():
        pytest.skip(why)
    results, own = StudyDirectory(tmp_path_factory.mktemp("captured")), study()
    make_runs(own, make_plan(own, missing={}), results, watcher=Silent())
    results.study.write_text("study: captured\ngoals:\n  question: Does the wire agree?\n")
    analyze(spark, results)
    return results


def rows(results, table):
    return read_table(results, table).to_pylist()


def on_the_wire_in_measure(results):
    """(fewest, most) publications: each passed it between its sending and its acknowledgement, however late it was."""
    (run,) = results.runs()
    (measure,) = [phase for phase in run.manifest()["phases"] if phase["name"] == "measure"]
    start_ns, end_ns = measure["start_ns"], measure["end_ns"]
    publications = ds.dataset(run.raw("publications"), format="parquet").to_table().to_pylist()
    times_ns = [(row["sent_ns"], row["acked_ns"]) for row in publications]
    return (
        sum(start_ns <= sent_ns and acked_ns < end_ns for sent_ns, acked_ns in times_ns),
        sum(start_ns <= acked_ns and sent_ns < end_ns for sent_ns, acked_ns in times_ns),
    )


def test_the_wire_has_as_many_publications_as_the_clients(results):
    """Each in the measure phase, to the broker and to every subscriber; none twice."""
    legs = {row["leg"]: row for row in rows(results, "legs") if row["tap"] == "broker"}
    (ledger,) = rows(results, "delivery")
    (publishes,) = [
        row
        for row in rows(results, "traffic")
        if (row["tap"], row["phase"], row["packet_type"]) == ("broker", "measure", "PUBLISH")
    ]

    fewest, most = on_the_wire_in_measure(results)
    assert 0 < fewest <= legs["to broker"]["messages"] <= most
    assert legs["from broker"]["messages"] == legs["through broker"]["messages"]
    assert legs["from broker"]["messages"] == SUBSCRIBERS * legs["to broker"]["messages"]
    assert publishes["to_broker_packets"] == legs["to broker"]["messages"]
    assert ledger["lost"] == 0
    assert legs["through broker"]["unmatched"] == legs["through broker"]["ambiguous"] == 0


def test_every_publication_of_the_run_is_on_the_wire(results):
    """But for the proof of readiness, which comes before the capture."""
    (ledger,) = rows(results, "delivery")
    (run,) = results.runs()
    manifest = run.manifest()
    others = manifest.get("besides", {}).get("publications", 0)
    for tap in ("broker", "publisher"):
        publishes = [row for row in rows(results, "traffic") if (row["packet_type"], row["tap"]) == ("PUBLISH", tap)]

        assert sum(row["to_broker_packets"] for row in publishes) == ledger["published"] + others


def test_time_in_the_broker_is_within_what_the_clients_saw(results):
    """Between the two stand our own sockets: the wire's time is shorter."""
    through, apart = (
        next(row for row in rows(results, "legs") if (row["leg"], row["tap"]) == ("through broker", tap))
        for tap in ("broker", "publisher → subscriber")
    )
    latency = {row["kind"]: row for row in rows(results, "latency") if row["group"] == "all"}

    fewest, most = on_the_wire_in_measure(results)
    assert SUBSCRIBERS * fewest <= through["messages"] <= SUBSCRIBERS * most
    assert 0 < through["p50_ms"] <= 1.1 * latency["intended"]["p50_ms"]
    assert through["negative_count"] == apart["negative_count"] == 0
    assert apart["messages"] == through["messages"]


def test_nothing_of_the_capture_was_left_unread(results):
    captures = rows(results, "captures")

    assert [capture["tap"] for capture in captures] == ["broker", "publisher", "subscriber"]
    for capture in captures:
        assert (capture["problems"], capture["file_bytes_unread"], capture["gaps"]) == ([], 0, 0)
        assert capture["connections"] >= PUBLISHERS + SUBSCRIBERS
        assert (capture["foreign"], capture["stream_bytes_unread"]) == (0, 0)


def test_the_report_shows_the_wire(results):
    page = write_report(results).read_text(encoding="utf-8")

    assert "On the wire" in page
    assert "through broker" in page
