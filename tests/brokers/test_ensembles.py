"""Ensembles as a run sees them, on real brokers: laid, proved, laid anew, and what is said when they do not form.

Mosquitto alone is needed; the contract suite of ensembles proves what each broker's own cluster and bridge do.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
from broker_rig import CHOICE, is_running
from ensemble_rig import ROUNDS, Silent, crossings, wait_until

from brokerlab.brokers.base import Group, Security
from brokerlab.brokers.process import owns_listener
from brokerlab.brokers.registry import driver
from brokerlab.cli.probing import probe
from brokerlab.errors import RunError
from brokerlab.lab import ensemble as lab_ensemble
from brokerlab.lab.ensemble import Nodes, Setup
from brokerlab.lab.probe.joined import look, opened_ensemble
from brokerlab.lab.run import make_run
from brokerlab.lab.stand import on_loopback
from brokerlab.record.directory import RunDirectory
from brokerlab.record.probes import read_probes
from brokerlab.report.border_probes import crossing
from brokerlab.report.drivers import KnownDriver
from brokerlab.study.ensemble_values import BridgeShape, Ensemble, Join
from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from brokerlab.study.values import BrokerChoice

MOSQUITTO = BrokerChoice("mosquitto", "mosquitto")
LONG = pytest.mark.skipif(CHOICE not in os.environ, reason="takes 10 s, mostly of waiting: make test-brokers")
STUDY = """\
brokerlab: 1
study: joined
goals:
  question: What crosses?
system:
  brokers:
    mosquitto: {driver: mosquitto}
  ensemble: {nodes: 3, join: bridge, bridges: chain}
metrics: [latency, delivery]
scenario:
  workload:
    publishers: 2
    subscribers: 4
    schedule: {rate: 20/s}
    qos: 1
  locality: 50 %
deploy:
  repetitions: 1
  phases: {warmup: 0 s, measure: 2 s, drain: 5 s}
"""

MIXED = """\
    one: {driver: mosquitto}
    two: {driver: amqtt}
"""


class Killing(Silent):
    """Kills a node as the measure phase begins."""

    def __init__(self, folder):
        self._folder = str(folder.absolute())

    def phase_started(self, name, seconds):
        if name == "measure":
            everybody = psutil.process_iter(["cmdline"])
            (node,) = [each for each in everybody if self._folder in " ".join(each.info["cmdline"] or ())]
            node.kill()


def setup(folder, nodes, *, join=Join.BRIDGE, bridges=BridgeShape.TREE):
    private = folder / "private"
    private.mkdir(mode=0o700)
    return Setup(
        Ensemble(nodes, join, bridges),
        (MOSQUITTO,) * nodes,
        on_loopback(nodes),
        folder / "nodes",
        security=Security(folder=private),
    )


def planned(tmp_path, *settings):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY, encoding="utf-8")
    study = read_study(path, settings=settings, drivers={"mosquitto": DriverFacts()})
    (run,) = make_plan(study, missing={}).runs
    return study, run


def manifest_of(directory):
    return json.loads(directory.manifest_path.read_text(encoding="utf-8"))


def pids_of(nodes):
    return [pid for each in (*nodes.processes, *nodes.joints.values()) for pid in each.pids()]


def test_tree_of_a_mesh_is_laid_and_laid_anew_when_a_node_is_killed(tmp_path):
    """MQTT-ST's purpose with stock brokers (F-05, F-09, F-10): five processes of a single-threaded broker."""
    with Nodes(setup(tmp_path, 5)) as nodes:
        assert nodes.pairs == ((0, 1), (0, 2), (0, 3), (0, 4))
        assert (nodes.crossed.ways, nodes.crossed.qos, nodes.crossed.duplicates) == (20, (0, 1, 2), 0)
        core = max(os.sched_getaffinity(0))
        nodes.keep_to([core])
        os.kill(nodes.processes[0].pid, signal.SIGKILL)
        while nodes.processes[0].is_alive():
            time.sleep(0.01)

        found = nodes.lay_anew({0})

        assert found.pairs == found.laid == ((1, 2), (1, 3), (1, 4))
        assert (found.crossed.ways, found.crossed.duplicates) == (12, 0)
        assert 0 < found.laid_s < found.crossed_s
        assert {pid: {core} for pid in pids_of(nodes)} == {pid: os.sched_getaffinity(pid) for pid in pids_of(nodes)}

        door, *_ = nodes.doors()
        nodes.revive(0, lost=())

        # The brokers' own bridges come back with it: beside those that were laid around it they would be a loop.
        assert (nodes.pairs, nodes.joints) == (nodes.setup.pairs, {})
        assert os.sched_getaffinity(nodes.processes[0].pid) == {core}
        wait_until(lambda: owns_listener(nodes.processes[0], door.host, door.port), "the node listens again")
        came = sorted((start, end, payload) for start, end, payload, _ in crossings(nodes, 0))
        assert came == [(start, end, n) for start in range(5) for end in range(5) for n in range(ROUNDS)]


