"""Starts real brokers for the contract suite, and tells which ones, and what is to be expected of them."""

import contextlib
import os
import secrets
import time
from dataclasses import dataclass, replace

import psutil

from brokerlab.brokers.base import OPEN, Broker, Departure, Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.brokers.source import Debian, Elsewhere, Shipped
from brokerlab.lab.proof import Proof, named, prove_ready
from brokerlab.load.client import Client as PlainClient
from brokerlab.load.client import Login
from brokerlab.study.values import BrokerChoice

HOST = "127.0.0.1"
CHOICE = "BROKERLAB_CONTRACT"  # "quick", "all", or names with commas between them
LOGINS = {}  # port -> as whom everybody comes in, where the broker asks for that
MOSQUITTO = Debian(("mosquitto",))


@dataclass(frozen=True)
class Running:
    driver: Broker
    process: BrokerProcess
    proof: Proof
    host: str
    port: int

    @property
    def departs(self) -> tuple[Departure, ...]:
        return self.driver.abilities.departs


def chosen_drivers() -> list[str]:
    """The drivers that the suite runs on, installed or not: by default those that `make test` has brokers for."""
    asked = os.environ.get(CHOICE, "quick")
    if asked == "all":
        return sorted(name for name, each in DRIVERS.items() if not isinstance(each.source, Elsewhere))
    if asked != "quick":
        return [driver(name.strip()).name for name in asked.split(",")]
    return sorted(
        name for name, each in DRIVERS.items() if isinstance(each.source, Shipped) or each.source == MOSQUITTO
    )


def is_quick(source) -> bool:
    return isinstance(source, Shipped) or source == MOSQUITTO


class Client(PlainClient):
    """With the name that the broker at that port asks everybody for, where it does."""

    def __init__(self, host, port, *, login=None, **more):
        super().__init__(host, port, login=login or LOGINS.get(port), **more)


def describe(driver, folder, *, preset="stock", security=OPEN) -> Node:
    choice = BrokerChoice(driver.name, driver.name, preset=preset)
    node = driver.node(choice, folder=folder, host=HOST, port=free_port(HOST), security=security)
    if node.login:
        LOGINS[node.port] = named(Login(), node)
    return node


@contextlib.contextmanager
def running(driver, folder, *, preset="stock", protocol="3.1.1"):
    """A broker that is ready; `protocol` is what its clients speak, where it has a port for each version."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    private = folder.with_name(f"{folder.name}-private")
    private.mkdir(mode=0o700)
    node = describe(driver, folder, preset=preset, security=replace(OPEN, folder=private, protocol=protocol))
    login = Login(protocol=protocol) if driver.abilities.has_port_per_protocol else None
    with BrokerProcess(node, folder=folder) as process:
        proof = prove_ready(process, node.host, node.port, login=login)
        yield Running(driver, process, proof, node.host, node.port)


subscribe_at_once = PlainClient.subscribe


def subscribe_unhurried(client, topic_filter, qos, **options) -> int:
    """For a broker that may not yet be ready for its client when it has sent the CONNACK."""
    time.sleep(0.1)
    return subscribe_at_once(client, topic_filter, qos, **options)


def new_topic() -> str:
    return f"contract/{secrets.token_hex(4)}"


def expected_qos(abilities, *, published, subscribed) -> int:
    """The QoS of a delivery: the lower of the two (MQTT 3.1.1 section 3.8.4), but for what the driver names."""
    if Departure.DELIVERS_AT_QOS_0 in abilities.departs:
        return 0
    if Departure.IGNORES_SUBSCRIBED_QOS in abilities.departs:
        return published
    if Departure.RAISES_QOS in abilities.departs:
        return subscribed
    return min(published, subscribed)


def received_until_quiet(client, *, expected, patience_s=5.0):
    """The expected messages, and whatever else comes within 0.3 s after them."""
    messages = []
    while (message := client.receive(timeout_s=patience_s if len(messages) < expected else 0.3)) is not None:
        messages.append(message)
    return messages


def listeners(process) -> set[tuple[str, int]]:
    """Where the broker listens, with all that it started; an IPv4 address in an IPv6 one is taken out of it."""
    return {
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for pid in process.pids()
        for connection in psutil.Process(pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def is_running(pid) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def members_of(session) -> list[int]:
    """The processes of a session that still run."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session and is_running(pid):
                members.append(pid)
    return members
