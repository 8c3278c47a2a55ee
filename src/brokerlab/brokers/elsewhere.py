"""Brokers of the papers and of today that no registry which we use has: known by name, but not installed by us.

Each is a line of the table, with what its maker says of it: nothing of that was tried here. Who runs one on
another machine measures it with the driver `remote`, and who has it as an image with the driver `image`.
"""

from collections.abc import Iterator
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Found, Missing, Node, Security
from brokerlab.brokers.source import Elsewhere
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Qos, Transport

_ALL = ("3.1", "3.1.1", "5.0")
_BY_ADDRESS = "then give its address to the driver remote (options: {address: host:port})"

# name, project, protocols, licence, cluster, bridge
_TABLE: tuple[tuple[str, str, tuple[str, ...], str, bool, bool], ...] = (
    ("flashmq", "the packages of its maker", _ALL, "OSL-3.0", False, True),
)  # fmt: skip


class KnownBroker:
    """Implements Broker for one line of the table."""

    def __init__(
        self, name: str, what: str, protocols: tuple[str, ...], licence: str, has_clusters: bool, has_bridges: bool
    ) -> None:
        self.name = name
        self.source = Elsewhere(f"run {what}, or use one that runs; {_BY_ADDRESS}")
        self.abilities = Abilities(
            qos=tuple(Qos),
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
