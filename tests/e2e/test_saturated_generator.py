"""A generator that cannot keep its schedule is caught: the run is invalid and says why."""

import json

import pytest
from lab_program import brokerlab, write_study

pytestmark = pytest.mark.e2e


def test_a_publisher_that_is_asked_for_more_than_it_can_is_invalid_with_the_reason(tmp_path):
    study = write_study(tmp_path, brokers={"scripted": "{driver: scripted}"}, qos="0")
    asked = ["scenario.workload.schedule.rate=1000000/s", "deploy.phases.drain=1 s"]
    guards = ["analysis.guards.generator_cpu=70 %", "analysis.guards.schedule_lag_p99=5 ms"]
    settings = [word for setting in (*asked, *guards) for word in ("--set", setting)]

    done = brokerlab("run", study, "--stop-after", "runs", *settings, folder=tmp_path)

    assert done.returncode == 1, done.stdout + done.stderr
    (path,) = tmp_path.glob("results/small/runs/*/1/manifest.json")
    manifest = json.loads(path.read_text())
    assert manifest["verdict"]["value"] == "invalid"
    assert any("schedule lag p99" in each or "not handed over" in each for each in manifest["verdict"]["reasons"])
    assert manifest["surroundings"]["readings"] > 0
    assert set(manifest["calibration"]) == {"value", "reason"}
    assert manifest["meter"]["shares_cores_with_broker"] == (manifest["meter"]["cores"] is None)
