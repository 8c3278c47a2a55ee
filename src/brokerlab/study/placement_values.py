"""Which client goes to which node of an ensemble, as a study says it."""

from dataclasses import dataclass
from enum import StrEnum


class Spot(StrEnum):
    """Where the clients of one role go."""

    ROUND_ROBIN = "round-robin"  # client i to node i mod n
    ONE = "one"  # all to node 0
    RANDOM = "random"  # each anywhere, drawn anew for each repetition


SPREAD = "spread"  # publishers at one node, subscribers in turn over all: 1 of n subscribers is local


@dataclass(frozen=True, slots=True)
class Placement:
    """Shares are percents by node, and clients fill the nodes in order of their numbers."""

    publishers: Spot | tuple[float, ...] = Spot.ROUND_ROBIN
    subscribers: Spot | tuple[float, ...] = Spot.ROUND_ROBIN
    locality: float | str | None = None  # percent of subscribers beside their publishers, or SPREAD; None: as above


IN_TURN = Placement()
