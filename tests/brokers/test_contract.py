"""What every driver promises, on real brokers; a new driver gets all of this by its line in the registry."""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from broker_rig import (
    HOST,
    Client,
    chosen_drivers,
    describe,
    is_running,
    listeners,
    members_of,
    new_topic,
    received_until_quiet,
    running,
)

from brokerlab.brokers.base import Count, Counts, Departure, Found, Missing, Node, Security
from brokerlab.brokers.cgroups import members
from brokerlab.brokers.limits import require_possible
from brokerlab.brokers.port import free_port, is_free
from brokerlab.brokers.process import BrokerProcess, owns_listener
from brokerlab.brokers.registry import DRIVERS
from brokerlab.errors import RunError, UserError
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.tellers import teller_of
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.values import Qos

pytestmark = pytest.mark.brokers
NOTES = {"scripted": {"deeds.csv"}}  # what it did, beside its script

STARTS_A_BROKER_AND_SLEEPS = """
import sys, time
from pathlib import Path
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import driver
from brokerlab.lab.proof import prove_ready
from brokerlab.study.values import BrokerChoice
name, folder, port = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
node = driver(name).node(BrokerChoice(name, name), folder=folder, host="127.0.0.1", port=port)
with BrokerProcess(node, folder=folder) as process:
    prove_ready(process, node.host, port)
    print(*process.pids(), flush=True)
    time.sleep(60)
"""


