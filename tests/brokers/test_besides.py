"""Clients beside the load, through whole runs: what befalls them is told, and they come back after a fault."""

from collections import Counter

import pyarrow.dataset as ds
import pytest

from brokerlab.brokers.base import Missing
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.cli.studies import _facts
from brokerlab.lab.run import make_run
from brokerlab.lab.watching import Watcher
from brokerlab.record.directory import RunDirectory
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from open_guards import OPEN_TEXT

pytestmark = pytest.mark.brokers

STUDY = (
    """\
brokerlab: 1
study: besides
goals: {{question: What befalls those beside the load?}}
system: {{brokers: {{b: {broker}}}}}
metrics: [latency, delivery]
scenario:
  workload: {workload}
{faults}
deploy: {{repetitions: 1, phases: {{warmup: 0.2 s, measure: {measure}, drain: {drain}}}}}
"""
    + OPEN_TEXT
)


class Nobody(Watcher):
    def phase_started(self, name, seconds):
        pass


def run(folder, *, broker, workload, measure="0.5 s", drain="1 s", faults=""):
    """(verdict, manifest) of one run."""
    file = folder / "study.yaml"
    texts = {"broker": broker, "workload": workload, "measure": measure, "drain": drain, "faults": faults}
    file.write_text(STUDY.format(**texts))
    study = read_study(file, drivers={name: _facts(each, each.find()) for name, each in DRIVERS.items()})
    directory = RunDirectory(folder / "run")
    verdict = make_run(make_plan(study, missing={}).runs[0], study, directory, watcher=Nobody())
    return verdict, directory.manifest()


def test_a_device_that_was_refused_its_subscription_collapses_the_run(tmp_path):
    """Of four SUBSCRIBEs, in an order that nobody knows, two are subscribers' and two are devices'."""
    script = "{driver: scripted, options: {refuse_subscription: [1, 2, 3, 4]}}"
    workload = "{role: echo, publishers: 2, qos: 1, schedule: {rate: 20/s}}"

    verdict, _ = run(tmp_path, broker=script, workload=workload)

    assert verdict.value == "collapsed"
    assert verdict.reasons[:2] == (
        "the broker refused the subscriptions of 2 subscribers",
        "the broker refused the subscriptions of 2 devices",
    )


@pytest.mark.parametrize("shape", ["depth: 5", "length: 60 B", "depth: 4, length: 60 B"])
def test_answers_are_known_where_the_topics_of_the_questions_are_padded(tmp_path, shape):
    """Of two bytes none tells the publisher: the topic of the answer does, which has no padding."""
    workload = f"{{role: echo, publishers: 2, qos: 1, payload: 2 B, topics: {{{shape}}}, schedule: {{rate: 20/s}}}}"

    verdict, _ = run(tmp_path, broker="{driver: scripted}", workload=workload)

    assert verdict.value == "valid", verdict.reasons
    sent, heard = (
        sorted((row["publisher"], row["seq"]) for row in rows(tmp_path, kind))
        for kind in ("publications", "deliveries")
    )
    assert sent == heard


def test_devices_retain_nothing_and_wipe_out_nothing(tmp_path):
    """Of a load that is retained, on a broker that counts everything: five wills, five topics."""
    retained = "retain: true, will: {retain: true, share: 100 %}"
    workload = f"{{role: echo, publishers: 5, qos: 1, {retained}, schedule: {{rate: 20/s}}}}"

    verdict, manifest = run(tmp_path, broker="{driver: amqtt}", workload=workload)

    assert verdict.value == "valid", verdict.reasons
    assert manifest["besides"]["publications"] == len(rows(tmp_path, "publications")) + 5 + 5
    assert {row["retain"] for row in rows(tmp_path, "publications")} == {True}
    assert {row["retain"] for row in rows(tmp_path, "device_publications")} == {False}


def test_probes_that_do_not_come_are_counted(tmp_path):
    """Nobody knows which of the messages are probes, so all are dropped from the sixtieth on: in the first second."""
    script = f"{{driver: scripted, options: {{drop: {list(range(60, 200))}}}}}"
    workload = "{schedule: {rate: 50/s}, probe: {every: 50 ms, qos: 0}}"

    _, manifest = run(tmp_path, broker=script, workload=workload, measure="2 s")

    told = manifest["probes"]
    measured = next(each for each in manifest["phases"] if each["name"] == "measure")
    came = [row for row in rows(tmp_path, "probe_deliveries") if row["intended_ns"] >= measured["start_ns"]]
    assert (told["published"], told["unsent"]) == (40, 0)
    assert told["came"] == len(came) > 0
    assert told["lost"] == 40 - len(came) > 0


