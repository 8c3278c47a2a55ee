"""Ensembles over networks, as a user starts them: distance, cut links, and gateways that close at once."""

import json
import subprocess
import sys
from collections import Counter

import pyarrow.dataset as ds
import pytest
from network_rig import needs_networks

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver
from open_guards import OPEN_TEXT

pytestmark = [
    needs_networks,
    pytest.mark.skipif(not isinstance(driver("mosquitto").find(), Found), reason="needs Mosquitto"),
]

LINK_MS = 0.3  # what a link may be off its claim

HEAD = (
    """
brokerlab: 1
study: several
goals: {question: What does distance cost?}
metrics: [latency, delivery]
"""
    + OPEN_TEXT
)

DISTANCE = """
system: {brokers: {mosquitto: {driver: mosquitto}}, ensemble: {nodes: 3, join: bridge}}
scenario:
  workload:
    publishers: 1
    subscribers: 2
    topics: {publish: "a/{publisher}", subscribe: "a/#"}
    schedule: {rate: 20/s}
    qos: 0
  variables: {rtt: [5 ms, 50 ms], locality: [0 %, 100 %]}
  topology: {shape: mesh, sites: 3}
deploy: {repetitions: 1, phases: {idle: 0.5 s, warmup: 0.2 s, measure: 1 s, drain: 3 s}}
"""

CUT = """
system: {brokers: {mosquitto: {driver: mosquitto}}, ensemble: {nodes: 3, join: bridge}}
scenario:
  workload:
    publishers: 1
    subscribers: 3
    topics: {publish: "a/{publisher}", subscribe: "a/#"}
    schedule: {rate: 20/s}
    qos: 1
  topology: {shape: mesh, sites: 3, rtt: 5 ms}
  faults: [{do: cut, link: router1-router2, at: 0.5 s}]
deploy: {repetitions: 1, phases: {warmup: 0.2 s, measure: 12 s, drain: 5 s}}
"""

GATEWAYS = """
system:
  brokers: {mosquitto: {driver: mosquitto}}
  ensemble:
    nodes: 2
    join: bridge
    bridges: star
    bridge: {ways: inward, transform: [{python: brokerlab.bridge.paper004.converted}]}
scenario:
  workload:
    publishers: 2
    subscribers: 1
    topics: {publish: "hub/{publisher}", subscribe: "hub/#"}
    payload: {each: [125528 B, 1517 B]}
    schedule: {rate: 5/s}
    protocol: "5.0"
  variables: {qos: [0, 1], behaviour: [per-message, per-message-abrupt]}
  placement: {publishers: {share: [0 %, 100 %]}, subscribers: one}
  topology: {shape: chain, sites: 2, rtt: 5 ms, switch_clients: {rtt: 40 ms}}
deploy: {repetitions: 1, phases: {warmup: 0 s, measure: 3 s, drain: 4 s}}
"""


def made(folder, text):
    """Manifest and folder of every run, by its levels."""
    (folder / "several.yaml").write_text(HEAD + text, encoding="utf-8")
    words = [sys.executable, "-m", "brokerlab.cli.main", "run", "several.yaml", "--out", "out", "--stop-after", "runs"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    runs = [(json.loads(path.read_text()), path.parent) for path in folder.glob("out/runs/*/*/manifest.json")]
    assert runs, done.stdout + done.stderr
    assert all(manifest["verdict"]["value"] == "valid" for manifest, _ in runs), done.stdout + done.stderr
    return runs


def rows(folder, name):
    return ds.dataset(folder / name, format="parquet").to_table().to_pylist()


def test_what_crosses_takes_one_way_of_the_rtt_longer(tmp_path):
    """B-11, B-12, B-13, B-20: as the topology says it must; by the least, which a busy machine moves least."""
    least, phases = {}, set()
    for manifest, folder in made(tmp_path, DISTANCE):
        levels = manifest["run"]["levels"]
        taken = [row["received_ns"] - row["intended_ns"] for row in rows(folder, "deliveries")]
        least[levels["rtt"], levels["locality"]] = min(taken) / 1e6
        phases |= {phase["name"] for phase in manifest["phases"]}

    for rtt_ms in (5.0, 50.0):
        assert least[rtt_ms, 0.0] >= least[rtt_ms, 100.0] + rtt_ms / 2 - LINK_MS
    assert least[50.0, 0.0] >= least[5.0, 0.0] + (50 - 5) / 2 - LINK_MS
    assert {"idle", "connect", "subscribe", "measure"} <= phases


def test_a_link_of_the_tree_that_is_cut_is_gone_round(tmp_path):
    """F-05, F-06, F-09: stock bridges along (0, 1) and (0, 2); without the first link node 1 is reached by node 2."""
    ((manifest, folder),) = made(tmp_path, CUT)

    relaid = manifest["relaid"][0]
    assert (relaid["cut"], relaid["lost"], relaid["laid"]) == (["router1-router2"], [], [[1, 2]])
    assert relaid["crossed"]["ways"] == 6
    cut_ns = manifest["faults"][0]["at_ns"]
    mended_ns = relaid["at_ns"] + relaid["crossed_s"] * 1e9
    assert cut_ns <= relaid["at_ns"]
    late = Counter(row["subscriber"] for row in rows(folder, "deliveries") if row["intended_ns"] > mended_ns)
    assert len(late) == 3


def test_gateways_that_close_at_once_lose_large_messages_and_drained_ones_none(tmp_path):
    """X-05, X-11, X-13: what is lost never left the gateway's socket, and what the bridge took arrives."""
    for manifest, folder in made(tmp_path, GATEWAYS):
        published = Counter(row["publisher"] for row in rows(folder, "publications"))
        sizes = Counter((row["publisher"], row["payload_bytes"]) for row in rows(folder, "deliveries"))
        taken = sum(row["received"] for row in manifest["bridging"] if row["to"] == 0)
        assert set(sizes) <= {(0, 11_076), (1, 518)}
        assert taken == sum(sizes.values())
        assert manifest["payloads"]["received_bytes"] == sum(size * number for (_, size), number in sizes.items())
        if manifest["run"]["levels"]["behaviour"] == "per-message":
            assert sizes == {(0, 11_076): published[0], (1, 518): published[1]}
            assert manifest["meter"]["closes"] == []
        else:
            large, small = manifest["meter"]["closes"]
            assert sizes[0, 11_076] < published[0]
            assert large["left_bytes_max"] > 0
            assert published[0] - sizes[0, 11_076] <= large["closes"] - large["whole"]
            assert small["closes"] == published[1]
