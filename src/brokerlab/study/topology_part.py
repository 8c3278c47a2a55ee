"""The mapping `scenario.topology`, and the factors that vary the links between its routers."""

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, PlainValidator, model_validator

from brokerlab.study import quantity
from brokerlab.study import values as v
from brokerlab.study.factor import FactorKind, read_whole
from brokerlab.study.link_part import (
    DirectionPart,
    LinkPart,
    check_direction,
    full_written,
    link_written,
    read_link_rate,
    read_loss_percent,
    read_profile,
    read_rtt_ms,
)
from brokerlab.study.link_profiles import PROFILES
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.topology import (
    CHAIN,
    GRAPH,
    LOOPBACK,
    MESH,
    PLAIN,
    SHAPES,
    SITE,
    STAR,
    TREE,
    Link,
    SiteLink,
    Topology,
    changed,
    joins,
    ways,
)

_MOST_SITES = 50
_MOST_BROKERS = 50
_OF_LINKS = ("rtt", "profile", "back", *DirectionPart.model_fields)


def read_shape(written: object) -> str:
    return check_name("topology", written, known=SHAPES)


def read_sites(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_SITES)


def read_pair(written: object) -> tuple[int, int]:
    if not isinstance(written, list) or len(written) != 2:
        raise RuleError("must be two sites, such as [1, 2]")
    first, second = map(read_sites, written)
    if first == second:
        raise RuleError("a link is between two sites, and these are one")
    return first, second


_Sites = Annotated[int, PlainValidator(read_sites)]


class JoinPart(LinkPart):
    """A link of its own between two routers."""

    between: Annotated[tuple[int, int], PlainValidator(read_pair)]

    def own_link(self, usual: Link) -> Link | None:
        """None where it says nothing of itself."""
        return self.link(usual) if self.model_fields_set - {"between"} else None


class TopologyPart(LinkPart):
    """The keys of a link are those of the links between routers."""

    shape: Annotated[str, PlainValidator(read_shape)]
    sites: _Sites | None = None
    brokers_per_site: Annotated[int, PlainValidator(lambda w: read_whole(w, least=1, most=_MOST_BROKERS))] = 1
    children: Annotated[int, PlainValidator(lambda w: read_whole(w, least=1, most=_MOST_SITES))] = 2
    router_switch: LinkPart = LinkPart()
    switch_broker: LinkPart = LinkPart()
    switch_clients: LinkPart = LinkPart()
    links: list[JoinPart] = Field(default=[], min_length=1)

    @model_validator(mode="after")
    def _fits_its_shape(self) -> "TopologyPart":
        said = self.model_fields_set
        if self.shape == LOOPBACK and (others := said - {"shape"}):
            raise RuleError(f"{LOOPBACK} has no sites and no links: leave out {', '.join(sorted(others))}")
        if self.shape == SITE and (others := said & {"sites", "links", *_OF_LINKS}):
            raise RuleError(f"a single site has no links between routers: leave out {', '.join(sorted(others))}")
        if self.shape in (MESH, STAR, CHAIN, TREE) and (self.sites is None or self.sites < 2):
            raise RuleError(f"a {self.shape} needs the key sites, 2 or more")
        if self.shape != TREE and "children" in said:
            raise RuleError("children are of a tree's sites")
        if self.shape == GRAPH and not self.links:
            raise RuleError("a graph is the list of its links, such as links: [{between: [1, 2], rtt: 5 ms}]")
        _check_links(self.value())
        return self

    def value(self) -> Topology:
        between = self.link()
        own = tuple(SiteLink(*each.between, each.own_link(between)) for each in self.links)
        highest = max((max(each.between) for each in self.links), default=1)
        return Topology(
            shape=self.shape,
            sites=self.sites or highest,
            brokers_per_site=self.brokers_per_site,
            children=self.children,
            between=between,
            router_switch=self.router_switch.link(),
            switch_broker=self.switch_broker.link(),
            switch_clients=self.switch_clients.link(),
            links=own,
        )


def _check_links(topology: Topology) -> None:
    """Refuses links that are there twice, that the shape has not, and sites that no link leads to."""
    pairs = [(min(each.first, each.second), max(each.first, each.second)) for each in topology.links]
    for pair, count in Counter(pairs).items():
        if count > 1:
            raise RuleError(f"links has two between the sites {pair[0]} and {pair[1]}")
    there = {(each.first, each.second) for each in joins(replace(topology, links=()))}
    for pair in pairs:
        if max(pair) > topology.sites:
            raise RuleError(f"links names site {max(pair)}, and there are {topology.sites}")
        if topology.shape != GRAPH and pair not in there:
            raise RuleError(f"a {topology.shape} has no link between the sites {pair[0]} and {pair[1]}; write a graph")
    found = ways(topology)
    for site in range(1, topology.sites + 1):
        if (1, site) not in found:
            raise RuleError(f"no way of links leads from site 1 to site {site}")


def written(topology: Topology) -> Any:
    """The key of a study file: a bare name where there is nothing else to say."""
    if topology.is_loopback:
        return topology.shape
    kinds = {
        "router_switch": topology.router_switch,
        "switch_broker": topology.switch_broker,
        "switch_clients": topology.switch_clients,
    }
    return {
        "shape": topology.shape,
        **({} if topology.shape == SITE else {"sites": topology.sites}),
        "brokers_per_site": topology.brokers_per_site,
        **({"children": topology.children} if topology.shape == TREE else {}),
        **link_written(topology.between),
        **{key: link_written(link) for key, link in kinds.items() if link != PLAIN},
        **({"links": [_join_written(each) for each in topology.links]} if topology.links else {}),
    }


def _join_written(join: SiteLink) -> dict[str, Any]:
    """A link of its own is said in full, because what it leaves out is as between other routers."""
    own = {} if join.link is None else full_written(join.link)
    return {"between": [join.first, join.second], **own}


def _with(topology: Topology, **values: Any) -> Topology:
    link = changed(topology.between, **values)
    for direction in (link.there, link.back):
        check_direction(direction)
    return replace(topology, between=link)


def _same(workload: v.Workload, _level: v.Level) -> v.Workload:
    return workload


def _bits(level: v.Level) -> float | None:
    return float(level) or None


KINDS = (
    FactorKind(
        "profile",
        (),
        read_profile,
        str,
        _same,
        network=lambda topology, level: replace(topology, between=PROFILES[str(level)]),
    ),
    FactorKind(
        "rtt",
        (),
        read_rtt_ms,
        lambda level: quantity.milliseconds_text(float(level)),
        _same,
        network=lambda topology, level: _with(topology, delay_ms=float(level) / 2),
    ),
    FactorKind(
        "link_rate",
        (),
        read_link_rate,
        lambda level: quantity.bits_per_s_text(float(level)) if level else "none",
        _same,
        network=lambda topology, level: _with(topology, rate_bits_per_s=_bits(level)),
    ),
    FactorKind(
        "loss",
        (),
        read_loss_percent,
        lambda level: quantity.percent_text(float(level)),
        _same,
        network=lambda topology, level: _with(topology, loss_percent=float(level)),
    ),
)