def rows(folder, kind):
    return ds.dataset(RunDirectory(folder / "run").raw(kind), format="parquet").to_table().to_pylist()


def struck_run(folder, workload, faults):
    """(manifest, when the last fault was done) of a run on Mosquitto that is valid all the same."""
    if isinstance(found := driver("mosquitto").find(), Missing):
        pytest.skip(found.reason)
    verdict, manifest = run(
        folder, broker="{driver: mosquitto}", workload=workload, measure="4 s", drain="20 s", faults=faults
    )
    assert verdict.value == "valid", verdict.reasons
    return manifest, manifest["faults"][-1]["at_ns"]


def test_all_beside_the_load_come_back_after_a_restart(tmp_path):
    table = "{table: 1201, churn: 50/s, clients: 2}"
    workload = (
        f"{{schedule: {{rate: 20/s}}, probe: {{every: 100 ms, qos: 1}}, clients: {{idle: 3}}, subscriptions: {table}}}"
    )

    manifest, at_ns = struck_run(tmp_path, workload, "  faults: [{do: restart, node: 0, at: 1 s}]")

    workers = {each["node"]: each for each in manifest["meter"]["workers"]}
    assert {node: each["away"] for node, each in workers.items()} == dict.fromkeys(workers, 0)
    came = Counter(
        row["node"] for row in rows(tmp_path, "sessions") if row["event"] == "connack" and row["at_ns"] > at_ns
    )
    assert (came["idle/0"], came["filters/0"], came["probe/0"]) == (3, 2, 1)
    assert manifest["probes"]["published"] == 40
    probes = {row["seq"] for row in rows(tmp_path, "probe_publications") if row["intended_ns"] > at_ns + 10**9}
    assert len(probes) >= 10
    assert probes <= {row["seq"] for row in rows(tmp_path, "probe_deliveries")}
    told = manifest["table"]
    assert told["refilled"] in range(1199, 1204)
    assert told["standing"] == told["filled"] + told["changes"]["subscribe"] - told["changes"]["unsubscribe"]
    assert sum(told["changes"].values()) + told["unsent"] == 210


@pytest.mark.parametrize("role", ["loop", "echo"])
def test_who_hears_over_the_connection_on_which_it_publishes_subscribes_anew(tmp_path, role):
    """The broker closes instead of sending message 5, which in an echo is for a device, unless that is slow."""
    script = "{driver: scripted, options: {cut: {5: 0}}}"
    workload = f"{{role: {role}, qos: 1, schedule: {{rate: 20/s}}, clients: {{reconnect: true}}}}"

    verdict, _ = run(tmp_path, broker=script, workload=workload, measure="2 s")

    assert verdict.reasons[0].startswith("the broker ended 1 connections")
    last = sorted(row["seq"] for row in rows(tmp_path, "publications"))[-10:]
    assert set(last) <= {row["seq"] for row in rows(tmp_path, "deliveries")}


def test_who_cannot_come_back_is_told(tmp_path):
    workload = (
        "{schedule: {rate: 20/s}, probe: {every: 100 ms, qos: 1}, clients: {idle: 3}, "
        "subscriptions: {table: 10, churn: 50/s, clients: 2}}"
    )

    manifest, _ = struck_run(tmp_path, workload, "  faults: [{do: kill, node: 0, at: 1 s}]")

    away = {each["node"]: each["away"] for each in manifest["meter"]["workers"]}
    assert (away["idle/0"], away["filters/0"], away["probe/0"], away["publishers/0"]) == (3, 2, 1, 1)
    probes, told = manifest["probes"], manifest["table"]
    assert probes["published"] + probes["unsent"] == 40
    assert (told["filled"], told["refilled"], told["standing"]) == (10, 0, 0)
    assert sum(told["changes"].values()) + told["unsent"] == 210
    assert told["unsent"] > 100
