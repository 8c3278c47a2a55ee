"""rumqttd, a broker in Rust: as the package iotcore carries it, and as a program built from its crate.

Stock is what both do as shipped: 10,000 connections, payloads up to 20,480 bytes, 100 messages in flight, a log of ten
segments of 100 MiB in memory for each filter. The one change beside the address is iotcore's log level: below CRITICAL
it logs a line for every packet, which costs it more than half of its speed. A configuration file is only written where
iotcore's arguments do not say it, and always for the program.

    lossless  a hundred segments instead of ten: a subscriber that is further behind misses what fell out of the log

There is no durable, because rumqttd keeps nothing on disk, and no tuned, because its documentation recommends nothing.

Its bridge only pulls, and of two that pull from each other each would get its own messages back, for ever; so bridges
between rumqttd and others are brokerlab's own.

It has a fixed number of threads: one that routes and one for each listener. MQTT 5 has a port of its own, and none over
WebSocket. What was published at QoS 0 it delivers at the QoS of the subscription, against MQTT 3.1.1 section 3.8.4, and
it closes the connection of a client whose password is wrong, without the CONNACK of section 3.2.2.3.
"""

import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Departure, Found, Missing, Node, Security
from brokerlab.brokers.built import find_built, program_of, secret, toml_string
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import Crate, Shipped
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

_NAME = "rumqttd"
_CONFIG = "rumqttd.toml"
_STOCK_SEGMENTS = 10
_LOSSLESS_SEGMENTS = 100

_ROUTER = """\
id = 0

[router]
id = 0
max_connections = 10000
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = {segments}
"""

_LISTENER = """
[{kind}.1]
name = "brokerlab"
listen = "{host}:{port}"
next_connection_delay_ms = 1

[{kind}.1.connections]
connection_timeout_ms = 60000
max_payload_size = 20480
max_inflight_count = 100
dynamic_filters = true
"""


class Rumqttd:
    def __init__(self, version: str | None = None) -> None:
        """`version` is that of the crate; without one it is iotcore's."""
        self.name = _NAME if version is None else f"{_NAME}@{version}"
        # Not with its author's lock file: that pins a version of metrics which Rust 1.95 does not compile.
        self.source = Shipped() if version is None else Crate(_NAME, version, _NAME, is_locked=False)
        self.abilities = Abilities(
            protocols=("3.1.1", "5.0"),
            presets=("stock", "lossless"),
            transports=tuple(Transport),
            has_credentials=True,
            has_shared_subscriptions=True,
            has_port_per_protocol=True,
            payload_limit_bytes=20_480,
            departs=(Departure.RAISES_QOS, Departure.CLOSES_INSTEAD_OF_REFUSING),
            licence="Apache-2.0",
        )

    def find(self) -> Found | Missing:
        if isinstance(self.source, Crate):
            return find_built(self.name, self.source)
        try:
            return Found("iotcore", f"iotcore {importlib.metadata.version('iotcore')}")
        except importlib.metadata.PackageNotFoundError:
            return Missing("the Python package iotcore is not installed", hint="pip install iotcore")

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        if security.transport.is_framed and security.protocol == "5.0":
            raise UserError(f"broker {choice.name}: {self.name} has no MQTT 5 over WebSocket", hint="use 3.1.1, or tcp")
        program = program_of(self.find(), choice)
        is_crate = isinstance(self.source, Crate)
        if not is_crate and choice.preset == "stock" and security in (OPEN, Security(folder=security.folder)):
            return Node(argv=(*_IOTCORE, "--listen", host, "--port", str(port)), host=host, port=port)
        config = "".join(_parts(choice.preset, host, port, security))
        path = folder.absolute() / _CONFIG
        secrets: dict[Path, str | bytes] = {}
        if security.users:
            path = secret(security, _CONFIG)
            secrets[path] = config + _auth(_kind(security), security.users)
        return Node(
            argv=(program, "-q", "-c", str(path)) if is_crate else (*_IOTCORE, "--config", str(path)),
            host=host,
            port=port,
            files={_CONFIG: config},  # with users the one that is read has them as well
            secrets=secrets,
        )


_IOTCORE = (sys.executable, "-P", "-m", "iotcore", "--log-level", "CRITICAL")


def _kind(security: Security) -> str:
    if security.transport.is_framed:
        return "ws"
    return "v5" if security.protocol == "5.0" else "v4"


def _parts(preset: str, host: str, port: int, security: Security) -> Iterator[str]:
    kind = _kind(security)
    yield _ROUTER.format(segments=_LOSSLESS_SEGMENTS if preset == "lossless" else _STOCK_SEGMENTS)
    yield _LISTENER.format(kind=kind, host=host, port=port)
    if security.transport.is_encrypted:
        yield f"\n[{kind}.1.tls]\n"
        yield f"certpath = {toml_string(security.certificate)}\nkeypath = {toml_string(security.key)}\n"


def _auth(kind: str, users: Mapping[str, str]) -> str:
    lines = (f"{toml_string(name)} = {toml_string(password)}\n" for name, password in users.items())
    return f"\n[{kind}.1.connections.auth]\n" + "".join(lines)
