"""Network namespaces of the tests' own, the nodes of an ensemble in them, and messages between all of them."""

import contextlib
import os
import secrets
import subprocess
import time
from dataclasses import dataclass

from broker_rig import received_until_quiet

from brokerlab.brokers.base import Group, Seat, Security
from brokerlab.brokers.process import BrokerProcess, owns_listener
from brokerlab.inside import inside
from brokerlab.lab.proof import named, prove_ready
from brokerlab.load.client import Client, Login

MQTT, SPARE = 1883, tuple(range(20_000, 20_008))
PATIENCE_S = 60.0
ROUNDS = 5


@dataclass(frozen=True)
class Site:
    namespace: str
    address: str


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def namespaces(count):
    """So many, each with an address, on a bridge in one more."""
    prefix = f"bl{secrets.token_hex(3)}"
    hub = f"{prefix}hub"
    sites = [Site(f"{prefix}n{number}", f"10.77.0.{number + 1}") for number in range(count)]
    with contextlib.ExitStack() as stack:
        for name in (hub, *(site.namespace for site in sites)):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for number, site in enumerate(sites):
            ip("-n", hub, "link", "add", f"p{number}", "type", "veth", "peer", "name", "eth0", "netns", site.namespace)
            ip("-n", hub, "link", "set", f"p{number}", "master", "br0", "up")
            ip("-n", site.namespace, "addr", "add", f"{site.address}/24", "dev", "eth0")
            ip("-n", site.namespace, "link", "set", "eth0", "up")
        yield sites


def seats(sites, folder):
    return [Seat(number, site.address, MQTT, folder / str(number), SPARE) for number, site in enumerate(sites)]


def private(folder):
    made = folder / "private"
    made.mkdir(mode=0o700, parents=True)
    return Security(folder=made)


@contextlib.contextmanager
def started(group: Group, sites, folder):
    """Each node in its own namespace, ready and joined."""
    with contextlib.ExitStack() as stack:
        for node in group.servers:
            server = BrokerProcess(node, folder=folder / "0", namespace=sites[0].namespace)
            stack.enter_context(server)
            wait_until(lambda node=node, server=server: owns_listener(server, node.host, node.port), "it listens")
        processes = []
        for number, node in enumerate(group.nodes):
            process = BrokerProcess(node, folder=folder / str(number), namespace=sites[number].namespace)
            processes.append(stack.enter_context(process))
            if not group.is_together:
                get_ready(process)
        if group.is_together:
            for process in processes:
                get_ready(process)
        yield processes


def get_ready(process):
    node = process.node
    with inside(process.namespace):
        prove_ready(process, node.host, node.port)
        for command in node.joins:
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ | node.env, check=False)
            assert done.returncode == 0, (command, done.stdout, done.stderr)


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def client(process):
    """A client beside that node."""
    with inside(process.namespace):
        login = named(Login(), process.node)
        return Client(process.node.host, process.node.port, login=login, timeout_s=10)


def crossings(processes, qos):
    """What subscribers at each node get of what clients at each node publish: {(from, to): payloads}."""
    topic = f"crossing/{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        subscribers = [stack.enter_context(client(process)) for process in processes]
        publishers = [stack.enter_context(client(process)) for process in processes]
        for subscriber in subscribers:
            subscriber.subscribe(f"{topic}/#", qos)
        wait_for_ways(publishers, subscribers, topic)
        for number, publisher in enumerate(publishers):
            for round_ in range(ROUNDS):
                publisher.publish(f"{topic}/{number}", f"{number} {round_}".encode(), qos=qos)
        expected = ROUNDS * len(processes)
        got = [received_until_quiet(subscriber, expected=expected) for subscriber in subscribers]
    return {
        (start, end): sorted(message.payload.decode() for message in got[end] if message.topic == f"{topic}/{start}")
        for start in range(len(processes))
        for end in range(len(processes))
    }, got


def wait_for_ways(publishers, subscribers, topic):
    """Subscriptions take their time to be known at the other nodes: until one message of each has come to each."""
    deadline = time.monotonic() + PATIENCE_S
    missing = [{str(number) for number in range(len(publishers))} for _ in subscribers]
    while any(missing):
        assert time.monotonic() < deadline, f"no way at all: {missing}"
        for number, publisher in enumerate(publishers):
            publisher.publish(f"{topic}/way", str(number).encode())
        for end, subscriber in enumerate(subscribers):
            while (message := subscriber.receive(timeout_s=0.2)) is not None:
                missing[end].discard(message.payload.decode())
