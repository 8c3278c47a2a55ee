"""Which client of a run goes to which node: pure, and the same for the same seed.

    community     publishers and subscribers that hear each other, directly or by way of others
    locality      a community's publishers are at one node; so many percent of its subscribers are there too,
                  and the others are elsewhere

A share of 0 % puts the other subscribers of a community at one node, the next one, and 100 % nowhere else than
beside their publishers (B-11). Between the two it is drawn who is local and where the publishers are, for each
repetition (B-23), and the others go to all other nodes in turn.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from brokerlab.study.hearing import Flows
from brokerlab.study.placement_values import SPREAD, Placement, Spot
from brokerlab.study.seeds import derived_seed

_ALL = 100.0


@dataclass(frozen=True, slots=True)
class Placed:
    """The node of each client, by its number."""

    publishers: tuple[int, ...]
    subscribers: tuple[int, ...]

    def local_percent(self, flows: Flows) -> float | None:
        """How many of a hundred flows stay at one node; None where there are none."""
        if not flows.size:
            return None
        here, there = np.array(self.publishers)[flows.publisher], np.array(self.subscribers)[flows.subscriber]
        return float(100 * (here == there).mean())


def placed(placement: Placement, flows: Flows, *, publishers: int, subscribers: int, nodes: int, seed: int) -> Placed:
    """Where the clients of a run go."""
    if nodes == 1:
        return Placed((0,) * publishers, (0,) * subscribers)
    if placement.locality == SPREAD:
        placement = Placement(Spot.ONE, Spot.ROUND_ROBIN)
    elif placement.locality is not None:
        return _by_locality(float(placement.locality), flows, publishers, subscribers, nodes=nodes, seed=seed)
    return Placed(
        _spots(placement.publishers, publishers, nodes=nodes, seed=derived_seed(seed, "place", "publishers")),
        _spots(placement.subscribers, subscribers, nodes=nodes, seed=derived_seed(seed, "place", "subscribers")),
    )


def most_at_a_node(placement: Placement, *, publishers: int, subscribers: int, nodes: int) -> tuple[int, int]:
    """Publishers and subscribers of the node that has the most of them; where it is drawn or depends, it may be all."""
    if nodes == 1:
        return publishers, subscribers
    if placement.locality == SPREAD:
        placement = Placement(Spot.ONE, Spot.ROUND_ROBIN)
    elif placement.locality is not None:
        return publishers, subscribers
    return _most(placement.publishers, publishers, nodes=nodes), _most(placement.subscribers, subscribers, nodes=nodes)


def _most(spot: Spot | tuple[float, ...], count: int, *, nodes: int) -> int:
    if spot is Spot.RANDOM or not count:
        return count
    return max(Counter(_spots(spot, count, nodes=nodes, seed=0)).values())


def _spots(spot: Spot | tuple[float, ...], count: int, *, nodes: int, seed: int) -> tuple[int, ...]:
    if isinstance(spot, tuple):
        edges = [round(count * share / _ALL) for share in accumulate(spot)]
        return tuple(next(node for node, edge in enumerate(edges) if number < edge) for number in range(count))
    if spot is Spot.RANDOM:
        draw = random.Random(seed)  # noqa: S311 - not a secret
        return tuple(draw.randrange(nodes) for _ in range(count))
    return tuple(0 if spot is Spot.ONE else number % nodes for number in range(count))


def _by_locality(
    percent: float, flows: Flows, publishers: int, subscribers: int, *, nodes: int, seed: int
) -> Placed:  # fmt: skip
    draw = random.Random(derived_seed(seed, "place", "locality"))  # noqa: S311 - not a secret
    is_drawn = 0 < percent < _ALL
    community = _communities(flows, publishers, subscribers)
    names = list(dict.fromkeys(community))
    first = draw.randrange(nodes) if is_drawn else 0
    home = {name: (first + place) % nodes for place, name in enumerate(names)}
    order = list(range(subscribers))
    if is_drawn:
        draw.shuffle(order)
    local = set(order[: round(subscribers * percent / _ALL)])
    turns = dict.fromkeys(names, 0)
    nodes_of = [0] * subscribers
    for number in range(subscribers):
        name = community[publishers + number]
        nodes_of[number] = home[name]
        if number not in local:
            nodes_of[number] = (home[name] + 1 + turns[name] % (nodes - 1)) % nodes
            turns[name] += is_drawn
    return Placed(tuple(home[community[number]] for number in range(publishers)), tuple(nodes_of))


def _communities(flows: Flows, publishers: int, subscribers: int) -> Sequence[int]:
    """The community of each client, publishers first: the lowest place of its members."""
    root = list(range(publishers + subscribers))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = place = root[root[place]]
        return place

    for publisher, subscriber in zip(flows.publisher.tolist(), flows.subscriber.tolist(), strict=True):
        one, other = find(publisher), find(publishers + subscriber)
        root[max(one, other)] = min(one, other)
    return [find(place) for place in range(len(root))]
