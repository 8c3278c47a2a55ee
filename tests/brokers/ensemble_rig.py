"""Ensembles of real brokers, each node at a site of its own network, and what messages between all of them do."""

import contextlib
import secrets
import time
from pathlib import Path

from brokerlab.brokers.base import Security
from brokerlab.lab.ensemble import Nodes, Setup
from brokerlab.lab.stand import Stand
from brokerlab.load.client import Login
from brokerlab.network.network import Network
from brokerlab.study.ensemble_values import BridgeShape, Ensemble
from brokerlab.study.topology import MESH, Topology
from brokerlab.study.values import BrokerChoice

PATIENCE_S = 60.0
ROUNDS = 5
QUIET_S = 0.3  # what goes round comes again within it


@contextlib.contextmanager
def joined(names, folder, *, join, users=None, preset="stock"):
    """The nodes, in namespaces of their own; bridges are laid to the first from all others."""
    private = folder / "private"
    private.mkdir(mode=0o700)
    with Network(Topology(shape=MESH, sites=len(names)), nodes=len(names)) as network:
        setup = Setup(
            Ensemble(len(names), join, BridgeShape.STAR),
            tuple(BrokerChoice(name, name, preset) for name in names),
            Stand(network.brokers, network.clients),
            folder / "nodes",
            security=Security(folder=private, users=users or {}),
            login=login_of(users or {}),
        )
        with Nodes(setup) as nodes:
            yield nodes


def login_of(users):
    for name, password in users.items():
        return Login(user=name, password=password.encode())
    return Login()


def crossings(nodes, qos):
    """What subscribers at each node get of what clients at each node publish: [(from, to, payload, QoS)]."""
    topic = f"crossing/{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        subscribers = [stack.enter_context(door.open()) for door in nodes.doors()]
        publishers = [stack.enter_context(door.open()) for door in nodes.doors()]
        for subscriber in subscribers:
            subscriber.subscribe(f"{topic}/#", qos)
        wait_for_ways(publishers, subscribers, topic)
        for number, publisher in enumerate(publishers):
            for count in range(ROUNDS):
                publisher.publish(f"{topic}/{number}", str(count).encode(), qos=qos)
        came = [list(taken(subscriber, ROUNDS * len(publishers))) for subscriber in subscribers]
        time.sleep(QUIET_S)
        for number, subscriber in enumerate(subscribers):
            late = iter(lambda subscriber=subscriber: subscriber.receive(timeout_s=0.01), None)
            came[number] += (message for message in late if not is_way(message))
    return [
        (int(message.topic.rpartition("/")[2]), end, int(message.payload), message.qos)
        for end, messages in enumerate(came)
        for message in messages
    ]


def taken(subscriber, count):
    """So many messages, or fewer where none comes any more; what asked for ways may come late, and is left out."""
    while count:
        if (message := subscriber.receive(timeout_s=5.0)) is None:
            return
        if not is_way(message):
            count -= 1
            yield message


def is_way(message):
    return message.topic.endswith("/way")


def wait_for_ways(publishers, subscribers, topic):
    """Subscriptions take their time to be known at the other nodes: until a message of each has come to each."""
    deadline = time.monotonic() + PATIENCE_S
    missing = [{str(number) for number in range(len(publishers))} for _ in subscribers]
    while any(missing):
        assert time.monotonic() < deadline, f"nothing comes from these to each: {missing}"
        for number, publisher in enumerate(publishers):
            publisher.publish(f"{topic}/way", str(number).encode())
        for end, subscriber in enumerate(subscribers):
            while (message := subscriber.receive(timeout_s=0.1)) is not None:
                missing[end].discard(message.payload.decode())


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


class Silent:
    """A watcher of runs."""

    def run_started(self, run, number, total): ...

    def phase_started(self, name, seconds): ...

    def run_ended(self, run, verdict, reasons, seconds): ...


def namespaces():
    return {path.name for path in Path("/run/netns").iterdir()} if Path("/run/netns").exists() else set()