def wait_until(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def test_broker_is_found_with_its_version(driver):
    found = driver.find()

    assert isinstance(found, Found)
    assert any(character.isdigit() for character in found.version)


def test_readiness_is_proved(broker):
    assert broker.proof.publications >= 1
    assert 0 < broker.proof.seconds < broker.process.node.ready_s
    assert owns_listener(broker.process, broker.host, broker.port)


def test_broker_listens_on_its_own_address_only_unless_the_driver_says_otherwise(broker):
    elsewhere = {address for address, _ in listeners(broker.process)} - {HOST}

    assert bool(elsewhere) == (Departure.LISTENS_ELSEWHERE in broker.departs), elsewhere


def test_every_preset_delivers_and_leaves_nothing_behind(driver, tmp_path, monkeypatch):
    """Nothing: no process, listener or file but its configuration, also not where programs like to leave something."""
    for preset in driver.abilities.presets:
        folder, elsewhere = tmp_path / preset / "0", tmp_path / preset / "elsewhere"
        elsewhere.mkdir(parents=True)
        with monkeypatch.context() as outside, starting(driver, folder, preset=preset) as process:
            outside.setenv("HOME", str(elsewhere))
            outside.setenv("TMPDIR", str(elsewhere))
            process.start()
            node = process.node
            prove_ready(process, node.host, node.port)
            deliver(node.port, 50)
            pids, listening = process.pids(), listeners(process)
            assert pids
            groups = [file.parent for file in process.cage.joins]
            assert all(set(pids) <= set(members(group)) for group in groups), preset
        assert not any(is_running(pid) for pid in pids), preset
        assert members_of(process.pid) == [], preset
        assert not any(group.exists() for group in groups), preset
        wait_until(lambda listening=listening: all(is_free(HOST, port) for _, port in listening), "its ports are free")
        assert process.log.exists()
        assert files_below(folder) == set(node.files) | NOTES.get(driver.name, set()), preset
        assert files_below(elsewhere) == set(), preset


@contextlib.contextmanager
def starting(driver, folder, *, preset):
    """A broker that is described, limited where the machine allows it, and stopped in any case."""
    private = folder.with_name("private")
    private.mkdir(mode=0o700)
    node = describe(driver, folder, preset=preset, security=Security(folder=private))
    process = BrokerProcess(node, folder=folder, limits=wide_limits())
    try:
        yield process
    finally:
        process.stop()


def wide_limits():
    """More than a broker needs to deliver a few messages."""
    limits = Limits(cpus=4, memory_bytes=4 << 30)
    try:
        require_possible(limits)
    except UserError:
        return UNLIMITED
    return limits


def deliver(port, count):
    topic = new_topic()
    with Client(HOST, port) as subscriber, Client(HOST, port) as publisher:
        subscriber.subscribe(topic, 1)
        for number in range(count):
            publisher.publish(topic, str(number).encode(), qos=1)
        messages = received_until_quiet(subscriber, expected=count)

    assert sorted(int(message.payload) for message in messages) == list(range(count))


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_port_in_use_starts_nothing(driver, tmp_path):
    node = describe(driver, tmp_path / "0")
    with socket.create_server((node.host, node.port)):
        with pytest.raises(UserError, match=rf"in use by \S+ \(pid {os.getpid()}\)"):
            BrokerProcess(node, folder=tmp_path / "0").start()

        assert list(tmp_path.iterdir()) == []


def test_broken_configuration_is_reported_and_leaves_nothing(driver, tmp_path):
    node = describe(driver, tmp_path / "0")
    broken = dataclasses.replace(
        node,
        files=dict.fromkeys(node.files, "]]] nonsense {{{\n"),
        argv=node.argv if node.files else (*node.argv, "--no-such-option"),
    )
    process = BrokerProcess(broken, folder=tmp_path / "0")

    with pytest.raises(RunError, match=r"ended with|waited in vain for") as caught, process:
        prove_ready(process, node.host, node.port, deadline_s=min(node.ready_s, 20))

    assert process.log_tail(1) in caught.value.message
    assert not is_running(process.pid)
    assert is_free(node.host, node.port)


def test_another_broker_on_the_port_is_no_proof(broker, tmp_path):
    """A CONNACK alone is not enough: it may come from somebody else's broker."""
    sleeps = Node((sys.executable, "-c", "import time; time.sleep(60)"), HOST, free_port(HOST))
    process = BrokerProcess(sleeps, folder=tmp_path / "0")

    with process, pytest.raises(RunError, match="not that of the broker that was started"):
        prove_ready(process, broker.host, broker.port)


def test_kill_9_of_its_parent_ends_the_broker(driver, tmp_path):
    port = describe(driver, tmp_path / "0").port
    command = [sys.executable, "-c", STARTS_A_BROKER_AND_SLEEPS, driver.name, str(tmp_path / "0"), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        assert all(is_running(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)

    wait_until(lambda: not any(is_running(pid) for pid in pids), "the broker is gone")
    wait_until(lambda: is_free(HOST, port), "its last thread has let go of the port")


@pytest.mark.parametrize("name", [name for name in chosen_drivers() if isinstance(DRIVERS[name], Counts)])
def test_counters_tell_what_was_published_and_delivered(name, tmp_path):
    """All of them speak, and those that their driver calls exact say what we count."""
    if isinstance(found := DRIVERS[name].find(), Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    counted = {Qos.AT_MOST_ONCE: 11, Qos.AT_LEAST_ONCE: 13, Qos.EXACTLY_ONCE: 17}
    published = {qos: counted[qos] for qos in DRIVERS[name].abilities.qos}
    with running(DRIVERS[name], tmp_path / "0") as started:
        teller = teller_of(started.driver, started.process.node, None)
        with contextlib.closing(teller), Client(HOST, started.port) as client:
            teller.open()
            client.subscribe("contract", max(published))
            for qos, count in published.items():
                for _ in range(count):
                    client.publish("contract", b"12345", qos=qos)
            assert len(received_until_quiet(client, expected=sum(published.values()))) == sum(published.values())
            told = told_until_quiet(teller, watch_s=max(each.late_s for each in started.driver.counters()) + 1.5)

    for counter in started.driver.counters():
        messages = sum(published[qos] for qos in counter.qos if qos in published)
        proof = started.proof.publications if counter.has_proof else 0
        value, read_before = told[counter.name]
        if counter.is_exact:
            assert (
                value
                == {
                    Count.RECEIVED: messages + proof,
                    Count.RECEIVED_BYTES: 5 * messages,
                    Count.SENT: messages + proof + (read_before if counter.has_sys else 0),
                    Count.SENT_BYTES: 5 * messages,
                    Count.DROPPED: 0,
                }[counter.count]
            ), counter


def told_until_quiet(teller, *, watch_s):
    """The last value of each counter, after several of its updates, and how many were told before it."""
    values, number, end = {}, 0, time.monotonic() + watch_s
    while time.monotonic() < end:
        told = teller.take()
        values |= {name: (value, number) for name, value in told.items()}
        number += len(told)
    return values
