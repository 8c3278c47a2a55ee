"""Mosquitto, a broker in C with one thread.

Stock is Mosquitto without a configuration file, but for what a run needs:

    listener, allow_anonymous   since 2.0 Mosquitto serves nobody without them; with user names, password_file instead
    protocol, certfile …        what the listener speaks, where that is not bare TCP
    user                        the one who runs it: otherwise a Mosquitto started by root changes its user,
                                at which the kernel forgets that it shall die with us
    sys_interval 1              its counters are at most 1 s old instead of 10 s, or each run would wait for them

Over WebSocket Mosquitto 2.0.11 hands a packet above 4 KiB on in pieces of 4 KiB, one every 0.1 s (its subscribers
get 50 kB after 1.2 s): that is its own doing and stands in the results.
"""

import base64
import contextlib
import hashlib
import os
import pwd
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Counter, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.program import find_program, version_said_by
from brokerlab.brokers.source import Debian
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Qos, Transport

_PROGRAM = "mosquitto"
_HINT = "apt-get install mosquitto"
_SYSTEM_PROGRAMS = Path("/usr/sbin")  # Debian's place for it, not on the PATH of every user

# Mosquitto 2.0 hashes passwords with so many rounds unless told otherwise (mosquitto_passwd), and accepts any number.
_ROUNDS = 101
_SALT_BYTES = 12


class Mosquitto:
    name = "mosquitto"
    source = Debian(("mosquitto",))
    abilities = Abilities(
        protocols=("3.1", "3.1.1", "5.0"),
        transports=tuple(Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_shared_subscriptions=True,
        licence="EPL-2.0 or BSD-3-Clause",
    )

    def find(self) -> Found | Missing:
        program = find_program(_PROGRAM, _SYSTEM_PROGRAMS)
        if program is None:
            return Missing(f"the program {_PROGRAM} is not here", hint=_HINT)
        version = version_said_by(program, "-h", r"mosquitto version (\S+)")
        if version is None:
            return Missing(f"{program} does not say its version", hint=_HINT)
        return Found(program, version)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        return Node(
            argv=(found.program, "-c", str(folder.absolute() / "mosquitto.conf")),
            host=host,
            port=port,
            files={"mosquitto.conf": "\n".join(_lines(host, port, security)) + "\n"},
            secrets={_passwords(security): _password_file(security.users)} if security.users else {},
        )

    def counters(self) -> tuple[Counter, ...]:
        """Seen on 2.0.11; the contract suite looks again."""
        return (
            Counter(
                "$SYS/broker/publish/messages/received",
                equals="publications",
                qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE),
                has_retained=False,
                note="Mosquitto leaves publications at QoS 2 and retained ones out of this counter",
            ),
            Counter(
                "$SYS/broker/publish/bytes/received",
                equals="payload_bytes",
                qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE, Qos.EXACTLY_ONCE),
                note="payload bytes, which the readiness proof has none of",
            ),
        )


def _lines(host: str, port: int, security: Security) -> Iterator[str]:
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
    yield "sys_interval 1"
    with contextlib.suppress(KeyError):  # a user without a name is not root, and only root's Mosquitto changes its user
        yield f"user {pwd.getpwuid(os.geteuid()).pw_name}"


def _private(security: Security) -> Path:
    if security.folder is None:
        raise ValueError("a private folder is needed for WebSocket and for passwords")
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
