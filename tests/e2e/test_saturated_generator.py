"""A generator that cannot keep its schedule is caught: the run is invalid and says why."""

import contextlib
import json
import os
import signal
import threading
import time

import psutil
import pytest
from lab_program import brokerlab, write_study

from brokerlab.lab.run import make_run
from brokerlab.record.directory import RunDirectory
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


class Limit:
    """A watcher that gives the workers a fifth of the time while the run measures, as a CPU limit does."""

    rhythm = ((signal.SIGSTOP, 0.04), (signal.SIGCONT, 0.01))
    held = slice(None)  # of the workers, by age

    def __init__(self):
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hold_back, daemon=True)

    def run_started(self, run, number, total):
        """Nobody watches a test."""

    def run_ended(self, run, verdict, reasons, seconds):
        """Nobody watches a test."""

    def phase_started(self, name, seconds):
        if name == "measure":
            self._thread.start()
        elif name == "drain":
            self._over.set()
            self._thread.join()

    def _hold_back(self):
        workers = [each for each in psutil.Process().children(recursive=True) if is_worker(each)]
        workers = [each.pid for each in sorted(workers, key=lambda each: (each.create_time(), each.pid))][self.held]
        assert workers
        while not self._over.is_set():
            for number, seconds in self.rhythm:
                for pid in workers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                time.sleep(seconds)


class SlowReceiver(Limit):
    """A subscriber that takes in one message every 110 ms, as the receiving program of paper 003 did."""

    rhythm = ((signal.SIGSTOP, 0.105), (signal.SIGCONT, 0.005))
    held = slice(-1, None)  # publishers are started before subscribers


def is_worker(process):
    """Workers are forked from a server process, which is forked from nobody of its kind."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = process.parent()
        return parent is not None and "forkserver" in " ".join(parent.cmdline())
    return False


def held_back(tmp_path, *, watcher, rate_per_s):
    study = Study(
        name="held-back",
        goals=Goals("Is a generator that gets too little CPU noticed?"),
        system=System((BrokerChoice("honest", "scripted"),)),
        metrics=("latency",),
        scenario=Scenario(
            Workload(publishers=1, subscribers=1, schedule=Schedule(rate_per_s=rate_per_s)),
            (Factor("broker", ("honest",)),),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0.2, measure_s=1, drain_s=2)),
    )
    (run,) = make_plan(study, missing={}).runs
    return make_run(run, study, RunDirectory(tmp_path / "run"), watcher=watcher)


def test_a_generator_under_a_cpu_limit_is_caught_by_its_schedule_lag(tmp_path):
    verdict = held_back(tmp_path, watcher=Limit(), rate_per_s=500)

    assert verdict.value == "invalid"
    assert any(reason.startswith("schedule lag p99") for reason in verdict.reasons)


def test_a_receiver_of_110_ms_a_message_is_caught_by_its_receive_lag(tmp_path):
    """F-20, C-08: at T = 100 ms its own queue would look like the broker's."""
    verdict = held_back(tmp_path, watcher=SlowReceiver(), rate_per_s=10)

    assert verdict.value == "invalid"
    assert any(reason.startswith("receive lag p99") for reason in verdict.reasons)
