"""The nodes of a broker in a study, and how they are joined."""

from dataclasses import dataclass
from enum import StrEnum

from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.tree import Pair

BRIDGE_CONNECTIONS = ("persistent", "per message")


class Join(StrEnum):
    """How the nodes of an ensemble are connected."""

    NONE = "none"
    CLUSTER = "cluster"
    BRIDGE = "bridge"


class BridgeShape(StrEnum):
    """Along which pairs of nodes bridges are laid."""

    TREE = "tree"  # the cheapest of all that the network allows, without a loop
    STAR = "star"  # from node 0 to every other
    CHAIN = "chain"  # from each node to the next


class BridgePer(StrEnum):
    """How many bridges of ours a pair of nodes has."""

    PAIR = "pair"  # one for all
    PUBLISHER = "publisher"  # one for the topic of each publisher, inward


class BridgeWays(StrEnum):
    """What passes a bridge of ours."""

    BOTH = "both"  # everything, from either node to the other
    INWARD = "inward"  # publishers' topics, from their node to node 0


@dataclass(frozen=True, slots=True)
class Bridging:
    """Bridges of our own, also where a broker has some itself."""

    per: BridgePer = BridgePer.PAIR
    ways: BridgeWays = BridgeWays.BOTH
    transform: str = "[]"  # the steps of a bridge file, as JSON
    connections: str = BRIDGE_CONNECTIONS[0]  # to the target
    limits: Limits = UNLIMITED  # of all bridges together


@dataclass(frozen=True, slots=True)
class Ensemble:
    nodes: int = 1
    join: Join = Join.NONE
    bridges: BridgeShape | tuple[Pair, ...] = BridgeShape.TREE
    members: tuple[str, ...] = ()  # of a mixed one: the broker of each node, from the start again after the last
    bridging: Bridging | None = None  # None: by the brokers' own bridges, where they have some

    @property
    def is_several(self) -> bool:
        return self.nodes > 1


SINGLE = Ensemble()
