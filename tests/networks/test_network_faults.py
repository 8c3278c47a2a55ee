"""Faults of links, nodes and disks on a cluster over three sites, at every QoS: each bites as long as it lasts, and the
rows of the table faults sum to the ledger (F-06, F-07). A schedule of chance is judged by the ledger.

NATS comes with brokerlab, so nothing has to be installed; one publisher and one subscriber are at each node.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from network_rig import needs_networks

from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from open_guards import OPEN_TEXT

pytestmark = needs_networks

HEAD = (
    OPEN_TEXT
    + """
brokerlab: 1
study: struck
goals: {question: What do faults cost?}
system: {brokers: {nats: {driver: nats, preset: durable}}, ensemble: {nodes: 3, join: cluster}}
metrics: [latency, delivery]
scenario:
  placement: {publishers: round-robin, subscribers: round-robin}
  variables: {qos: [0, 1, 2]}
  topology: {shape: mesh, sites: 3, rtt: 4 ms}
"""
)
LOAD = """
  workload:
    publishers: 3
    subscribers: 3
    topics: {publish: "a/{publisher}", subscribe: "a/#"}
    schedule: {rate: 20/s}
"""
PLANNED = """
  faults:
    - {do: slow, link: router1-router2, to: {rtt: 300 ms}, at: 1 s, for: 1 s}
    - {do: cut, link: router1-router2, at: 4 s, for: 1 s}
    - {do: partition, sites: [3], at: 7 s, for: 1 s}
    - {do: stop, node: 2, at: 10 s, for: 1 s}
    - {do: files, node: 1, at: 13 s, for: 1 s}
    - {do: disk, node: 0, at: 16 s, for: 1 s}
    - {do: storm, delivered: 2200}  # between stop and files, also where a few are late
deploy: {repetitions: 1, phases: {warmup: 1 s, measure: 19 s, drain: 6 s}}
"""
CHANCE = """
    clients: {session: persistent}
  nemesis: {faults: 3, of: [stop, restart, storm, cut], for: 1 s}
deploy: {repetitions: 1, phases: {warmup: 1 s, measure: 12 s, drain: 12 s}}
"""
KINDS = ["slow", "cut", "partition", "stop", "files", "disk", "storm"]
S, MS = 1_000_000_000, 1_000_000
SETTLED_NS = 300 * MS  # a fault is done within a look of the lab, and what was under way has arrived


@dataclass(frozen=True)
class Struck:
    """One run: what its manifest says, and its messages, which carry publisher and subscriber: nodes of that number."""

    manifest: dict
    folder: Path

    @property
    def qos(self) -> int:
        return self.manifest["run"]["levels"]["qos"]

    def fault(self, kind):
        return next(each for each in self.manifest["faults"] if each["kind"] == kind)

    def arrivals(self, kind):
        """Deliveries while the fault was on, after a moment; both of their times are in it."""
        fault = self.fault(kind)
        low, high = fault["at_ns"] + SETTLED_NS, fault["end_ns"]
        rows = ds.dataset(self.folder / "deliveries", format="parquet").to_table().to_pylist()
        return [row for row in rows if low <= row["intended_ns"] and row["received_ns"] < high]

    def pairs(self, kind):
        return {(row["publisher"], row["subscriber"]) for row in self.arrivals(kind)}


def made(folder, text):
    (folder / "struck.yaml").write_text(HEAD + LOAD + text, encoding="utf-8")
    words = [sys.executable, "-m", "brokerlab.cli.main", "run", "struck.yaml", "--out", "out"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    runs = [Struck(json.loads(path.read_text()), path.parent) for path in folder.glob("out/runs/*/*/manifest.json")]
    assert len(runs) == 3, done.stdout + done.stderr
    assert all(run.manifest["verdict"]["value"] == "valid" for run in runs), done.stdout + done.stderr
    return sorted(runs, key=lambda run: run.qos), StudyDirectory(folder / "out")


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    return made(tmp_path_factory.mktemp("planned"), PLANNED)


@pytest.fixture(scope="module")
def chance(tmp_path_factory):
    return made(tmp_path_factory.mktemp("chance"), CHANCE)


def rows_of(results, name, run):
    run_id = run.manifest["run"]["id"]
    return [row for row in read_table(results, name).to_pylist() if row["run_id"] == run_id]


def assert_rows_sum_to_the_ledger(run, results):
    (ledger,), faults = rows_of(results, "delivery", run), rows_of(results, "faults", run)
    assert len(faults) == len(run.manifest["faults"]) + 1
    for name in ("expected", "delivered", "lost", "duplicated", "reordered"):
        assert sum(row[name] for row in faults) == ledger[name], (run.folder, name)
    for row in faults:
        for name in ("lost", "duplicated", "reordered"):
            assert row[name] == row[f"{name}_local"] + row[f"{name}_crossing"], (run.folder, name)


def test_every_fault_is_done_at_every_qos(planned):
    for run in planned[0]:
        done = run.manifest["faults"]
        assert sorted(each["kind"] for each in done) == sorted(KINDS)
        for each in done:
            if each["kind"] != "storm":
                assert each["end_ns"] - each["at_ns"] >= 1 * S, each


def test_rows_of_the_table_sum_to_the_ledger(planned):
    runs, results = planned
    for run in runs:
        assert_rows_sum_to_the_ledger(run, results)


def test_every_fault_has_its_times(planned):
    """Whatever broke, it came back: at QoS 0 nothing waits for a node that has lost its disk."""
    runs, results = planned
    faults = {row["kind"]: row for row in rows_of(results, "faults", runs[0]) if row["fault"]}
    for kind in KINDS:
        assert faults[kind]["to_first_ms"] > 0, kind
        assert faults[kind]["to_all_ms"] >= faults[kind]["to_first_ms"], kind
    assert faults["partition"]["to_all_ms"] >= 1000  # not before it is over
    assert any(faults[kind]["to_steady_ms"] is not None for kind in KINDS)


def test_a_slow_link_delays_what_passes_it_and_nothing_else(planned):
    run = planned[0][0]
    arrivals = run.arrivals("slow")
    there = [
        row["received_ns"] - row["intended_ns"] for row in arrivals if {row["publisher"], row["subscriber"]} == {0, 1}
    ]
    beside = [row["received_ns"] - row["intended_ns"] for row in arrivals if row["publisher"] == row["subscriber"]]
    assert there
    assert min(there) >= 150 * MS * 0.99
    assert min(beside) < 100 * MS


def test_what_is_cut_carries_nothing(planned):
    run = planned[0][0]
    assert not run.pairs("cut") & {(0, 1), (1, 0)}
    assert run.pairs("cut") >= {(0, 0), (1, 1), (2, 2), (0, 2), (2, 1)}
    assert run.pairs("partition") == {(0, 0), (1, 1), (2, 2), (0, 1), (1, 0)}


def test_a_node_that_is_stopped_says_nothing(planned):
    run = planned[0][0]
    assert not {pair for pair in run.pairs("stop") if 2 in pair}
    assert run.pairs("stop") == {(0, 0), (1, 1), (0, 1), (1, 0)}


def test_chance_is_judged_by_the_ledger_at_every_qos(chance):
    runs, results = chance
    for run in runs:
        assert len(run.manifest["faults"]) == 3
        assert_rows_sum_to_the_ledger(run, results)
        (ledger,) = rows_of(results, "delivery", run)
        assert ledger["verdict"] in ("kept", "broken", "unknown")
        if run.qos:
            is_lost = ledger["acknowledged_lost"] > 0 or (run.qos == 2 and ledger["duplicated"] > 0)
            assert (ledger["verdict"] == "broken") == is_lost
