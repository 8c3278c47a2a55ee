"""Whole runs over networks, as a user starts them: latency is at least what the links add (B-20), nothing is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from network_rig import hear_ctrl_c, left, needs_networks

from open_guards import OPEN_TEXT

pytestmark = needs_networks

# The guards are wide open: a test machine may be as busy as it likes.
STUDY = (
    """
brokerlab: 1
study: far
goals: {question: What does distance cost?}
system: {brokers: {embedded: {driver: amqtt}}}
metrics: [latency, delivery, network]
scenario:
  workload: {publishers: 2, subscribers: 2, schedule: {rate: 50/s}, qos: 1}
  variables: {rtt: [5 ms, 60 ms]}
  topology: {shape: chain, sites: 2}
deploy:
  repetitions: 1
  phases: {warmup: 200 ms, measure: 1 s, drain: 5 s}
  captures: [publisher, broker, router]
"""
    + OPEN_TEXT
)


def command(*words):
    return [sys.executable, "-m", "brokerlab.cli.main", *map(str, words)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The finished runs by their rtt: manifest and folder."""
    folder = tmp_path_factory.mktemp("far")
    (folder / "far.yaml").write_text(STUDY, encoding="utf-8")
    done = subprocess.run(
        command("run", "far.yaml", "--out", "out", "--stop-after", "runs"),
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    manifests = {path: json.loads(path.read_text()) for path in folder.glob("out/runs/*/*/manifest.json")}
    assert len(manifests) == 2, done.stdout + done.stderr
    return {manifest["run"]["levels"]["rtt"]: (manifest, path.parent) for path, manifest in manifests.items()}


def least_latency_ms(folder: Path) -> float:
    table = pq.read_table(folder / "deliveries")
    received, intended = (table.column(name).to_numpy() for name in ("received_ns", "intended_ns"))
    return float(np.min(received - intended)) / 1e6


@pytest.mark.parametrize("rtt_ms", [5.0, 60.0])
def test_no_message_is_faster_than_the_link(runs, rtt_ms):
    """Clients are on the first site and the broker on the last: a message goes there and back."""
    manifest, folder = runs[rtt_ms]

    assert least_latency_ms(folder) >= rtt_ms * 0.99
    assert [each for row in manifest["network"]["links"] for each in row["problems"]] == []
    assert manifest["carrier"]["cpu_s"] > 0


def test_delay_rises_with_the_round_trip(runs):
    near, far = (least_latency_ms(runs[rtt_ms][1]) for rtt_ms in (5.0, 60.0))

    assert far - near >= 50


def test_captures_are_in_the_manifest_and_on_disk(runs):
    manifest, folder = runs[5.0]

    taps = {entry["tap"]: entry for entry in manifest["captures"]}
    assert set(taps) == {"publisher", "broker", "router"}
    assert all((folder / entry["file"]).stat().st_size > 24 for entry in manifest["captures"])
    assert taps["broker"]["frames"] > taps["publisher"]["frames"] > 0


def test_routers_were_sampled_in_every_phase(runs):
    manifest, folder = runs[60.0]
    samples = pq.read_table(folder / "interfaces").to_pylist()

    times = {row["at_ns"] for row in samples}
    measure = next(phase for phase in manifest["phases"] if phase["name"] == "measure")
    assert {measure["start_ns"], measure["end_ns"]} <= times
    assert {(row["node"], row["interface"]) for row in samples} == {
        ("router1", "switch"), ("router1", "site2"), ("router2", "switch"), ("router2", "site1"),
    }  # fmt: skip


ECHO = STUDY.replace(
    "schedule: {rate: 50/s}, qos: 1}", "schedule: {rate: 10/s}, role: echo, echo: {site: 2}, start: control}"
)


def test_a_device_behind_a_slow_link_of_its_own_answers_later(tmp_path):
    """C-02, C-03: who asks is 5 ms of round trip from the broker, the device 80 ms more, and a message starts it."""
    star = ECHO.replace("publishers: 2, subscribers: 2", "publishers: 1, topics: {publish: a}")
    star = star.replace("rtt: [5 ms, 60 ms]", "rtt: [5 ms]").replace(
        "shape: chain, sites: 2", "shape: star, sites: 3, links: [{between: [1, 2], rtt: 80 ms}]"
    )
    (tmp_path / "device.yaml").write_text(star, encoding="utf-8")

    done = subprocess.run(
        command("run", "device.yaml", "--out", "out", "--stop-after", "runs"),
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    (path,) = tmp_path.glob("out/runs/*/*/manifest.json")
    manifest = json.loads(path.read_text())
    assert pq.read_table(path.parent / "deliveries").num_rows == 12, done.stdout + done.stderr
    assert least_latency_ms(path.parent) >= 0.99 * (5 + 2 * 40 + 5)
    assert manifest["start_ms"]["command_to_arrival"] > 0
    assert manifest["broker"]["address"].endswith(":1883")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_nothing_after_clean(tmp_path, number):
    (tmp_path / "far.yaml").write_text(STUDY, encoding="utf-8")
    environment = {**os.environ, "BROKERLAB_STATE": str(tmp_path / "state")}
    started = subprocess.Popen(
        command("run", "far.yaml", "--out", "out", "--stop-after", "runs", "--hold"),
        cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - one call that is safe before exec
    )  # fmt: skip
    said = []
    while "held:" not in (line := started.stdout.readline()):
        assert line, f"ended before it was held: {said}"
        said.append(line)
    own = {word for line in said for word in line.split() if word.startswith("brokerlab-")}
    assert own <= left()
    started.send_signal(number)
    started.communicate(timeout=60)
    cleaned = subprocess.run(command("clean"), env=environment, capture_output=True, text=True, check=False)

    assert cleaned.returncode == 0, cleaned.stdout
    deadline = time.monotonic() + 10
    while own & left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not own & left()
