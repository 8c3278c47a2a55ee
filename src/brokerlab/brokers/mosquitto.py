"""Mosquitto, a broker in C with one thread: Debian's own, and newer ones from newer Debians.

stock     Mosquitto without a configuration file, but for what a run needs:
            listener, allow_anonymous   since 2.0 Mosquitto serves nobody without them; with user names, password_file
            protocol, certfile …        what the listener speaks, where that is not bare TCP
            acl_file                    where topics are forbidden
            user                        the one who runs it: otherwise a Mosquitto started by root changes its user,
                                        at which the kernel forgets that it shall die with us
            sys_interval 1              its counters are at most 1 s old instead of 10 s, or each run would wait
lossless  no limit to what waits for a client (stock drops what comes after 1,000 messages), nor to what is in flight:
          of a publisher with more than 20 handshakes of QoS 2 under way stock acknowledges messages and loses them;
          where only the first limit is lifted it ends that publisher's connection. One less than the most that MQTT
          allows: with that, or with 0, its own bridges do not connect.
durable   lossless, with the database on the disk: written whole, and synced, after each turn of its loop in which
          anything was stored. What that turn acknowledged was acknowledged before, so a crash can still cost it.
tuned     lossless, without Nagle's delay.

A bridge speaks MQTT 5.0 with the far broker, which sends nothing back where it came from if it knows No Local, as every
Mosquitto does; both ends keep at QoS 1 and 2 what the other has not got yet.

Over WebSocket Mosquitto 2.0.11 hands a packet above 4 KiB on in pieces of 4 KiB, one every 0.1 s (its subscribers
get 50 kB after 1.2 s): that is its own doing and stands in the results.
"""

import base64
import contextlib
import hashlib
import os
import pwd
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Found, Missing, Node, Peer, Seat, Security
from brokerlab.brokers.cache import how_to_install
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.program import find_program, version_said_by
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Debian, DebianSuite
from brokerlab.brokers.suite import by_loader, find_in_suite
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Qos, Transport

_PROGRAM = "mosquitto"
_SUITES = {"2.0.21": "trixie", "2.1.2": "forky"}
_SYSTEM_PROGRAMS = Path("/usr/sbin")  # Debian's place for it, not on the PATH of every user

# Mosquitto 2.0 hashes passwords with so many rounds unless told otherwise (mosquitto_passwd), and accepts any number.
_ROUNDS = 101
_SALT_BYTES = 12

_DATA = "data"
_TOPICS = "topics.acl"
_BRIDGES = "bridges"
_LOSSLESS = ("max_queued_messages 0", "max_inflight_messages 65534")
_PRESETS: Mapping[str, tuple[str, ...]] = {
    "stock": (),
    "lossless": _LOSSLESS,
    "durable": (*_LOSSLESS, "persistence true", "autosave_on_changes true", "autosave_interval 1"),
    "tuned": (*_LOSSLESS, "set_tcp_nodelay true"),
}

_LATE_S = 1.0  # our sys_interval; it tells a counter only when it changed


class Mosquitto:
    abilities = Abilities(
        protocols=("3.1", "3.1.1", "5.0"),
        presets=tuple(_PRESETS),
        transports=tuple(Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_shared_subscriptions=True,
        has_permissions=True,
        has_bridges=True,
        licence="EPL-2.0 or BSD-3-Clause",
    )

    def __init__(self, version: str | None = None) -> None:
        """Debian's own, or the one of a newer Debian."""
        self._version = version
        self.name = _PROGRAM if version is None else f"{_PROGRAM}@{version}"
        self.source: Debian | DebianSuite = (
            Debian((_PROGRAM,)) if version is None else DebianSuite(_SUITES[version], (_PROGRAM,))
        )

    def find(self) -> Found | Missing:
        if self._version is not None:
            return find_in_suite(self.name, _PROGRAM, "usr/sbin/mosquitto", self._version)
        program = find_program(_PROGRAM, _SYSTEM_PROGRAMS)
        if program is None:
            return Missing(f"the program {_PROGRAM} is not here", hint=how_to_install(self.name))
        version = version_said_by(program, "-h", r"mosquitto version (\S+)")
        if version is None:
            return Missing(f"{program} does not say its version", hint=how_to_install(self.name))
        return Found(program, version)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port, spare=0), security)

    def bridged(
        self, choice: BrokerChoice, seat: Seat, *, peers: Sequence[Peer], security: Security = OPEN
    ) -> Node:  # fmt: skip
        if security.transport is not Transport.TCP:
            raise UserError(f"broker {choice.name}: bridges of {self.name} go over bare TCP here", hint="use tcp")
        security = of_seat(security, seat)
        return self._node(choice, seat, security, {f"{peer.name}.conf": _bridge(seat, peer) for peer in peers})

    def _node(
        self, choice: BrokerChoice, seat: Seat, security: Security, bridges: Mapping[str, str] | None = None
    ) -> Node:  # fmt: skip
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        here = seat.folder
        arguments = ("-c", str(here / "mosquitto.conf"))
        lines = [*_lines(seat.host, seat.port, security, here), *_PRESETS[choice.preset]]
        if choice.preset == "durable":
            lines.append(f"persistence_location {here / _DATA}/")
        files, secrets = {}, dict[Path, str]()
        if _has_permissions(security):
            files[_TOPICS] = "".join(f"{line}\n" for line in _permissions(security))
        if security.users:
            secrets[_passwords(security)] = _password_file(security.users)
        if bridges:
            folder = _private(security) / _BRIDGES  # they hold passwords of the far brokers
            lines.append(f"include_dir {folder}")
            secrets |= {folder / name: text for name, text in bridges.items()}
        files["mosquitto.conf"] = "\n".join(lines) + "\n"
        return Node(
            argv=(found.program, *arguments) if self._version is None else by_loader(found, *arguments),
            host=seat.host,
            port=seat.port,
            files=files,
            secrets=secrets,
            scratch=(_DATA,),
        )

    def counters(self) -> tuple[Counter, ...]:
        """Seen on 2.0.11, 2.0.21 and 2.1.2; the contract suite looks again."""
        return tuple(told_counters(is_old=self._version is None))


