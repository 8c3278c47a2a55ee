"""Publishers that control messages start (C-02), in whole runs on Mosquitto and on a broker that loses the start."""

from dataclasses import replace

import pyarrow.dataset as ds
import pytest

from brokerlab.brokers.base import Missing
from brokerlab.brokers.registry import driver
from brokerlab.lab import starting
from brokerlab.lab.run import make_run
from brokerlab.load.starting import START
from brokerlab.record.directory import RunDirectory
from brokerlab.study.plan import make_plan
from brokerlab.study.secret import Secret
from brokerlab.study.table import FilterTable
from brokerlab.study.values import (
    Arrivals,
    BrokerChoice,
    Certificates,
    Credentials,
    Deploy,
    Echo,
    Factor,
    Goals,
    Phases,
    Probe,
    Qos,
    Roles,
    Scenario,
    Schedule,
    Start,
    Study,
    System,
    Topics,
    Transport,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.brokers

PHASES = Phases(warmup_s=0.2, measure_s=0.4, drain_s=5)
PER_S, MESSAGES = 50, 30  # of each publisher
CONSTANT = Schedule(rate_per_s=PER_S)


class Silent:
    def phase_started(self, name, seconds):
        """Nobody watches a test."""


def run(folder, workload, broker):
    """The manifest of one run, and a reader of its raw rows."""
    study = Study(
        "start",
        Goals("Do they wait?"),
        System((broker,)),
        ("latency",),
        Scenario(replace(workload, start=Start.CONTROL), (Factor("broker", (broker.name,)),)),
        deploy=Deploy(repetitions=1, phases=PHASES),
        analysis=OPEN,
    )
    directory = RunDirectory(folder / "run")
    make_run(make_plan(study, missing={}).runs[0], study, directory, watcher=Silent())
    return directory.manifest(), lambda kind: rows_of(directory.raw(kind))


def rows_of(folder):
    return ds.dataset(folder, format="parquet").to_table().to_pylist() if folder.exists() else []


@pytest.fixture(scope="module")
def mosquitto():
    if isinstance(found := driver("mosquitto").find(), Missing):
        pytest.skip(found.reason)
    return BrokerChoice("m", "mosquitto")


SEVERAL = Topics("t/{publisher}", "t/+", reply="r/{publisher}")
ADMITTED = {
    "protocol": "5.0",
    "transport": Transport.TLS,
    "certificates": Certificates.EACH,
    "credentials": Credentials("device-{client}", Secret("not-told")),
}
RUNS = {
    "one-way": (
        Workload(schedule=CONSTANT, probe=Probe(every_s=0.1), subscriptions=FilterTable(10, churn_per_s=50)),
        1,
    ),
    "tls": (Workload(schedule=Schedule(Arrivals.JITTER, PER_S), qos=Qos(1), **ADMITTED), 1),
    "echo": (Workload(publishers=2, topics=SEVERAL, schedule=CONSTANT, role=Roles.ECHO, qos=Qos(2), echo=Echo()), 2),
    "loop": (Workload(schedule=Schedule(Arrivals.BURST, PER_S, burst=5), role=Roles.LOOP, qos=Qos(1)), 1),
}


@pytest.fixture(scope="module", params=RUNS)
def made(request, tmp_path_factory, mosquitto):
    """(publishers, manifest, rows) of each run."""
    workload, publishers = RUNS[request.param]
    return publishers, *run(tmp_path_factory.mktemp(request.param), workload, mosquitto)


def test_every_message_is_followed(made):
    """Valid is also that the broker counts as many messages and bytes as we do, the control messages with them."""
    publishers, manifest, rows = made

    assert manifest["verdict"] == {"value": "valid", "reasons": []}
    every = [(publisher, seq) for publisher in range(publishers) for seq in range(MESSAGES)]
    assert sorted((row["publisher"], row["seq"]) for row in rows("publications")) == every
    assert sorted((row["publisher"], row["seq"]) for row in rows("deliveries")) == every


def test_the_schedule_is_counted_from_the_start_message_on(made):
    _, manifest, rows = made

    took_ms = manifest["start_ms"]
    assert 0 < took_ms["command_to_arrival"] <= took_ms["command_to_first_message"]
    phases = {phase["name"]: phase for phase in manifest["phases"]}
    start_ns, published = phases["warmup"]["start_ns"], rows("publications")
    assert phases["measure"]["start_ns"] - start_ns == 200_000_000
    assert phases["measure"]["end_ns"] - start_ns == 600_000_000
    assert min(row["intended_ns"] for row in published) >= start_ns
    first_ns = min(row["sent_ns"] for row in published)
    commanded_ns = start_ns - took_ms["command_to_arrival"] * 1e6
    assert start_ns <= first_ns <= commanded_ns + took_ms["command_to_first_message"] * 1e6 + 1_000  # rounding


def test_the_control_messages_are_counted_beside_the_load(made):
    _, manifest, rows = made

    others = len(rows("probe_publications")) + len(rows("device_publications"))
    assert manifest["besides"]["publications"] - others == 2
    assert manifest["besides"]["payload_bytes"] > len(START)


def test_a_start_message_that_never_arrives_collapses_the_run(tmp_path, monkeypatch):
    """The first control message is let through, the second is not."""
    monkeypatch.setattr(starting, "ARRIVAL_S", 0.5)
    manifest, rows = run(tmp_path, Workload(schedule=CONSTANT), BrokerChoice("liar", "scripted", options={"drop": [2]}))

    assert manifest["verdict"] == {
        "value": "collapsed",
        "reasons": ["waited 0.5 s in vain for the start message to arrive; silent: publishers/0"],
    }
    assert rows("publications") == []
