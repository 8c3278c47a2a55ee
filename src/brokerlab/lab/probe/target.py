"""The broker to probe: one that is started for it and stopped after it, or somebody's at an address."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from brokerlab import inventory
from brokerlab.brokers.base import Missing
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.errors import UserError
from brokerlab.lab.probe.room import Place
from brokerlab.lab.proof import prove_ready
from brokerlab.study.values import BrokerChoice

_HOST = "127.0.0.1"
_CONNECT_S = 10.0
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Target:
    name: str  # of the driver, or the address
    version: str  # "" where nobody knows
    place: Place


@contextlib.contextmanager
def opened(name: str, *, largest_bytes: int) -> Iterator[Target]:
    """The broker of that driver, started for as long as it is used, or the one at that address (host:port)."""
    if name not in DRIVERS and ":" in name:
        yield _somebodys(name, largest_bytes)
        return
    broker = driver(name)
    found = broker.find()
    if isinstance(found, Missing):
        raise UserError(f"{name} is not here: {found.reason}", hint=found.hint)
    with inventory.temporary_folder("brokerlab-probe-") as temporary:
        folder = temporary / "0"
        node = broker.node(BrokerChoice(name, name), folder=folder, host=_HOST, port=free_port(_HOST))
        with BrokerProcess(node, folder=folder) as process:
            prove_ready(process, node.host, node.port)

            def obituary() -> str:
                return "" if process.is_alive() else f"its process ended with exit code {process.exit_code}"

            place = Place(node.host, node.port, largest_bytes=largest_bytes, obituary=obituary)
            yield Target(name, found.version, place)


def _somebodys(address: str, largest_bytes: int) -> Target:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) <= _HIGHEST_PORT:
        raise UserError(
            f"{address!r} is no address", hint="an address is written host:port, for example 192.0.2.1:1883"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except OSError as problem:
        raise UserError(
            f"nobody answers at {address}: {problem.strerror or problem}",
            hint="is the broker running, and the port right?",
        ) from problem
    return Target(address, "", Place(host, int(port), is_ours=False, largest_bytes=largest_bytes))
