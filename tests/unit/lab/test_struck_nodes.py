"""Faults that take something away from a node and give it back: files, room on its disk, its time."""

import os
import sys
import time
from types import SimpleNamespace

import pytest

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab.disk import SmallDisk
from brokerlab.lab.faults import Faults
from brokerlab.record.manifest import Manifest
from brokerlab.study.fault_values import Fault, FaultKind

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"
# Says what becomes of a new file, and of a KiB in its folder, twenty times a second.
TRIES = """
import errno, itertools, time
for number in itertools.count():
    said = []
    for path, data in (("/dev/null", b""), (f"data/{number}", bytes(1024))):
        try:
            with open(path, "wb") as file:
                file.write(data)
            said.append("ok")
        except OSError as problem:
            said.append(errno.errorcode[problem.errno])
    print(*said, flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def node(tmp_path):
    folder = tmp_path / "0"
    (folder / "data").mkdir(parents=True)
    return BrokerProcess(Node((sys.executable, "-c", TRIES), HOST, free_port(HOST)), folder=folder)


def faults_of(node, fault, tmp_path, disks=()):
    system = SimpleNamespace(started=[node], disks=list(disks), cut_links=set())
    faults = Faults([fault], system, crew=None, network=None, manifest=Manifest(tmp_path / "manifest.json"))
    faults.begin(time.monotonic_ns())
    return faults


def says(node, words):
    """Waits until the node says so, from now on."""
    before = node.log.stat().st_size if node.log.exists() else 0
    deadline = time.monotonic() + 20
    while words not in node.log.read_text()[before:].splitlines():
        assert time.monotonic() < deadline, f"{words} was never said; last: {node.log_tail(3)}"
        node.require_alive("its words")
        time.sleep(0.02)


def test_files_are_gone_and_come_back(node, tmp_path):
    with node:
        says(node, "ok ok")
        faults = faults_of(node, Fault(FaultKind.FILES, for_s=0.3, node=0), tmp_path)
        faults.tick(time.monotonic_ns())
        says(node, "EMFILE EMFILE")
        time.sleep(faults.pause_s(1.0))
        faults.tick(time.monotonic_ns())
        says(node, "ok ok")
        faults.close()

    (struck,) = faults.struck
    assert struck.end_ns - struck.at_ns >= 300_000_000
    assert faults.missed() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk")
def test_room_is_gone_and_comes_back(node, tmp_path):
    with SmallDisk(node.folder / "data", node=0) as disk, node:
        says(node, "ok ok")
        faults = faults_of(node, Fault(FaultKind.DISK, node=0), tmp_path, [disk])
        faults.tick(time.monotonic_ns())
        says(node, "ok ENOSPC")
        faults.close()  # what has no end of its own ends with the run
        says(node, "ok ok")

    assert not (node.folder / "data").is_mount()


def test_a_node_without_a_disk_of_its_own_cannot_lose_it(node, tmp_path):
    with node:
        faults = faults_of(node, Fault(FaultKind.DISK, node=0), tmp_path)
        with pytest.raises(RunError, match="writes to no folder"):
            faults.tick(time.monotonic_ns())
