"""Moquette, a broker in Java.

Stock is Moquette's own default for everything but:

    host, port          where it listens, and what it speaks there
    data_path           in the node's folder
    telemetry           off, so that it reports to nobody
    log                 warnings, and what it listens on
    heap                1 GiB at most: it has no limit of its own, and Java's would depend on the machine

It takes packets up to 8092 bytes, and up to 1024 commands may wait for one of its sessions' threads.

    lossless    packets of any size, a million waiting commands, 4 GiB of heap
    tuned       nothing is kept on disk, the kernel's epoll where Netty has it, 4 GiB of heap

There is no `durable`: what is kept is saved every 30 s, and no setting makes a message wait for the disk.
`lossless` holds from QoS 1 on: bursts at QoS 0 it drops in any case.
It closes the connection of a client whose SUBSCRIBE comes before the CONNACK has left, and at times right after.
A publication at QoS 1 can end one of its threads for good (its log: «increment : 0»): from then on the clients of that
thread are not answered any more, which the probe shows as answers that did not come.
Clients with certificates would have to be known to its own key store, so there are none here.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from brokerlab.brokers import java
from brokerlab.brokers.base import OPEN, Abilities, Departure, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone
from brokerlab.brokers.source import Maven
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "0.17"
_DATA = "data"
_CONFIG = "config/moquette.conf"  # where Moquette looks for it below moquette.path
_RULES = "config/acl.conf"
_LOG = "log4j.properties"
_HEAP_MIB = {"lossless": 4096, "tuned": 4096}
_STOCK_HEAP_MIB = 1024
_PORTS = {
    Transport.TCP: "port",
    Transport.TLS: "ssl_port",
    Transport.WS: "websocket_port",
    Transport.WSS: "secure_websocket_port",
}
_PRESETS = {
    "lossless": ("netty.mqtt.message_size 268435455", "session_queue_size 1000000"),
    "tuned": ("persistence_enabled false", "netty.epoll true"),
}

_TAKEN_FOR_COMMENT = re.compile(r"[\w\s/+]+#", re.ASCII)

_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.logger.io.moquette.broker.Server=INFO
log4j.logger.io.moquette.broker.NewNettyAcceptor=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %-5p [%c] %m%n
"""


class Moquette:
    name = "moquette"
    source = Maven((f"io.moquette:moquette-broker:{_VERSION}",))
    abilities = Abilities(
        protocols=("3.1", "3.1.1"),
        presets=("stock", *_PRESETS),
        options=("heap_mib",),
        transports=tuple(Transport),
        has_credentials=True,
        has_permissions=True,
        is_scalable=True,
        payload_limit_bytes=8_000,
        departs=(Departure.NO_RETAIN_FLAG, Departure.CLOSES_AT_SUBSCRIBE),
        licence="Apache-2.0 or EPL-1.0",
    )

    def find(self) -> Found | Missing:
        return java.find_broker(self.name, f"lib/moquette-broker-{_VERSION}.jar", version=_VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        program, place = java.require(choice, self.find())
        seat = alone(folder, host, port, spare=0)
        here = seat.folder
        files = {_CONFIG: "\n".join(_config(choice.preset, here, host, port, security)) + "\n", _LOG: _LOGGING}
        if security.readable or security.writable:
            files[_RULES] = _rules(security)
        secrets = java.stores(security)
        if security.users:
            secrets[_passwords(security)] = "".join(
                f"{name}:{hashlib.sha256(password.encode()).hexdigest()}\n" for name, password in security.users.items()
            )
        most_mib = _HEAP_MIB.get(choice.preset, _STOCK_HEAP_MIB)
        return java.node(
            (
                str(program),
                *java.options(choice, folder=here, first_mib=64, most_mib=most_mib),
                f"-Dmoquette.path={here}",
                f"-Dlog4j.configuration=file:{here / _LOG}",
                *("-cp", f"{place / 'lib'}/*", "io.moquette.broker.Server"),
            ),
            seat,
            files=files,
            secrets=secrets,
            scratch=(_DATA,),
        )


def _config(preset: str, here: Path, host: str, port: int, security: Security) -> Iterator[str]:
    yield f"host {host}"
    yield f"{_PORTS[security.transport]} {port}"
    if security.transport is not Transport.TCP:
        yield "port disabled"
    if security.transport.is_encrypted:
        yield f"jks_path {_from(here, java.key_store_path(security))}"
        yield "key_store_type pkcs12"
        yield f"key_store_password {java.STORE_PASSWORD}"
        yield f"key_manager_password {java.STORE_PASSWORD}"
    yield f"data_path {here / _DATA}"
    yield "telemetry_enabled false"
    yield f"allow_anonymous {'false' if security.users else 'true'}"
    if security.users:
        yield f"password_file {_from(here, _passwords(security))}"
    if security.readable or security.writable:
        yield f"acl_file {_RULES}"
    yield from _PRESETS.get(preset, ())


def _from(here: Path, path: Path) -> str:
    """The path as seen from the node's folder, below which Moquette looks for all its files."""
    return os.path.relpath(path, here)


def _passwords(security: Security) -> Path:
    return java.private(security) / "moquette.passwords"


def _rules(security: Security) -> str:
    """What holds for everybody; what it does not name is forbidden."""
    rules = [("read", each) for each in security.readable] + [("write", each) for each in security.writable]
    lines = (f"topic {kind} {each}" for kind, each in rules)
    # It takes the # of a filter for the begin of a comment, unless there is one after it.
    return "".join(line + (" #\n" if _TAKEN_FOR_COMMENT.fullmatch(line) else "\n") for line in lines)
