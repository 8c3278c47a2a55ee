"""A generator that cannot keep its schedule is caught: the run is invalid and says why."""

import contextlib
import json
import os
import secrets
import signal
import threading
import time
from dataclasses import asdict

import psutil
import pytest
from lab_program import brokerlab, write_study

from brokerlab.brokers.cgroups import NotHereError, find_places, make_group, remove_group
from brokerlab.brokers.limits import PREFIX
from brokerlab.lab.run import make_run
from brokerlab.record.directory import RunDirectory
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Analysis,
    Arrivals,
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Guards,
    Phases,
    Roles,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.e2e
DEFAULT = Guards()


def test_a_broker_that_is_sent_more_than_it_takes_has_collapsed_while_no_guard_speaks_of_the_generator(tmp_path):
    study = write_study(tmp_path, brokers={"scripted": "{driver: scripted}"}, qos="0")
    asked = ["scenario.workload.schedule.rate=1000000/s", "deploy.phases.drain=1 s"]
    settings = [word for setting in asked for word in ("--set", setting)]

    done = brokerlab("run", study, "--stop-after", "runs", *settings, folder=tmp_path)

    assert done.returncode == 1, done.stdout + done.stderr
    (path,) = tmp_path.glob("results/small/runs/*/1/manifest.json")
    manifest = json.loads(path.read_text())
    assert manifest["verdict"]["value"] == "collapsed"
    assert manifest["verdict"]["reasons"][0].startswith("the broker did not take ")
    assert manifest["surroundings"]["readings"] > 0
    assert manifest["calibration"]["reason"] is None  # the first run of a machine calibrates it
    assert manifest["calibration"]["value"]["qos0"]["received_per_s"] > 0
    assert manifest["meter"]["shares_cores_with_broker"] == (manifest["meter"]["cores"] is None)


class Limit:
    """A watcher that gives the workers a fifth of the time while the run measures, as a CPU limit does."""

    rhythm = ((signal.SIGSTOP, 0.04), (signal.SIGCONT, 0.01))
    held = slice(None)  # of the workers, by age

    def __init__(self):
        self._workers = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hold_back, daemon=True)

    def run_started(self, run, number, total):
        """Nobody watches a test."""

    def run_ended(self, run, verdict, reasons, seconds):
        """Nobody watches a test."""

    def phase_started(self, name, seconds):
        if name == "warmup":
            self._workers = worker_pids()[self.held]  # which takes long where the machine is busy
            assert self._workers
        elif name == "measure":
            self._thread.start()
        elif name == "drain":
            self._over.set()
            self._thread.join()

    def _hold_back(self):
        while not self._over.is_set():
            for number, seconds in self.rhythm:
                for pid in self._workers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                time.sleep(seconds)


class MostOfTheTime(Limit):
    """Publishers are stopped for two thirds of the time."""

    rhythm = ((signal.SIGSTOP, 0.08), (signal.SIGCONT, 0.04))
    held = slice(1)


class Quota(Limit):
    """Gives the publishers a group of the kernel's with a fiftieth of a core, as a container may have."""

    def __init__(self, place):
        super().__init__()
        self._place, self._group = place, None

    def phase_started(self, name, seconds):
        if name == "subscribe":  # a worker looks for its groups when it is told to go
            self._group = make_group(self._place, f"{PREFIX}{secrets.token_hex(6)}")
            period_us, quota_us = 50_000, 1_000
            if self._place.version == 1:
                (self._group / "cpu.cfs_period_us").write_text(str(period_us))
                (self._group / "cpu.cfs_quota_us").write_text(str(quota_us))
            else:
                (self._group / "cpu.max").write_text(f"{quota_us} {period_us}")
            (self._group / "cgroup.procs").write_text(str(publisher()))
        elif name == "drain":
            (self._place.parent / "cgroup.procs").write_text(str(publisher()))

    def close(self):
        remove_group(self._group)


class SlowReceiver(Limit):
    """A subscriber that takes in one message every 110 ms, as the receiving program of paper 003 did."""

    rhythm = ((signal.SIGSTOP, 0.105), (signal.SIGCONT, 0.005))
    held = slice(-1, None)


class SlowDevice(SlowReceiver):
    """The same of a device, whose worker is started after those of the publishers and of who hears the answers."""

    held = slice(2, 3)


class DeafSubscriber(SlowReceiver):
    """A subscriber that is stopped seven eighths of the time, and finds more than a read takes whenever it goes on."""

    rhythm = ((signal.SIGSTOP, 0.14), (signal.SIGCONT, 0.02))