def told_counters(*, is_old: bool) -> Iterator[Counter]:
    """Those on $SYS; an old one counts publications otherwise."""

    def counter(topic: str, count: Count, **more: Any) -> Counter:
        return Counter(f"$SYS/broker/{topic}", count, late_s=_LATE_S, **more)

    yield counter(
        "publish/messages/received",
        Count.RECEIVED,
        is_exact=True,
        qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE) if is_old else tuple(Qos),
        has_retained=not is_old,
        note="Mosquitto 2.0.11 leaves publications at QoS 2 and retained ones out of this counter" if is_old else "",
    )
    yield counter(
        "publish/bytes/received",
        Count.RECEIVED_BYTES,
        is_exact=True,
        note="payload bytes, which the readiness proof has none of",
    )
    yield counter(
        "publish/messages/sent",
        Count.SENT,
        is_exact=True,
        has_sys=True,
        note="includes what it sends to the client that reads this",
    )
    yield counter("publish/messages/dropped", Count.DROPPED, is_exact=True)
    yield counter("clients/connected", Count.CONNECTIONS)
    yield counter("subscriptions/count", Count.SUBSCRIPTIONS)
    yield counter(
        "retained messages/count", Count.RETAINED, has_sys=True, note="includes Mosquitto's own messages on $SYS"
    )
    yield counter(
        "store/messages/count",
        Count.QUEUED,
        has_sys=True,
        note="all messages in its store, retained ones and its own on $SYS among them",
    )


def _lines(host: str, port: int, security: Security, folder: Path) -> Iterator[str]:
    """The configuration; what belongs to the listener follows its line."""
    yield f"listener {port} {host}"
    if security.transport.is_framed:
        yield "protocol websockets"
        if "." in host:
            yield "socket_domain ipv4"  # otherwise libwebsockets listens on all addresses
    if security.transport.is_encrypted:
        yield f"certfile {security.certificate}"
        yield f"keyfile {security.key}"
        if security.authority:
            yield f"cafile {security.authority}"
            yield "require_certificate true"
    if security.transport.is_framed:
        # Mosquitto 2.0 does not start with WebSocket listeners alone; nobody else gets to this one.
        yield f"listener 0 {_private(security) / 'mosquitto.sock'}"
    yield "allow_anonymous false" if security.users else "allow_anonymous true"
    if security.users:
        yield f"password_file {_passwords(security)}"
    if _has_permissions(security):
        yield f"acl_file {folder / _TOPICS}"
    yield "sys_interval 1"
    with contextlib.suppress(KeyError):  # a user without a name is not root, and only root's Mosquitto changes its user
        yield f"user {pwd.getpwuid(os.geteuid()).pw_name}"


def _bridge(seat: Seat, peer: Peer) -> str:
    """All topics, both ways, at the QoS that they have."""
    name = f"brokerlab-{seat.index}-{peer.name}"
    lines = [
        f"connection {name}",
        f"address {peer.host}:{peer.port}",
        f"clientid {name}",
        "bridge_protocol_version mqttv50",
        "bridge_attempt_unsubscribe false",
        "try_private false",
        "cleansession false",
        "notifications false",
        "restart_timeout 1",
        "topic # both 2",
    ]
    if peer.user is not None:
        lines.append(f"remote_username {peer.user}")
    if peer.password is not None:
        lines.append(f"remote_password {peer.password}")
    return "\n".join(lines) + "\n"


def _has_permissions(security: Security) -> bool:
    return bool(security.readable or security.writable)


def _permissions(security: Security) -> Iterator[str]:
    """For every user, and for those without a name: `topic` lines would need one section for each."""
    yield from (f"pattern read {each}" for each in dict.fromkeys((*security.readable, "$SYS/#")))
    yield from (f"pattern write {each}" for each in security.writable)


def _private(security: Security) -> Path:
    if security.folder is None:
        raise ValueError("a private folder is needed for WebSocket, for passwords and for bridges")
    return security.folder


def _passwords(security: Security) -> Path:
    return _private(security) / "mosquitto.passwords"


def _password_file(users: Mapping[str, str]) -> str:
    """Names with salted hashes, as mosquitto_passwd writes them: $7$ is PBKDF2 with SHA-512."""
    return "".join(f"{name}:{_hashed(password)}\n" for name, password in users.items())


def _hashed(password: str) -> str:
    salt = secrets.token_bytes(_SALT_BYTES)
    derived = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(derived).decode()}"
