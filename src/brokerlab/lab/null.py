"""The null broker as a process of ours: how clients get in, what it is told to play, what it has counted."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.setups import USUAL, SetUp, workload_of
from brokerlab.load import nullbroker
from brokerlab.load.client import Client as PlainClient
from brokerlab.load.client import Login
from brokerlab.load.features5 import publish_properties
from brokerlab.load.spec import Client, Entrance
from brokerlab.study.values import Transport

HOST = nullbroker.HOST
SETTLE_NS = 60_000_000_000  # the longest wait for what is under way when a measurement ends
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Null:
    """A null broker that runs, and how clients get in."""

    process: BrokerProcess
    login: Login


@contextmanager
def null_broker(folder: Path, transport: Transport = Transport.TCP) -> Iterator[Null]:
    port = free_port(HOST)
    files, login = _certified(folder, transport) if transport.is_encrypted else ((), Login(Entrance(transport)))
    node = Node((sys.executable, "-P", "-m", nullbroker.__name__, str(port), transport, *files), HOST, port)
    with BrokerProcess(node, folder=folder / "null") as process:
        prove_ready(process, HOST, port, login=login)
        yield Null(process, login)


def _certified(folder: Path, transport: Transport) -> tuple[tuple[str, ...], Login]:
    """The files of a certificate for the null broker, and who trusts it."""
    # Loaded where it is needed, as in lab/access.py.
    from brokerlab.lab.certificates import Authority, keep  # noqa: PLC0415

    authority = Authority()
    certificate, key = authority.broker(HOST)
    files = str(keep(folder, "broker.pem", certificate)), str(keep(folder, "broker.key", key))
    return files, Login(Entrance(transport, keep(folder, "authority.pem", authority.pem)))


def play(null: Null, start_ns: int, end_ns: int, *, setup: SetUp = USUAL) -> None:
    """Orders what the subscribers are to be played: messages with all that a publisher of the set-up gives them."""
    order = {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "payload_bytes": setup.payload_bytes,
        "template": setup.template,
        "mix": setup.mix or [(size, 100 / len(setup.each)) for size in setup.each],
        "properties": publish_properties(Client(0, "", "null/0"), workload_of(setup)).hex(),
    }
    with PlainClient(HOST, null.process.node.port, login=null.login) as client:
        client.publish(nullbroker.CONTROL_TOPIC, json.dumps(order).encode())


def played(broker: BrokerProcess, *, before: int = 0) -> int:
    """How many messages the null broker played beside those before, once it says so."""
    deadline = time.monotonic() + SETTLE_NS / 1e9
    while (counts := _said(broker)) is None or 0 < counts["played"] <= before:
        broker.require_alive("the end of its playing")
        if time.monotonic() > deadline:
            raise RunError("calibration: the null broker did not say how much it played")
        time.sleep(LOOK_S)
    return int(counts["played"]) - before


def require_equal(broker: BrokerProcess, name: str, ours: int) -> None:
    """Holds the null broker's count against ours, after its end."""
    theirs = (_said(broker) or {}).get(name)
    if theirs != ours or not ours:
        raise RunError(f"calibration: the null broker {name} {theirs} messages, the worker counts {ours}")


def _said(broker: BrokerProcess) -> dict[str, Any] | None:
    """Its counts as it said them last; beside them its log has connections that it closed."""
    lines = [line for line in broker.log_tail().splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None
