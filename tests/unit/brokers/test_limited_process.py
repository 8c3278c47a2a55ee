"""Real processes in real groups of this kernel; skipped with the reason where it allows none."""

import sys
import time
from pathlib import Path

import pytest

from brokerlab.brokers.base import Node
from brokerlab.brokers.cgroups import members
from brokerlab.brokers.limits import require_possible
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError, UserError
from brokerlab.study.limit_values import Limits

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"
BUSY_WITH_A_CHILD = "import os\nos.fork()\nprint('here', flush=True)\nwhile True: pass"
GREEDY = "x = bytearray(400_000_000)"
SLEEPS = "print('here', flush=True)\nimport time; time.sleep(60)"


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERLAB_STATE", str(tmp_path / "state"))
    yield
    assert list(tmp_path.glob("state/*")) == []


def limited(folder, program, limits) -> BrokerProcess:
    try:
        require_possible(limits)
    except UserError as problem:
        pytest.skip(problem.message)
    node = Node((sys.executable, "-c", program), HOST, free_port(HOST))
    return BrokerProcess(node, folder=folder / "0", limits=limits)


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_and_its_children_are_in_the_group_and_held_back(tmp_path):
    process = limited(tmp_path, BUSY_WITH_A_CHILD, Limits(cpus=0.01))
    with process:
        wait_until(lambda: process.log_tail().count("here") == 2)
        wait_until(lambda: process.cage.read().throttled_periods > 1)
        (joined,) = process.cage.joins
        assert members(joined.parent) == process.pids()
        assert len(process.pids()) == 2

    effect = process.cage.effect
    assert not joined.parent.exists()
    assert effect.periods >= effect.throttled_periods > 1
    assert effect.throttled_s > 0
    assert process.cage.section()["asked"]["cpus"] == 0.01


def test_a_node_that_needs_too_much_memory_is_said_to_be_killed_for_it(tmp_path):
    process = limited(tmp_path, GREEDY, Limits(memory_bytes=64_000_000, swap_bytes=0))
    killed = pytest.raises(RunError, match="killed 1 of the broker's processes at its limit of 64 MB of memory")
    with process, killed:
        wait_until(lambda: not process.is_alive())
        process.require_alive("nothing")

    assert process.cage.effect.oom_kills == 1
    assert 0 < process.cage.effect.memory_peak_bytes <= 64_000_000
    assert not any(join.parent.exists() for join in process.cage.joins)


def test_a_node_runs_on_its_cores_only(tmp_path):
    process = limited(tmp_path, SLEEPS, Limits(cores=(0,)))
    with process:
        wait_until(lambda: "here" in process.log_tail())
        allowed = [
            line.split()[1]
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("Cpus_allowed_list:")
        ]

    assert allowed == ["0"]


def test_a_start_that_fails_leaves_no_group(tmp_path):
    process = limited(tmp_path, SLEEPS, Limits(cpus=0.5))
    (tmp_path / "0").write_text("a file where the folder should be")

    with pytest.raises(RunError, match="cannot be started"):
        process.start()

    assert process.cage.settings  # it had been made
    assert not any(Path(file).parent.exists() for file in process.cage.settings)
