"""Where the nodes of a broker and the clients of a run stand: addresses, and the network namespaces that have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from brokerlab.study.places import LOOPBACK, Place
from brokerlab.study.tree import Pair


@dataclass(frozen=True, slots=True)
class Stand:
    """One place for each node; clients have places of their own, one for each site."""

    brokers: tuple[Place, ...]
    clients: tuple[Place, ...] = (LOOPBACK,)
    costs: Mapping[Pair, float] = field(default_factory=dict)  # of bridges between nodes: round trips; none: all alike

    ways: Mapping[Pair, frozenset[str]] = field(default_factory=dict)  # links between routers from node to node

    def home(self, node: int) -> Place:
        """The clients of a node are those of its site; where a site has none, those of the first."""
        site = self.brokers[node].site
        return next((place for place in self.clients if place.site == site), self.clients[0])


def on_loopback(nodes: int) -> Stand:
    """All on this machine, each with a port of its own."""
    return Stand(tuple(replace(LOOPBACK, name=f"node {number}") for number in range(nodes)))
