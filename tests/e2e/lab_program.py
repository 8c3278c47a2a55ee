"""The command line as a user starts it: another process, its output, its exit code, and what it leaves running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from open_guards import OPEN_TEXT

STUDY = (
    """\
brokerlab: 1
study: small
goals: {{question: Does it go the whole way?, rank_by: latency.p99}}
system: {{brokers: {brokers}}}
metrics: [latency, delivery, throughput, resources, counters]
scenario:
  workload:
    publishers: 2
    subscribers: 2
    payload: 64 B
    schedule: {{rate: 50/s}}
  variables: {{broker: [{names}], qos: [{qos}]}}
deploy: {{repetitions: {repetitions}, seed: 3, phases: {{warmup: 200 ms, measure: {measure}, drain: 2 s}}}}
"""
    + OPEN_TEXT
)


def write_study(folder: Path, *, brokers: dict[str, str], qos="0, 1, 2", repetitions=1, measure="500 ms") -> Path:
    entries = ", ".join(f"{name}: {entry}" for name, entry in brokers.items())
    path = folder / "small.yaml"
    path.write_text(
        STUDY.format(
            brokers=f"{{{entries}}}", names=", ".join(brokers), qos=qos, repetitions=repetitions, measure=measure
        )
    )
    return path


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "brokerlab.cli.main", *map(str, words)]


def brokerlab(*words: object, folder: Path, timeout_s: float = 240) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)


def hear_ctrl_c() -> None:
    """A shell's background job, as a test run may be, ignores SIGINT and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Started:
    """A `brokerlab run` in the background, in a session of its own, and every process that it ever had."""

    def __init__(self, *words: object, folder: Path) -> None:
        self.log = folder / "started.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command(*words),
                cwd=folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - one call that is safe between fork and exec
            )

    def wait_for(self, what: str, condition, *, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, f"ended before {what}:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"waited in vain for {what}:\n{self.log.read_text()}"
            time.sleep(0.02)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int = signal.SIGKILL) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(timeout=30)


def survivors(family: list[psutil.Process], *, within_s: float = 10) -> list[psutil.Process]:
    """Those that still run after a while; the dead who wait for their parent do not count."""
    deadline = time.monotonic() + within_s
    while True:
        alive = [each for each in family if each.is_running() and _status(each) not in ("", psutil.STATUS_ZOMBIE)]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.05)


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""
