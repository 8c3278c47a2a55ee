"""Brokers of the papers and of today that no registry which we use has: known by name, but not installed by us.

Each is a line of the table, with what its maker says of it: nothing of that was tried here. Who runs one, in a
container or on another machine, measures it with the driver `remote`.
"""

from collections.abc import Iterator
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Found, Missing, Node, Security
from brokerlab.brokers.source import Elsewhere
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Qos, Transport

_ALL = ("3.1", "3.1.1", "5.0")
_BY_ADDRESS = "then give its address to the driver remote (options: {address: host:port})"

# name, image or project, protocols, licence, cluster, bridge
_TABLE: tuple[tuple[str, str, tuple[str, ...], str, bool, bool], ...] = (
    ("bifromq", "the image bifromq/bifromq", _ALL, "Apache-2.0", True, False),
    ("emitter", "the image emitter/server, with a licence and keys of its own", ("3.1.1",), "AGPL-3.0", True, False),
    ("emqx", "the image emqx/emqx (5.8.9 is the last under Apache-2.0)", _ALL, "BSL-1.1 from 5.9", True, True),
    ("flashmq", "the packages of its maker", _ALL, "OSL-3.0", False, True),
    ("hivemq-edge", "the image hivemq/hivemq-edge", _ALL, "Apache-2.0", False, True),
    ("lavinmq", "the image cloudamqp/lavinmq", ("3.1.1",), "Apache-2.0", True, False),
    ("nanomq", "the image emqx/nanomq", _ALL, "MIT", False, True),
    ("vernemq", "the image vernemq/vernemq, whose EULA must be accepted", _ALL, "Apache-2.0; image: EULA", True, True),
)  # fmt: skip

_QOS = {"emitter": (Qos.AT_MOST_ONCE,), "lavinmq": (Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE)}


class KnownBroker:
    """Implements Broker for one line of the table."""

    def __init__(
        self, name: str, image: str, protocols: tuple[str, ...], licence: str, has_clusters: bool, has_bridges: bool
    ) -> None:
        self.name = name
        self.source = Elsewhere(f"run {image}, or use one that runs; {_BY_ADDRESS}")
        self.abilities = Abilities(
            qos=_QOS.get(name, tuple(Qos)),
            protocols=protocols,
            transports=tuple(Transport),
            has_credentials=True,
            has_shared_subscriptions="5.0" in protocols,
            is_scalable=True,
            has_permissions=True,
            has_clusters=has_clusters,
            has_bridges=has_bridges,
            licence=licence,
        )

    def find(self) -> Found | Missing:
        return Missing("no registry that brokerlab installs from has it", hint=self.source.how)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        """Never one: it is not here."""
        del folder, host, port, security
        raise UserError(f"broker {choice.name}: {choice.driver} cannot be started here", hint=self.source.how)


def known_brokers() -> Iterator[KnownBroker]:
    for line in _TABLE:
        yield KnownBroker(*line)
