"""The topology of a study as a value: sites, what stands on them, and the links between.

    clients ─┐                                     ┌─ clients
             switch ── router ═══════ router ── switch
    brokers ─┘                                     └─ brokers        one site on each side

A site has a router and a switch; its brokers and its clients hang on the switch (B-02). Shapes say which routers are
joined; sites count from 1, and the middle of a star and the root of a tree are site 1.
network/ makes it real; here it can be printed, compared and hashed.
"""

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

LOOPBACK, SITE, MESH, STAR, CHAIN, TREE, GRAPH = "loopback", "site", "mesh", "star", "chain", "tree", "graph"
SHAPES = (LOOPBACK, SITE, MESH, STAR, CHAIN, TREE, GRAPH)
_LEAST_QUEUE_BYTES = 16 * 1024
_QUEUE_S = 0.1


@dataclass(frozen=True, slots=True)
class Direction:
    """What a link claims to do with the packets of one direction."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0  # the delay varies by up to so much to both sides, uniformly
    loss_percent: float = 0.0
    correlation_percent: float = 0.0  # of a packet's loss with that of the one before; the share lost stays the same
    duplicate_percent: float = 0.0
    reorder_percent: float = 0.0  # of packets that are not delayed, and so overtake
    rate_bits_per_s: float | None = None  # of whole frames; None is no limit
    queue_bytes: int | None = None  # before the rate; what finds it full is dropped; None is 100 ms of the rate

    @property
    def longest_queue_bytes(self) -> int | None:
        """Bytes that may wait for the rate; None without one."""
        if self.rate_bits_per_s is None or self.queue_bytes is not None:
            return self.queue_bytes
        return max(_LEAST_QUEUE_BYTES, int(self.rate_bits_per_s / 8 * _QUEUE_S))


@dataclass(frozen=True, slots=True)
class Link:
    """Both directions of a link; `there` is from the first end to the second."""

    there: Direction = Direction()
    back: Direction = Direction()

    @property
    def rtt_ms(self) -> float:
        return self.there.delay_ms + self.back.delay_ms

    @property
    def is_plain(self) -> bool:
        """Whether it claims nothing: then the kernel's own wire will do."""
        return self == PLAIN

    def turned(self) -> "Link":
        return Link(self.back, self.there)


PLAIN = Link()


@dataclass(frozen=True, slots=True)
class SiteLink:
    """Two routers that are linked, by the numbers of their sites."""

    first: int
    second: int
    link: Link | None = None  # None: as between all routers


@dataclass(frozen=True, slots=True)
class Topology:
    """Which sites there are, and the links of each kind."""

    shape: str = LOOPBACK
    sites: int = 1
    brokers_per_site: int = 1
    children: int = 2  # of a site of a tree
    between: Link = PLAIN  # router and router, where no link of its own is named
    router_switch: Link = PLAIN
    switch_broker: Link = PLAIN
    switch_clients: Link = PLAIN
    links: tuple[SiteLink, ...] = ()  # all of a graph; of another shape those that are unlike the rest

    @property
    def is_loopback(self) -> bool:
        return self.shape == LOOPBACK


ON_LOOPBACK = Topology()


@dataclass(frozen=True, slots=True)
class Way:
    """How packets get from one site to another."""

    sites: tuple[int, ...]  # all that they pass, both ends included

    @property
    def hops(self) -> int:
        return len(self.sites) - 1


@dataclass(frozen=True, slots=True)
class Joined:
    """Two routers and the link between them; the first site has the lower number."""

    first: int
    second: int
    link: Link


def joins(topology: Topology) -> tuple[Joined, ...]:
    """The links between routers, each once."""
    own = {(each.first, each.second): each.link for each in (_in_order(join, topology) for join in topology.links)}
    pairs = sorted(own) if topology.shape == GRAPH else _pairs(topology)
    return tuple(Joined(*pair, own.get(pair, topology.between)) for pair in pairs)


def _in_order(join: SiteLink, topology: Topology) -> Joined:
    link = topology.between if join.link is None else join.link
    return (
        Joined(join.first, join.second, link)
        if join.first < join.second
        else Joined(join.second, join.first, link.turned())
    )


def _pairs(topology: Topology) -> list[tuple[int, int]]:
    sites = range(1, topology.sites + 1)
    match topology.shape:
        case "mesh":
            return list(itertools.combinations(sites, 2))
        case "star":
            return [(1, site) for site in sites[1:]]
        case "chain":
            return list(itertools.pairwise(sites))
        case "tree":
            return [((site - 2) // topology.children + 1, site) for site in sites[1:]]
    return []


def ways(topology: Topology) -> dict[tuple[int, int], Way]:
    """The way between any two sites, in both directions: fewest routers, then least delay, then lowest numbers.

    Sites that cannot reach each other have none.
    """
    return {
        (start, end): Way(sites)
        for start in range(1, topology.sites + 1)
        for end, sites in _ways_from(start, _neighbours(topology)).items()
    }


def way_rtt_ms(topology: Topology, way: Way) -> float:
    """What the links between the routers of a way add to a round trip."""
    links = {(each.first, each.second): each.link for each in joins(topology)}
    return sum(links[min(pair), max(pair)].rtt_ms for pair in itertools.pairwise(way.sites))


def broker_sites(topology: Topology, *, nodes: int) -> tuple[int, ...]:
    """The site of each node: filled in order; one alone stands on the last site, far from the clients of the first."""
    if nodes == 1:
        return (topology.sites,)
    return tuple(node // topology.brokers_per_site + 1 for node in range(nodes))


def link_names(topology: Topology, *, nodes: int) -> tuple[str, ...]:
    """All links as the network calls them."""
    sites = range(1, topology.sites + 1)
    routers = [f"router{each.first}-router{each.second}" for each in joins(topology)]
    inner = [
        f"{one}{site}-{other}{site}" for site in sites for one, other in (("router", "switch"), ("switch", "clients"))
    ]
    brokers = [f"switch{site}-broker{node}" for node, site in enumerate(broker_sites(topology, nodes=nodes))]
    return (*routers, *inner, *brokers)


def has_room(topology: Topology, *, nodes: int) -> bool:
    return topology.is_loopback or nodes <= topology.sites * topology.brokers_per_site


def _neighbours(topology: Topology) -> Mapping[int, list[tuple[int, float]]]:
    neighbours: dict[int, list[tuple[int, float]]] = {site: [] for site in range(1, topology.sites + 1)}
    for join in joins(topology):
        neighbours[join.first].append((join.second, join.link.rtt_ms))
        neighbours[join.second].append((join.first, join.link.rtt_ms))
    return neighbours


def _ways_from(start: int, neighbours: Mapping[int, list[tuple[int, float]]]) -> dict[int, tuple[int, ...]]:
    """Dijkstra over (hops, delay, the sites themselves), so that the answer is one."""
    found: dict[int, tuple[int, ...]] = {}
    waiting: list[tuple[int, float, tuple[int, ...]]] = [(0, 0.0, (start,))]
    while waiting:
        hops, delay_ms, sites = heapq.heappop(waiting)
        if sites[-1] in found:
            continue
        found[sites[-1]] = sites
        for site, more_ms in neighbours[sites[-1]]:
            if site not in found:
                heapq.heappush(waiting, (hops + 1, delay_ms + more_ms, (*sites, site)))
    return found


def changed(link: Link, **values: float | int | None) -> Link:
    """The link with the same change in both directions."""
    return Link(replace(link.there, **values), replace(link.back, **values))  # type: ignore[arg-type]
