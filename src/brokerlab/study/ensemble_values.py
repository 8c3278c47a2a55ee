"""The nodes of a broker in a study, and how they are joined."""

from dataclasses import dataclass
from enum import StrEnum

from brokerlab.study.tree import Pair


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


@dataclass(frozen=True, slots=True)
class Ensemble:
    nodes: int = 1
    join: Join = Join.NONE
    bridges: BridgeShape | tuple[Pair, ...] = BridgeShape.TREE
    members: tuple[str, ...] = ()  # of a mixed one: the broker of each node, from the start again after the last

    @property
    def is_several(self) -> bool:
        return self.nodes > 1


SINGLE = Ensemble()
