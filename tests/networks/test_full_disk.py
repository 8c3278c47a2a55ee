"""A disk that is full while a run goes on: the reason is told, and nothing of the run is left but its files."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from network_rig import left, needs_networks

from brokerlab import inventory
from brokerlab.inventory import Thing
from brokerlab.network.naming import PREFIX

pytestmark = needs_networks

# Captures of large messages fill a disk of a few MiB in the first second of the load.
STUDY = """
brokerlab: 1
study: full
goals: {question: What does a full disk do?}
system: {brokers: {embedded: {driver: amqtt}}}
metrics: [latency, delivery]
scenario:
  workload: {publishers: 2, subscribers: 2, schedule: {rate: 100/s}, qos: 1, payload: 16 KiB}
  topology: {shape: chain, sites: 2, rtt: 2 ms}
deploy:
  repetitions: 1
  phases: {warmup: 200 ms, measure: 3 s, drain: 5 s}
  captures: [publisher, broker]
"""
NAMESPACE = re.compile(rf"{PREFIX}[0-9a-f]+-\w+")


@pytest.fixture
def small_disk(tmp_path):
    """Makes disks of so many bytes, which are unmounted afterwards."""
    mounted = []

    def mount(size_bytes: int) -> Path:
        folder = tmp_path / "disk"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "brokerlab-test", folder], check=True)
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("size_bytes", [3 << 20, 64 << 10], ids=["in the load", "before the broker"])
def test_the_reason_is_told_and_nothing_is_left(tmp_path, small_disk, size_bytes):
    disk, state, temporary = small_disk(size_bytes), tmp_path / "state", tmp_path / "tmp"
    temporary.mkdir()
    (tmp_path / "full.yaml").write_text(STUDY, encoding="utf-8")
    words = ("run", "full.yaml", "--out", disk / "out", "--stop-after", "runs")
    started = subprocess.Popen(
        [sys.executable, "-m", "brokerlab.cli.main", *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "BROKERLAB_STATE": str(state), "TMPDIR": str(temporary)},
    )  # fmt: skip
    said, _ = started.communicate(timeout=240)

    assert started.returncode not in (0, 1, 70), said
    assert "No space left on device" in said
    assert "make room, or take another --out" in said
    assert "Traceback" not in said
    assert [each for each in psutil.process_iter() if _runs_in(each, session=started.pid)] == []
    assert not set(NAMESPACE.findall(_manifests(disk))) & left()
    assert [path.name for path in state.iterdir()] == []
    assert [path.name for path in temporary.iterdir()] == []


def test_an_inventory_on_a_full_disk_forgets_nothing_and_is_gone_at_the_end(small_disk, monkeypatch):
    disk = small_disk(4096 * 4)
    monkeypatch.setenv("BROKERLAB_STATE", str(disk))
    monkeypatch.setattr(inventory, "_books", [])
    made = []
    with pytest.raises(OSError, match="No space left"):
        _note_without_end(made)
    path = inventory.own_path()

    assert inventory.own_things() == made
    for thing in made[:-1]:
        inventory.cross_out(thing)
    lines = path.read_text().splitlines()
    assert sum('"made"' in line and line.endswith("}}") for line in lines) == len(made)
    inventory.cross_out(made[-1])
    assert list(disk.iterdir()) == []


def _note_without_end(made: list[Thing]) -> None:
    while True:
        thing = Thing("folder", f"/brokerlab-{len(made)}")
        inventory.note(thing)
        made.append(thing)


def _runs_in(process: psutil.Process, *, session: int) -> bool:
    """One that has ended and that nobody has collected yet runs no more."""
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def _manifests(disk: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in disk.glob("out/runs/*/*/manifest.json"))
