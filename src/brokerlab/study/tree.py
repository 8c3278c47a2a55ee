"""Bridges between the nodes of an ensemble: a mesh in, a tree without loops out. Pure.

    pair    two nodes that can be bridged, the lower number first
    tree    pairs over which every node reaches every other in exactly one way

Two ways would let a message arrive twice, or go round for ever: MQTT has no hop count. So a loop is refused (F-09).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from brokerlab.study.problems import RuleError

Pair = tuple[int, int]


class NoTreeError(ValueError):
    """Some nodes cannot be reached from others."""


def spanning_tree(
    nodes: Collection[int], costs: Mapping[Pair, float], *, keep: Iterable[Pair] = ()
) -> tuple[Pair, ...]:
    """The cheapest tree over these nodes, with `keep` in it whatever it costs; ascending.

    Of equal costs the pair with the lowest numbers is taken, so that a mesh without costs becomes a star, which has
    the fewest hops. Pairs with a node that is not among `nodes` are passed over: a lost node takes its bridges along.
    """
    here = set(nodes)
    links = {pair_of(*pair): cost for pair, cost in costs.items()}
    kept = [pair_of(*pair) for pair in keep]
    ordered = [*sorted(kept), *sorted(links, key=lambda pair: (links[pair], pair))]
    groups = {node: node for node in here}
    tree: list[Pair] = []
    for pair in ordered:
        if not here.issuperset(pair):
            continue
        one, other = (_root(groups, end) for end in pair)
        if one != other:
            groups[one] = other
            tree.append(pair)
    parts: dict[int, list[int]] = {}
    for node in sorted(here):
        parts.setdefault(_root(groups, node), []).append(node)
    if len(parts) > 1:
        named = " from ".join(" and ".join(map(str, part)) for part in list(parts.values())[:2])
        raise NoTreeError(f"no bridge can be laid that separates nodes {named} no more")
    return tuple(sorted(tree))


def loop_in(pairs: Iterable[Pair]) -> tuple[int, ...]:
    """The nodes of a loop in the order of going round, the first again at the end; empty if there is none."""
    paths: dict[int, list[int]] = {}
    for one, other in pairs:
        if one == other:
            return (one, one)
        way = _way(paths, one, other)
        if way:
            return (*way, one)
        paths.setdefault(one, []).append(other)
        paths.setdefault(other, []).append(one)
    return ()


def way_between(pairs: Iterable[Pair], one: int, other: int) -> tuple[int, ...]:
    """The nodes that a message passes over these bridges, both ends included; empty if it does not arrive."""
    paths: dict[int, list[int]] = {}
    for here, there in pairs:
        paths.setdefault(here, []).append(there)
        paths.setdefault(there, []).append(here)
    return _way(paths, one, other)


def hops(pairs: Sequence[Pair], nodes: int) -> list[list[int]]:
    """How many bridges a message passes from each node to each other (F-05)."""
    return [[len(way_between(pairs, one, other)) - 1 for other in range(nodes)] for one in range(nodes)]


def mesh(nodes: int) -> dict[Pair, float]:
    """Every pair, at the cost of one hop."""
    return {(one, other): 1.0 for one in range(nodes) for other in range(one + 1, nodes)}


def star(nodes: int) -> tuple[Pair, ...]:
    return tuple((0, node) for node in range(1, nodes))


def chain(nodes: int) -> tuple[Pair, ...]:
    return tuple(pairwise(range(nodes)))


def check_pairs(pairs: Sequence[Pair], nodes: int) -> None:
    """RuleError where bridges written by hand make a loop, name a node that is not there, or leave one alone."""
    for pair in pairs:
        if strangers := [str(node) for node in pair if not 0 <= node < nodes]:
            raise RuleError(f"there is no node {strangers[0]}: nodes are numbered from 0 to {nodes - 1}")
    if loop := loop_in(pairs):
        raise RuleError(f"these bridges make a loop, in which messages go round: {' - '.join(map(str, loop))}")
    alone = [str(node) for node in range(1, nodes) if not way_between(pairs, 0, node)]
    if alone:
        raise RuleError(f"no bridges lead from node 0 to node {alone[0]}: {nodes} nodes need {nodes - 1} bridges")


def pair_of(one: int, other: int) -> Pair:
    return (min(one, other), max(one, other))


def _root(groups: Mapping[int, int], node: int) -> int:
    while groups[node] != node:
        node = groups[node]
    return node


def _way(paths: Mapping[int, Sequence[int]], one: int, other: int) -> tuple[int, ...]:
    ways: list[tuple[int, ...]] = [(one,)]
    seen = {one}
    while ways:
        way = ways.pop(0)
        if way[-1] == other:
            return way
        for following in paths.get(way[-1], ()):
            if following not in seen:
                seen.add(following)
                ways.append((*way, following))
    return ()
