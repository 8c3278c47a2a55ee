"""A brokerlab that is killed with everything that one can hold, and what `clean` finds and removes."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from cli_program import Program

from brokerlab import inventory
from brokerlab.inventory import Thing
from brokerlab.lab.leftovers import find_leftovers, remove_leftovers

pytestmark = pytest.mark.unit

# A node whose first process forks a child in its session and one that leaves it and its family, as a daemon does.
FORKS = """
import os, sys, time
if os.fork() == 0:
    print("in session", os.getpid(), flush=True)
    time.sleep(60)
elif os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("out of session", os.getpid(), flush=True)
        time.sleep(60)
else:
    time.sleep(60)
"""

HOLDS = """
import sys, time
from pathlib import Path
from brokerlab import inventory
from brokerlab.brokers.base import Node
from brokerlab.brokers.limits import require_possible
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import UserError
from brokerlab.study.limit_values import UNLIMITED, Limits
limits = Limits(cpus=0.5, memory_bytes=256 << 20)
try:
    require_possible(limits)
except UserError:
    limits = UNLIMITED
node = Node((sys.executable, "-c", sys.argv[1]), "127.0.0.1", free_port("127.0.0.1"), scratch=("data",))
with inventory.temporary_folder("brokerlab-keys-") as folder:
    (folder / "broker.key").write_text("secret")
    with BrokerProcess(node, folder=Path("node"), limits=limits) as process:
        (process.folder / "data").mkdir(exist_ok=True)
        while len(process.log_tail().splitlines()) < 2:
            time.sleep(0.01)
        print(process.pid, *(join.parent for join in process.cage.joins), folder, flush=True)
        time.sleep(60 if sys.argv[2] == "stay" else 0)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A state folder and a folder for temporary files of the test's own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("BROKERLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def holder(folder, then="stay"):
    command = [sys.executable, "-c", HOLDS, FORKS, then]
    started = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    pid, *paths = started.stdout.readline().split()
    said = (folder / "node.log").read_text().split("\n")
    return started, [int(pid), *(int(line.split()[-1]) for line in said if line)], [Path(path) for path in paths]


def running(pids):
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def kill(started):
    started.send_signal(signal.SIGKILL)
    started.communicate()


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_clean_removes_all_that_a_killed_brokerlab_left(place, brokerlab: Program):
    started, pids, paths = holder(place)
    assert len(running(pids)) == 3
    kill(started)
    wait_until(lambda: pids[0] not in running(pids))  # the kernel ends the first one with us, and no other
    assert sorted(running(pids)) == sorted(pids[1:])

    dry = json.loads(brokerlab("clean", "--dry-run", "--json").stdout)
    assert sorted(process["pid"] for process in dry["leftovers"][0]["processes"]) == sorted(pids[1:])
    assert all(path.exists() for path in paths)
    done = brokerlab("clean")

    assert done.returncode == 0, done.stderr
    assert f"a brokerlab that was killed (pid {started.pid}) left 2 processes" in done.stdout
    assert running(pids) == []
    assert not any(path.exists() for path in paths)
    assert not (place / "node" / "data").exists()
    assert list((place / "state").iterdir()) == list((place / "tmp").iterdir()) == []
    assert "nothing is left" in brokerlab("clean").stdout


def test_clean_leaves_a_living_brokerlab_alone(place, brokerlab: Program):
    started, pids, paths = holder(place)
    try:
        done = brokerlab("clean")

        assert "1 brokerlab is at work and left alone" in done.stdout
        assert len(running(pids)) == 3
        assert all(path.exists() for path in paths)
    finally:
        kill(started)
        assert brokerlab("clean").returncode == 0
    assert running(pids) == []


def test_a_normal_end_leaves_nothing_to_clean(place):
    started, pids, paths = holder(place, then="end")
    started.communicate()

    assert started.returncode == 0
    assert running(pids) == []
    assert not any(path.exists() for path in paths)
    assert list((place / "state").iterdir()) == list((place / "tmp").iterdir()) == []


def written_down(place, *things, **head):
    """The inventory of a brokerlab that is dead."""
    about = {"format": 1, "pid": 4711, "mark": "0" * 32, "command": ["brokerlab"], "boot": inventory.boot_id()}
    about |= {"pid_namespace": inventory.pid_namespace()} | head
    lines = [about, *({"made": {"kind": t.kind, "name": t.name, "started_ticks": t.started_ticks}} for t in things)]
    (place / "state").mkdir(exist_ok=True)
    path = place / "state" / "4711-x.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"made": {"ki')  # killed while it wrote
    return path


def test_a_later_process_of_the_same_number_is_not_ours(place):
    with subprocess.Popen(["sleep", "60"]) as stranger:
        ticks = inventory.started_ticks(stranger.pid)
        path = written_down(place, Thing("process", str(stranger.pid), ticks - 1))

        assert find_leftovers().leftovers[0].processes == ()
        remove_leftovers()
        assert stranger.poll() is None
        assert not path.exists()
        stranger.kill()


def test_numbers_of_before_a_restart_or_of_a_container_mean_nothing(place):
    with subprocess.Popen(["sleep", "60"]) as stranger:
        noted = Thing("process", str(stranger.pid), inventory.started_ticks(stranger.pid))
        written_down(place, noted, boot="another")
        assert find_leftovers().leftovers[0].processes == ()
        written_down(place, noted, pid_namespace="another")
        assert find_leftovers().leftovers[0].processes == ()
        written_down(place, noted)
        assert [process.pid for process in find_leftovers().leftovers[0].processes] == [stranger.pid]

        remove_leftovers()
        assert stranger.wait() == -signal.SIGKILL


def test_a_link_in_the_place_of_a_folder_is_not_followed(place):
    (place / "theirs").mkdir()
    (place / "tmp" / "brokerlab-keys-x").symlink_to(place / "theirs")
    written_down(place, Thing("folder", str(place / "tmp" / "brokerlab-keys-x")))

    assert remove_leftovers()[1] == []
    assert (place / "theirs").exists()


def test_what_a_living_brokerlab_uses_again_is_left(place):
    with inventory.temporary_folder("brokerlab-a-") as folder:
        written_down(place, Thing("folder", str(folder)))

        assert find_leftovers().leftovers[0].folders == ()
        remove_leftovers()
        assert folder.exists()


def test_things_are_crossed_out_and_an_empty_inventory_goes(place):
    with inventory.temporary_folder("brokerlab-a-") as outer:
        with inventory.temporary_folder("brokerlab-b-") as inner:
            assert inner.stat().st_mode & 0o777 == 0o700
            assert inventory.own_path().exists()
        assert not inner.exists()
        assert outer.exists()
        assert find_leftovers().leftovers == ()  # our own is never one

    assert list((place / "state").iterdir()) == []
