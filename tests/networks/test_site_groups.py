"""All processes of a site are in one group of the kernel's, and a signal to it reaches them and nobody else."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest
from network_rig import both, hear_ctrl_c, needs_networks, two_sites

from brokerlab.brokers.base import Node
from brokerlab.brokers.process import BrokerProcess
from open_guards import OPEN_TEXT

pytestmark = needs_networks

# Each node has clients of its own on its site; our own bridge stands beside the first.
STUDY = (
    """
brokerlab: 1
study: grouped
goals: {question: Whose is this process?}
system: {brokers: {embedded: {driver: amqtt}}, ensemble: {nodes: 2, join: bridge}}
metrics: [latency, delivery]
scenario:
  workload:
    publishers: 2
    subscribers: 2
    topics: {publish: "a/{publisher}", subscribe: "a/#"}
    schedule: {rate: 20/s}
    qos: 1
  placement: {publishers: round-robin, subscribers: round-robin}
  topology: {shape: chain, sites: 2, rtt: 2 ms}
deploy:
  repetitions: 1
  phases: {warmup: 200 ms, measure: 1 s, drain: 5 s}
  captures: [broker]
"""
    + OPEN_TEXT
)
INSTRUMENTS = ("carrier_process", "capture_process", "resource_tracker", "forkserver")
STRAY = "import os, time; os.fork() or (os.execve('/bin/sleep', ['sleep', '60'], {}))\ntime.sleep(0.5)"


@pytest.fixture
def terminal():
    """Both ends of a terminal of our own."""
    master, slave = os.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@pytest.fixture
def held(tmp_path, terminal):
    """A run at a terminal that waits with everything up: its process, each site's group, and each namespace's site."""
    (tmp_path / "grouped.yaml").write_text(STUDY, encoding="utf-8")
    words = ("run", "grouped.yaml", "--out", "out", "--stop-after", "runs", "--hold")
    _, slave = terminal
    started = subprocess.Popen(
        [sys.executable, "-m", "brokerlab.cli.main", *words],
        cwd=tmp_path, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: at_terminal(slave),  # noqa: PLW1509 - few calls that are safe before exec
    )  # fmt: skip
    try:
        said = ""
        while "held:" not in said:
            line = started.stdout.readline()
            assert line, f"ended before it was held: {said}"
            said += line
        groups = {int(site): int(group) for site, group in re.findall(r"site (\d+), all .* -(\d+)\n", said)}
        spaces = re.findall(r"site (\d+), .*: ip netns exec (\S+) bash", said)
        sites = {Path(f"/run/netns/{name}").stat().st_ino: int(site) for site, name in spaces}
        yield started, groups, sites
    finally:
        started.kill()
        started.communicate()


def at_terminal(slave):
    """In the foreground of a session of its own, as a shell's child is, and hearing Ctrl-C."""
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    hear_ctrl_c()


def by_site(lab, sites):
    """The processes of the run that belong to a site, by the namespaces that they are in."""
    found = {}
    for process in psutil.Process(lab.pid).children(recursive=True):
        words = " ".join(process.cmdline())
        is_worker = "forkserver" in words and "forkserver" in " ".join(process.parent().cmdline())
        if is_worker or not any(each in words for each in INSTRUMENTS):
            found.setdefault(sites[Path(f"/proc/{process.pid}/ns/net").stat().st_ino], []).append(process)
    return found


def test_every_process_of_a_site_is_in_its_group(held):
    lab, groups, sites = held
    # A leader, a broker, a worker that publishes and one that subscribes; on the first site our bridge too.
    wait_for(lambda: [len(each) for _, each in sorted(by_site(lab, sites).items())] == [5, 4])
    found = by_site(lab, sites)

    assert sorted(groups) == sorted(found) == [1, 2]
    for site, processes in found.items():
        assert {os.getpgid(process.pid) for process in processes} == {groups[site]}
    others = [process.pid for process in psutil.Process(lab.pid).children(recursive=True)]
    outside = set(others) - {process.pid for processes in found.values() for process in processes}
    assert not {os.getpgid(pid) for pid in outside} & set(groups.values())


def test_a_site_is_stopped_and_goes_on_as_a_whole(held, terminal):
    lab, groups, sites = held
    wait_for(lambda: len(by_site(lab, sites)[2]) == 4)
    first, second = (by_site(lab, sites)[site] for site in (1, 2))

    os.killpg(groups[2], signal.SIGSTOP)
    wait_for(lambda: {process.status() for process in second} == {psutil.STATUS_STOPPED})
    assert psutil.STATUS_STOPPED not in {process.status() for process in first}
    os.killpg(groups[2], signal.SIGCONT)
    wait_for(lambda: psutil.STATUS_STOPPED not in {process.status() for process in second})
    os.write(terminal[0], b"\n")
    said, _ = lab.communicate(timeout=120)

    assert lab.returncode == 0, said
    assert not [process for process in (*first, *second) if process.is_running()]


def test_ctrl_c_at_the_terminal_ends_everything(held, terminal):
    """It reaches the foreground alone, which is the lab: that ends all sites in its own order."""
    lab, groups, sites = held
    wait_for(lambda: len(by_site(lab, sites)[2]) == 4)
    processes = [process for found in by_site(lab, sites).values() for process in found]
    assert os.tcgetpgrp(terminal[0]) == lab.pid
    assert lab.pid not in groups.values()

    os.write(terminal[0], b"\x03")
    said, _ = lab.communicate(timeout=120)

    assert lab.returncode == 130, said
    assert not [process for process in processes if process.is_running()]
    assert not {path.stat().st_ino for path in Path("/run/netns").iterdir()} & set(sites)


def test_what_a_broker_forgets_ends_with_its_site(tmp_path):
    """It has left its parent and its mark, so only the group knows it."""
    with two_sites(both(delay_ms=1.0)) as network:
        node = Node((sys.executable, "-c", STRAY), network.brokers[0].address, 7100)
        with BrokerProcess(node, folder=tmp_path / "0", place=network.brokers[0]) as broker:
            wait_for(lambda: broker.exit_code is not None)
        group = network.brokers[0].group
        strays = [each for each in psutil.process_iter() if _group_of(each.pid) == group and each.name() == "sleep"]
        assert len(strays) == 1

    wait_for(lambda: not strays[0].is_running() or strays[0].status() == psutil.STATUS_ZOMBIE)


def _group_of(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def wait_for(is_so, within_s=20.0):
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
