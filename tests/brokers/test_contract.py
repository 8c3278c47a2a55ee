"""What every driver promises, on real brokers; a new driver gets all of this by its line in the registry."""

import contextlib
import dataclasses
import os
import secrets
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
from broker_rig import HOST, describe, running

from brokerlab.brokers.base import CountsOnTopics, Found, Missing, Node
from brokerlab.brokers.port import free_port, is_free
from brokerlab.brokers.process import BrokerProcess, owns_listener
from brokerlab.brokers.registry import DRIVERS
from brokerlab.errors import RunError, UserError
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client
from brokerlab.load.packets import LEVELS
from brokerlab.study.values import Qos

pytestmark = pytest.mark.brokers
MESSAGES = 20

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

DELIVERS_NOTHING = """
import asyncio, sys
from brokerlab.load import scripted
from brokerlab.load.faults import Script
scripted.ScriptedBroker.route = lambda self, number, message: None
asyncio.run(scripted.serve(Script(), host="127.0.0.1", port=int(sys.argv[1])))
"""


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def received_until_quiet(client, *, expected):
    """The expected messages, and whatever else comes within 0.3 s after them."""
    messages = []
    while (message := client.receive(timeout_s=5 if len(messages) < expected else 0.3)) is not None:
        messages.append(message)
    return messages


def test_broker_is_found_with_its_version(driver):
    found = driver.find()

    assert isinstance(found, Found)
    assert any(character.isdigit() for character in found.version)


def test_readiness_is_proved(broker):
    assert broker.proof.publications >= 1
    assert 0 < broker.proof.seconds < 20
    assert owns_listener(broker.process, broker.host, broker.port)


