"""The load as a barrier stage of a real cluster: the same ledger and the same tables as on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory

STUDY = """\
brokerlab: 1
study: together
goals: {question: "Does the load run on the cluster?"}
system:
  brokers: {embedded: {driver: amqtt}}
metrics: [latency, delivery, throughput]
scenario:
  workload:
    publishers: 2
    subscribers: 2
    schedule: {rate: 50/s}
    qos: 1
deploy:
  repetitions: 1
  phases: {warmup: 1 s, measure: 3 s, drain: 3 s}
  load_on: spark
analysis: {guards: {generator_cpu: 99 %, schedule_lag_p99: 2000 ms}}
"""


def run_study(folder: Path, *options: str) -> tuple[StudyDirectory, subprocess.CompletedProcess[str]]:
    file = folder / "together.yaml"
    file.write_text(STUDY)
    command = [sys.executable, "-m", "brokerlab.cli.main", "run", str(file), "--out", str(folder / "out"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return StudyDirectory(folder / "out"), done


@pytest.mark.parametrize("place", ["cluster", "local"])
def test_ledger_and_tables_are_those_of_a_local_load(place, request, tmp_path):
    options = (
        ["--master", request.getfixturevalue("cluster")] if place == "cluster" else ["--set", "deploy.load_on=local"]
    )
    results, done = run_study(tmp_path, *options)
    print(done.stdout[-1500:])

    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: a busy machine may break a guard
    (ledger,) = read_table(results, "delivery").to_pylist()
    assert (ledger["published"], ledger["expected"], ledger["lost"], ledger["duplicated"]) == (400, 800, 0, 0)
    assert ledger["verdict"] == "kept"
    manifest = next(results.runs()).manifest()
    assert ("workers" in manifest) is (place == "cluster")
    if place == "cluster":
        assert {worker["bound_ns"] for worker in manifest["workers"].values()} == {0}  # one machine, one clock
        assert manifest["calibration"]["value"] is None
        assert "Spark's executors" in manifest["calibration"]["reason"]
        assert set(manifest["workers"]) == {"publishers/0", "subscribers/0"}


def test_too_few_places_are_told_before_anything_starts(tmp_path):
    _, done = run_study(tmp_path, "--master", "local[1]")

    assert done.returncode == 64
    assert "places at once" in done.stderr


def test_a_start_mark_keeps_a_load_from_being_sent_twice(tmp_path):
    """A task that Spark makes again finds the mark of the first and refuses."""
    script = (
        "import json, pickle, sys; from pathlib import Path\n"
        "from brokerlab.load.together import _mark_start; from types import SimpleNamespace\n"
        f"spec = SimpleNamespace(run=Path({str(tmp_path)!r}), node='publishers/0')\n"
        "_mark_start(spec)\n"
        "try: _mark_start(spec)\n"
        "except FileExistsError as refused: print(json.dumps(refused.filename))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout).endswith(".started-publishers-0")