def is_worker(process):
    """Workers are forked from a server process, which is forked from nobody of its kind."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = process.parent()
        return parent is not None and "forkserver" in " ".join(parent.cmdline())
    return False


def worker_pids():
    """By age: publishers are started before subscribers."""
    workers = [each for each in psutil.Process().children(recursive=True) if is_worker(each)]
    return [each.pid for each in sorted(workers, key=lambda each: (each.create_time(), each.pid))]


def publisher():
    return worker_pids()[0]


def held_back(tmp_path, *, watcher, schedule, guards=DEFAULT, measure_s=1.0, **workload):
    study = Study(
        name="held-back",
        goals=Goals("Is a generator that gets too little CPU noticed?"),
        system=System((BrokerChoice("honest", "scripted"),)),
        metrics=("latency",),
        scenario=Scenario(
            Workload(publishers=1, subscribers=1, schedule=schedule, **workload),
            (Factor("broker", ("honest",)), Factor("qos", (1,))),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0.2, measure_s=measure_s, drain_s=5)),
        analysis=Analysis(guards=guards),
    )
    (run,) = make_plan(study, missing={}).runs
    return make_run(run, study, RunDirectory(tmp_path / "run"), watcher=watcher)


def test_a_generator_under_a_cpu_limit_is_caught_by_its_schedule_lag(tmp_path):
    verdict = held_back(tmp_path, watcher=Limit(), schedule=Schedule(rate_per_s=500))

    assert verdict.value == "invalid"
    assert any(reason.startswith("schedule lag p99") for reason in verdict.reasons)


@pytest.mark.parametrize(
    "schedule", [Schedule(Arrivals.SATURATE, window=1000), Schedule(Arrivals.WINDOW, inflight=1)], ids=["sat", "window"]
)
def test_a_closed_loop_whose_publisher_is_stopped_most_of_the_time_is_caught_by_its_late_wakes(tmp_path, schedule):
    """Its messages are due when they are sent, so that its schedule is kept whatever happens."""
    stalls = Guards(stalled_percent=DEFAULT.stalled_percent, **others_open("stalled_percent"))

    verdict = held_back(tmp_path, watcher=MostOfTheTime(), schedule=schedule, guards=stalls)

    assert verdict.value == "invalid"
    (reason,) = verdict.reasons
    assert reason.startswith("stalls: publishers/0 lost ")


def test_a_closed_loop_under_a_quota_is_caught_by_what_the_kernel_counts(tmp_path):
    try:
        (place,) = find_places(["cpu"])
    except NotHereError as problem:
        pytest.skip(f"no group with a quota can be made here: {problem}")
    guards = Guards(throttled_percent=DEFAULT.throttled_percent, **others_open("throttled_percent"))
    watcher, schedule = Quota(place), Schedule(Arrivals.SATURATE, window=1000)
    try:
        verdict = held_back(tmp_path, watcher=watcher, schedule=schedule, guards=guards)
    finally:
        watcher.close()

    assert verdict.value == "invalid"
    (reason,) = verdict.reasons
    assert reason.startswith("CPU quota: publishers/0 was out of time for ")


def others_open(but):
    return {name: value for name, value in asdict(OPEN.guards).items() if name != but}


def test_a_receiver_of_110_ms_a_message_is_caught_by_its_receive_lag(tmp_path):
    """F-20, C-08: at T = 100 ms its own queue would look like the broker's."""
    verdict = held_back(tmp_path, watcher=SlowReceiver(), schedule=Schedule(rate_per_s=10))

    assert verdict.value == "invalid"
    assert any(reason.startswith("receive lag p99") for reason in verdict.reasons)


def test_a_device_that_takes_in_one_message_in_110_ms_is_caught_by_its_receive_lag(tmp_path):
    """C-03: how long a device kept a message begins when it took it in, and would not tell."""
    verdict = held_back(tmp_path, watcher=SlowDevice(), schedule=Schedule(rate_per_s=10), role=Roles.ECHO)

    assert verdict.value == "invalid"
    assert any(reason.startswith("receive lag p99 of devices/0") for reason in verdict.reasons)


def test_a_subscriber_that_is_stopped_most_of_the_time_is_caught_by_what_waits_in_its_socket(tmp_path):
    """Of 16 MB a second some two wait whenever it goes on; all guards but that one are open."""
    backlog = Guards(socket_backlog_bytes=DEFAULT.socket_backlog_bytes, **others_open("socket_backlog_bytes"))

    verdict = held_back(
        tmp_path, watcher=DeafSubscriber(), schedule=Schedule(rate_per_s=1000), guards=backlog,
        payload_bytes=16 << 10, measure_s=2.0,
    )  # fmt: skip

    assert verdict.value == "invalid"
    (reason,) = verdict.reasons
    assert reason.startswith("socket backlog: ")
    assert "the subscriber did not keep up" in reason
