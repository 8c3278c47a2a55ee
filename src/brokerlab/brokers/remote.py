"""Somebody's broker by its address: reached, but never started, stopped, limited or sampled.

    brokers:
      - {name: cloud, driver: remote, options: {address: "broker.example.org:8883", prefix: my/own}}

    address     host:port; a preset other than stock is a public broker of that name (endpoints.py), and needs none
    prefix      levels before every topic of ours, for a broker that gives us no more than these
    user        of all clients; with password, which stands in the environment: env:NAME
    authority   the file (PEM) of who signed its certificate; without it the authorities that this system trusts
    path        of WebSocket, /mqtt if not given

Whether it is encrypted says the workload's transport. User names of the workload go before those of the options.
It is asked for everything that a study wants: what it can do we learn from its answers.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Endpoint, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.endpoints import PUBLIC
from brokerlab.brokers.source import Elsewhere
from brokerlab.errors import UserError
from brokerlab.study.address import read_address
from brokerlab.study.nearest import listed
from brokerlab.study.secret import Secret
from brokerlab.study.values import BrokerChoice, Transport

UNKNOWN_VERSION = "remote"
_ENVIRONMENT = "env:"
_PATH = "/mqtt"  # of WebSocket
_COUNTERS = {
    "publish/messages/received": Count.RECEIVED,
    "publish/messages/sent": Count.SENT,
    "publish/messages/dropped": Count.DROPPED,
    "clients/connected": Count.CONNECTIONS,
    "subscriptions/count": Count.SUBSCRIPTIONS,
    "retained messages/count": Count.RETAINED,
}
_NOTE = "of everybody's messages and clients"
_READY_S = 30.0  # over a far network, with all that is between


class Remote:
    name = "remote"
    source = Elsewhere("nothing: give its address (options: {address: host:port}), or a preset that names it")
    abilities = Abilities(
        protocols=("3.1", "3.1.1", "5.0"),
        presets=("stock", *PUBLIC),
        options=("address", "authority", "password", "path", "prefix", "user"),
        transports=tuple(Transport),
        has_credentials=True,
        has_shared_subscriptions=True,
    )

    def find(self) -> Found | Missing:
        return Found("at the address that the study names", UNKNOWN_VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        """Without a command, and with the address of the broker instead of ours."""
        del folder, host, port
        endpoint = self.endpoint(choice, security.transport)
        return Node(argv=(), host=endpoint.host, port=endpoint.port, ready_s=_READY_S)

    def counters(self) -> tuple[Counter, ...]:
        """Those of Mosquitto, which others tell under the same names; they count all of the broker's clients."""
        return tuple(Counter(f"$SYS/broker/{name}", count, note=_NOTE) for name, count in _COUNTERS.items())

    def endpoint(self, choice: BrokerChoice, transport: Transport) -> Endpoint:
        check_choice(choice, self.abilities)
        try:
            return _endpoint(choice.preset, choice.options, transport)
        except UserError as problem:
            raise UserError(f"broker {choice.name}: {problem.message}", hint=problem.hint) from problem


def _endpoint(preset: str, options: Mapping[str, object], transport: Transport) -> Endpoint:
    host, port = _named(preset, transport) if preset in PUBLIC and "address" not in options else _written(options)
    user, password = _text(options, "user"), _text(options, "password")
    prefix, authority = _prefix(options), _text(options, "authority")
    if password is not None and not password.startswith(_ENVIRONMENT):
        raise UserError("the option password must be env:NAME: options are kept with the results")
    if password is not None and user is None:
        raise UserError("the option password needs the option user")
    if preset in PUBLIC and PUBLIC[preset].needs_prefix and not prefix:
        raise UserError(f"{preset} needs the option prefix: {PUBLIC[preset].note}")
    if authority is not None:
        _require_certificates(Path(authority))
    return Endpoint(
        host,
        port,
        prefix=prefix,
        authority=None if authority is None else Path(authority).absolute(),
        path=_text(options, "path") or _PATH,
        user=user,
        password=None if password is None else Secret(password),
    )


def _require_certificates(authority: Path) -> None:
    """UserError where nobody's certificate could be held against the file."""
    if not authority.is_file():
        raise UserError(f"the file of the option authority is not there: {authority}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(authority)
    except OSError as problem:  # an SSLError too
        raise UserError(
            f"the file of the option authority holds no certificate (PEM) that can be read: {authority}"
        ) from problem


def _named(preset: str, transport: Transport) -> tuple[str, int]:
    public = PUBLIC[preset]
    if transport not in public.ports:
        raise UserError(f"{preset} has no transport {transport} that we know; it has {listed(map(str, public.ports))}")
    return public.host, public.ports[transport]


def _written(options: Mapping[str, object]) -> tuple[str, int]:
    if "address" not in options:
        raise UserError("the driver remote needs the option address", hint="options: {address: host:port}")
    return read_address(options["address"])


def _prefix(options: Mapping[str, object]) -> str:
    prefix = (_text(options, "prefix") or "").strip("/")
    if any(character in prefix for character in "+#{}") or prefix.startswith("$"):
        raise UserError(f"the option prefix must be levels of a topic, without wildcards and braces: {prefix!r}")
    return f"{prefix}/" if prefix else ""


def _text(options: Mapping[str, object], name: str) -> str | None:
    written = options.get(name)
    if written is None:
        return None
    if not isinstance(written, str) or not written or not written.isprintable():
        raise UserError(f"the option {name} must be a text of printable characters")
    return written