def test_broker_listens_on_its_own_address_only(broker):
    listening = [
        connection.laddr.ip
        for pid in broker.process.pids()
        for connection in psutil.Process(pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert set(listening) == {HOST}


@pytest.mark.parametrize("qos", list(Qos))
def test_messages_arrive_once_in_order_with_their_qos(broker, qos):
    assert qos in broker.driver.abilities.qos
    topic = f"contract/{secrets.token_hex(4)}"
    with Client(HOST, broker.port) as subscriber, Client(HOST, broker.port) as publisher:
        granted = subscriber.subscribe(topic, qos)
        for number in range(MESSAGES):
            publisher.publish(topic, str(number).encode(), qos=qos)
        messages = received_until_quiet(subscriber, expected=MESSAGES)

    assert granted == qos
    assert [int(message.payload) for message in messages] == list(range(MESSAGES))
    assert {message.qos for message in messages} == {qos}
    assert not any(message.dup or message.retain for message in messages)


@pytest.mark.parametrize("protocol", sorted(LEVELS))
def test_broker_speaks_the_versions_that_it_claims_and_no_other(broker, protocol):
    topic = f"contract/{secrets.token_hex(4)}"
    if protocol not in broker.driver.abilities.protocols:
        with pytest.raises(RunError):
            Client(HOST, broker.port, protocol=protocol)
        return
    with (
        Client(HOST, broker.port, protocol=protocol) as subscriber,
        Client(HOST, broker.port, protocol=protocol) as publisher,
    ):
        for qos in broker.driver.abilities.qos:
            assert subscriber.subscribe(f"{topic}/{qos}", qos) == qos
            publisher.publish(f"{topic}/{qos}", b"x", qos=qos)
        messages = received_until_quiet(subscriber, expected=len(broker.driver.abilities.qos))

    assert [(message.topic, message.qos) for message in messages] == [
        (f"{topic}/{qos}", qos) for qos in broker.driver.abilities.qos
    ]


@pytest.mark.parametrize("level", ["+", "#"])
def test_wildcard_gets_what_it_matches_and_nothing_else(broker, level):
    base = f"contract/{secrets.token_hex(4)}"
    with Client(HOST, broker.port) as subscriber, Client(HOST, broker.port) as publisher:
        subscriber.subscribe(f"{base}/{level}", 1)
        for topic in (f"{base}/a", f"{base}x/a", f"{base}/a/b", f"{base}/c"):
            publisher.publish(topic, qos=1)
        expected = [f"{base}/a", f"{base}/a/b", f"{base}/c"] if level == "#" else [f"{base}/a", f"{base}/c"]
        messages = received_until_quiet(subscriber, expected=len(expected))

    assert [message.topic for message in messages] == expected


def test_no_message_comes_with_more_than_the_granted_qos(broker):
    """The other half, no more than it was published with, amqtt and rumqttd do not keep."""
    topic = f"contract/{secrets.token_hex(4)}"
    with Client(HOST, broker.port) as subscriber, Client(HOST, broker.port) as publisher:
        granted = subscriber.subscribe(topic, 1)
        publisher.publish(topic, qos=2)
        messages = received_until_quiet(subscriber, expected=1)

    assert granted == 1
    assert [message.qos for message in messages] == [1]


def test_every_subscriber_gets_every_message(broker):
    topic = f"contract/{secrets.token_hex(4)}"
    with Client(HOST, broker.port) as one, Client(HOST, broker.port) as two, Client(HOST, broker.port) as publisher:
        for subscriber in (one, two):
            subscriber.subscribe(topic, 1)
        for number in range(3):
            publisher.publish(topic, str(number).encode(), qos=1)
        both = [received_until_quiet(subscriber, expected=3) for subscriber in (one, two)]

    assert [[message.payload for message in messages] for messages in both] == [[b"0", b"1", b"2"]] * 2


def test_shared_subscriptions_are_as_claimed(broker):
    """Each message goes to one member of the group; a broker without them takes $share for the name of a topic."""
    topic = f"contract/{secrets.token_hex(4)}"
    with Client(HOST, broker.port) as one, Client(HOST, broker.port) as two, Client(HOST, broker.port) as publisher:
        for member in (one, two):
            with contextlib.suppress(RunError):
                member.subscribe(f"$share/group/{topic}", 1)
        for number in range(MESSAGES):
            publisher.publish(topic, str(number).encode(), qos=1)
        first = received_until_quiet(one, expected=1 if broker.driver.abilities.has_shared_subscriptions else 0)
        messages = first + received_until_quiet(two, expected=MESSAGES - len(first) if first else 0)

    expected = range(MESSAGES) if broker.driver.abilities.has_shared_subscriptions else ()
    assert sorted(int(message.payload) for message in messages) == list(expected)


def test_a_late_subscriber_gets_the_last_retained_message(broker):
    topic = f"contract/{secrets.token_hex(4)}"
    with Client(HOST, broker.port) as publisher:
        for number in range(3):
            publisher.publish(topic, str(number).encode(), qos=1, retain=True)
        with Client(HOST, broker.port) as subscriber:
            subscriber.subscribe(topic, 1)
            messages = received_until_quiet(subscriber, expected=1)
        publisher.publish(topic, b"", qos=1, retain=True)

    assert [(message.payload, message.retain) for message in messages] == [(b"2", True)]


def test_stop_leaves_no_process_and_frees_the_port(driver, tmp_path):
    with running(driver, tmp_path / "0") as started:
        pids = started.process.pids()
        assert pids

    assert not any(is_running(pid) for pid in pids)
    assert is_free(started.host, started.port)
    assert started.process.log.exists()
    assert {path.name for path in started.process.folder.iterdir()} == set(started.process.node.files)


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

    with pytest.raises(RunError, match=r"ended with exit code [1-9]") as caught, process:
        prove_ready(process, node.host, node.port)

    assert process.log_tail(1) in caught.value.message
    assert not is_running(process.pid)
    assert is_free(node.host, node.port)


def test_another_broker_on_the_port_is_no_proof(broker, tmp_path):
    """A CONNACK alone is not enough: it may come from somebody else's broker."""
    sleeps = Node((sys.executable, "-c", "import time; time.sleep(60)"), HOST, free_port(HOST))
    process = BrokerProcess(sleeps, folder=tmp_path / "0")

    with process, pytest.raises(RunError, match="not that of the broker that was started"):
        prove_ready(process, broker.host, broker.port)


def test_broker_that_never_answers_is_waited_for_until_the_deadline(tmp_path):
    sleeps = Node((sys.executable, "-c", "import time; time.sleep(60)"), HOST, free_port(HOST))
    process = BrokerProcess(sleeps, folder=tmp_path / "0")

    with process, pytest.raises(RunError, match="waited in vain for a CONNACK from"):
        prove_ready(process, HOST, sleeps.port, deadline_s=0.3)


def test_broker_that_delivers_nothing_is_waited_for_until_the_deadline(tmp_path):
    """With the parts of the scripted broker, but routing nothing."""
    port = free_port(HOST)
    node = Node((sys.executable, "-c", DELIVERS_NOTHING, str(port)), HOST, port)

    late = pytest.raises(RunError, match=r"a message on brokerlab-proof/\w+: [1-9]\d* publications brought none")
    with BrokerProcess(node, folder=tmp_path / "0") as process, late:
        prove_ready(process, HOST, port, deadline_s=2)


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


@pytest.mark.parametrize("name", [name for name, each in sorted(DRIVERS.items()) if isinstance(each, CountsOnTopics)])
def test_counters_equal_what_was_published(name, tmp_path):
    if isinstance(found := DRIVERS[name].find(), Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    published = {Qos.AT_MOST_ONCE: 11, Qos.AT_LEAST_ONCE: 13, Qos.EXACTLY_ONCE: 17}
    with running(DRIVERS[name], tmp_path / "0") as started, Client(HOST, started.port) as client:
        for qos, count in published.items():
            for _ in range(count):
                client.publish("contract", b"12345", qos=qos)
        counters = started.driver.counters()
        last = last_values(client, [counter.topic for counter in counters], watch_s=3.5)

    for counter in counters:
        ours = sum(published[qos] for qos in counter.qos)
        if counter.equals == "payload_bytes":
            ours *= 5
        else:
            ours += started.proof.publications
        assert last[counter.topic] == ours, counter


def last_values(client, topics, *, watch_s):
    """The last value of each counter, after several of its updates."""
    for topic in topics:
        client.subscribe(topic, 0)
    values, end = {}, time.monotonic() + watch_s
    while (left_s := end - time.monotonic()) > 0:
        if (message := client.receive(timeout_s=left_s)) is not None:
            values[message.topic] = float(message.payload)
    return values
