"""The broker to probe: one that is started for it and stopped after it, or somebody's at an address."""

import contextlib
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from brokerlab import inventory
from brokerlab.brokers.base import Broker, Missing, Security
from brokerlab.brokers.port import free_port
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.brokers.starting import Started, process_of
from brokerlab.errors import UserError
from brokerlab.lab.probe.room import Place, Room
from brokerlab.lab.probe.values import NotKept
from brokerlab.lab.proof import named, prove_ready
from brokerlab.load.client import Login
from brokerlab.load.packets import LEVELS, ConnAck, Connect, connack_reason
from brokerlab.load.tls import context_for
from brokerlab.study.address import read_address
from brokerlab.study.values import BrokerChoice

_HOST = "127.0.0.1"
_CONNECT_S = 10.0
_NOT_ADMITTED = (4, 5)  # MQTT 3.1.1 section 3.2.2.3: bad user name or password, not authorized
_PLAIN, _OWN = "3.1.1", "5.0"  # the second is the version that has a port of its own at some brokers


@dataclass(frozen=True, slots=True)
class Target:
    name: str  # of the driver, or the address
    version: str  # "" where nobody knows
    place: Place
    renew: Callable[[], Place] | None = None  # starts it again, where it is ours


@dataclass(frozen=True, slots=True)
class WayIn:
    """How to get into somebody's broker."""

    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: bytes | None = field(default=None, repr=False)


def tls_context(authority: Path | None, certificate: Path | None) -> ssl.SSLContext:
    """The broker's certificate must be signed by that authority, or by one that the system trusts."""
    try:
        return context_for(authority, certificate)
    except OSError as problem:
        files = " or ".join(str(path) for path in (authority, certificate) if path is not None)
        raise UserError(f"{files} cannot be used: {problem.strerror or problem}") from problem


@contextlib.contextmanager
def opened(name: str, *, largest_bytes: int, way_in: WayIn | None = None) -> Iterator[Target]:
    """The broker of that driver, started for as long as it is used, or the one at that address (host:port)."""
    if name not in DRIVERS and ":" in name:
        yield _somebodys(name, largest_bytes, way_in or WayIn())
        return
    if way_in is not None:
        raise UserError(
            f"{name} is started for the probe, without TLS and users",
            hint="--tls and --user are for a broker at an address (host:port)",
        )
    broker = driver(name)
    found = broker.find()
    if isinstance(found, Missing):
        raise UserError(f"{name} is not here: {found.reason}", hint=found.hint)
    with inventory.temporary_folder("brokerlab-probe-") as temporary, contextlib.ExitStack() as stack:
        ours = _Ours(broker, temporary, largest_bytes, stack)
        yield Target(name, found.version, ours.start(), renew=ours.start)


class _Ours:
    """A broker that is started for the probe, and started again where it no longer serves."""

    def __init__(self, broker: Broker, folder: Path, largest_bytes: int, stack: contextlib.ExitStack) -> None:
        self._broker, self._folder, self._largest_bytes = broker, folder, largest_bytes
        self._running = stack.enter_context(contextlib.ExitStack())
        self._starts = 0

    def start(self) -> Place:
        self._running.close()
        self._starts += 1
        broker, folder = self._broker, self._folder / str(self._starts)
        folder.mkdir()
        process = _started(broker, _PLAIN, folder / "0", self._running)
        # Where a version has a port of its own, another node stands beside the first, as the driver describes one port.
        has_own = broker.abilities.has_port_per_protocol and _OWN in broker.abilities.protocols
        own = _started(broker, _OWN, folder / "1", self._running) if has_own else None

        def obituary() -> str:
            ended = next((each for each in (process, own) if each is not None and not each.is_alive()), None)
            return "" if ended is None else f"its process ended with exit code {ended.exit_code}"

        login = named(Login(), process.node)
        return Place(
            _HOST, process.node.port, largest_bytes=self._largest_bytes, obituary=obituary,
            ports={LEVELS[_OWN]: own.node.port} if own else {}, user=login.user, password=login.password,
        )  # fmt: skip


def _started(broker: Broker, protocol: str, folder: Path, stack: contextlib.ExitStack) -> Started:
    choice, private = BrokerChoice(broker.name, broker.name), folder.with_name(f"{folder.name}-private")
    private.mkdir(mode=0o700)
    security = Security(protocol=protocol, folder=private)
    node = broker.node(choice, folder=folder, host=_HOST, port=free_port(_HOST), security=security)
    process = stack.enter_context(process_of(node, folder=folder))
    prove_ready(process, node.host, node.port, login=Login(protocol=protocol))
    return process


def _somebodys(address: str, largest_bytes: int, way_in: WayIn) -> Target:
    host, port = read_address(address)
    place = Place(
        host, port, is_ours=False, largest_bytes=largest_bytes,
        tls=way_in.tls, user=way_in.user, password=way_in.password,
    )  # fmt: skip
    try:
        place.connected(LEVELS[_PLAIN], _CONNECT_S).close()
    except ssl.SSLError as problem:
        raise UserError(f"{address} does not get through TLS: {problem.reason or problem}") from problem
    except OSError as problem:
        raise UserError(
            f"nobody answers at {address}: {problem.strerror or problem}",
            hint="is the broker running, and the port right?",
        ) from problem
    _require_admission(address, place)
    return Target(address, "", place)


def _require_admission(address: str, place: Place) -> None:
    """UserError when the broker refuses who we are; every check would say so otherwise, and nothing about MQTT."""
    with Room(place, level=LEVELS[_PLAIN], name="admission", stop=Event()) as room, contextlib.suppress(NotKept):
        peer = room.raw("admission")
        peer.send(Connect(room.client_id(), 0))
        code = peer.answer(ConnAck).return_code
        if code in _NOT_ADMITTED:
            raise UserError(
                f"{address} does not let us in: {connack_reason(LEVELS[_PLAIN], code)}",
                hint="name a user with --user, and his password in the environment",
            )