def test_run_at_three_nodes_knows_what_crossed(tmp_path):
    """B-11: half of the subscribers are at the node of the publishers, and every delivery is accounted for."""
    study, run = planned(tmp_path)
    directory = RunDirectory(tmp_path / "run")
    verdict = make_run(run, study, directory, watcher=Silent())
    manifest = manifest_of(directory)

    assert verdict.value != "collapsed", verdict
    assert [node["node"] for node in manifest["broker"]["nodes"]] == ["broker/0", "broker/1", "broker/2"]
    assert manifest["broker"]["bridges"] == [[0, 1], [1, 2]]
    assert manifest["broker"]["hops"] == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    assert (manifest["crossing"]["ways"], manifest["members"]["departures"]) == (6, [])
    assert manifest["placement"]["local_percent"] == 50
    (home,) = {client["node"] for client in manifest["clients"]["publishers"]}
    nodes = [client["node"] for client in manifest["clients"]["subscribers"]]
    assert nodes.count(home) == 2
    workers = {worker["node"]: worker["messages"] for worker in manifest["meter"]["workers"]}
    assert workers.pop(f"publishers/{home}") == 80
    assert workers == {f"subscribers/{node}": 80 * nodes.count(node) for node in set(nodes)}


@LONG
def test_node_that_dies_in_a_run_is_noted_and_the_tree_laid_anew(tmp_path):
    study, run = planned(tmp_path, "scenario.locality=100 %", "deploy.phases.measure=4 s")
    directory = RunDirectory(tmp_path / "run")
    verdict = make_run(run, study, directory, watcher=Killing(directory.broker / "2"))
    manifest = manifest_of(directory)

    assert verdict.value == "invalid"
    assert "node 2 died in the run: it ended by signal 9" in verdict.reasons
    (departure,) = manifest["members"]["departures"]
    assert (departure["node"], departure["is_dead"], departure["is_planned"]) == (2, True, False)
    (relaid,) = manifest["relaid"]
    assert (relaid["lost"], relaid["pairs"], relaid["laid"]) == ([2], [[0, 1]], [])
    assert relaid["crossed"]["ways"] == 2


def test_cluster_that_does_not_form_says_which_pair_and_leaves_nothing(tmp_path, monkeypatch):
    """Nodes that know nothing of each other, as those of a cluster whose ports are blocked."""

    class Apart:
        name, abilities = "mosquitto", replace(driver("mosquitto").abilities, has_clusters=True)

        def cluster(self, choice, seats, *, security):
            nodes = [
                driver("mosquitto").node(choice, folder=seat.folder, host=seat.host, port=seat.port, security=security)
                for seat in seats
            ]
            return Group(tuple(replace(node, ready_s=2.0) for node in nodes), is_together=True)

    monkeypatch.setattr(lab_ensemble, "driver", lambda _name: Apart())
    nodes = Nodes(setup(tmp_path, 3, join=Join.CLUSTER))
    with pytest.raises(RunError) as caught, nodes:
        pass

    message = caught.value.message
    assert "the cluster of 3 nodes does not form: no message came from node 0 to node 1 at QoS 0" in message
    assert "nor between 5 other pairs" in message
    assert "mosquitto version" in message  # of the log of a node
    assert not any(process.is_alive() for process in nodes.processes)


@LONG
def test_probe_tells_what_crosses_bridges_of_mosquitto():
    """Retained messages and wills go over a bridge as messages do; sessions and groups are those of one node."""
    with opened_ensemble("mosquitto", nodes=2, join="bridge") as joined:
        found = look(joined)

    assert {name: [seen.crosses for seen in ways] for name, ways in found.items()} == {
        "retained": [True, True],
        "session": [False, False],
        "takeover": [False, False],
        "share": [False, False],
        "will": [True, True],
    }


@LONG
def test_probe_that_is_kept_stands_in_table_1_of_the_report(tmp_path, capsys):
    """`brokers probe mosquitto --nodes 2 --keep DIR`, and what the report makes of its file."""
    (tmp_path / "runs").mkdir()

    code = probe(["mosquitto"], nodes=2, keep=tmp_path, json=True)

    printed, ((kept,), problems) = json.loads(capsys.readouterr().out), read_probes(tmp_path / "probes")
    assert (code, problems) == (0, ())
    assert {name: kept[name] for name in printed} == printed
    entry = crossing({"cluster": "", "bridge": "yes"}, [KnownDriver("mosquitto", "Debian")], [kept])
    assert (entry.text, entry.mark) == ("bridge of 2", "")
    assert "across: messages at QoS 0, 1 and 2, retained, will; session, takeover, share: does not cross" in entry.below


@LONG
def test_killed_brokerlab_leaves_nothing_of_an_ensemble_that_clean_does_not_remove(tmp_path):
    """Nodes of two brokers and a bridge of ours between them (F-08), cut off by SIGKILL in the midst of a run."""
    text = STUDY.replace("    mosquitto: {driver: mosquitto}\n", MIXED).replace(
        "bridges: chain}", "members: [one, two]}"
    )
    path, results = tmp_path / "study.yaml", tmp_path / "results"
    path.write_text(text.replace("measure: 2 s", "measure: 60 s"), encoding="utf-8")
    state = tmp_path / "state"
    env = os.environ | {"BROKERLAB_STATE": str(state)}
    program = [sys.executable, "-m", "brokerlab.cli.main"]
    run = subprocess.Popen(
        [*program, "run", str(path), "--out", str(results)],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 200
        while not any('"crossing"' in each.read_text() for each in results.glob("runs/*/1/manifest.json")):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        started = [each.pid for each in psutil.Process(run.pid).children(recursive=True)]
        assert len(started) >= 4  # three nodes and a bridge; workers come after
    finally:
        run.kill()
        run.wait()

    subprocess.run([*program, "clean"], env=env, check=True, capture_output=True)

    deadline = time.monotonic() + 20
    while left := [pid for pid in started if is_running(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert not list(state.glob("*"))
    nodes = results / "runs" / "broker-one" / "1" / "broker"
    assert {each.name for each in nodes.iterdir()} >= {"0", "1", "2", "0.log", "joint-0-1"}
    assert not list(nodes.glob("*/data"))
