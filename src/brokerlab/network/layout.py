"""A topology laid out: hosts with addresses, cables between their interfaces, and the routes of each. Pure.

    10.77.S.0/24    the network of site S: router .1, switch .2, brokers from .10, clients .200
    10.78.x.x/30    the two ends of each cable between routers

Every interface has a hardware address of its own, so that all neighbours are known beforehand: a question for an
address that a lossy link drops would otherwise cost a second.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address

from brokerlab.network.naming import namespace_of
from brokerlab.study.topology import Link, Topology, broker_sites, joins, ways

ROUTER, SWITCH, BROKER, CLIENTS = "router", "switch", "broker", "clients"
BRIDGE = "bridge"  # the switch's own interface
_SITE_PREFIX, _CABLE_PREFIX = 24, 30
_CABLES_FROM = int(IPv4Address("10.78.0.0"))
_FIRST_BROKER, _CLIENTS_AT = 10, 200


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of the network: a namespace."""

    name: str  # such as router1, broker0, clients2
    kind: str
    site: int
    namespace: str
    address: str  # that others reach it at


@dataclass(frozen=True, slots=True)
class End:
    """One end of a cable: an interface of a host."""

    host: str
    interface: str
    address: str  # of the interface, or of its switch
    prefix: int
    hardware: str
    is_bridged: bool = False


@dataclass(frozen=True, slots=True)
class Cable:
    """Two interfaces and what the link between them claims."""

    first: End
    second: End
    link: Link

    @property
    def name(self) -> str:
        return f"{self.first.host}-{self.second.host}"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a host sends what is for a network."""

    host: str
    destination: str  # such as 10.77.2.0/24, or default
    gateway: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Whose hardware address a host knows, at which interface."""

    host: str
    interface: str
    address: str
    hardware: str


@dataclass(frozen=True, slots=True)
class Layout:
    topology: Topology
    hosts: tuple[Host, ...]
    cables: tuple[Cable, ...]
    routes: tuple[Route, ...]
    neighbours: tuple[Neighbour, ...]

    def host(self, name: str) -> Host:
        return next(each for each in self.hosts if each.name == name)

    def of_kind(self, kind: str) -> tuple[Host, ...]:
        return tuple(each for each in self.hosts if each.kind == kind)


def lay_out(topology: Topology, *, nodes: int, number: str) -> Layout:
    """The network of a topology with so many brokers; `number` is its own, which names its namespaces."""
    hosts: list[Host] = []
    cables: list[Cable] = []
    sites = range(1, topology.sites + 1)
    for site in sites:
        hosts += [_host(kind, site, number) for kind in (ROUTER, SWITCH, CLIENTS)]
    for node, site in enumerate(broker_sites(topology, nodes=nodes)):
        place = sum(1 for each in hosts if each.kind == BROKER and each.site == site)
        name = f"{BROKER}{node}"
        address = _address(site, _FIRST_BROKER + place)
        hosts.append(Host(name, BROKER, site, namespace_of(number, name), address))
    for host in hosts:
        if host.kind != SWITCH:
            cables.append(_to_switch(host, topology, number=len(cables)))
    for place, join in enumerate(joins(topology)):
        cables.append(_between(join.first, join.second, join.link, place=place, number=len(cables)))
    return Layout(topology, tuple(hosts), tuple(cables), tuple(_routes(topology, hosts, cables)), _known(hosts, cables))


def _address(site: int, place: int) -> str:
    return f"10.77.{site}.{place}"


def _host(kind: str, site: int, number: str) -> Host:
    place = {ROUTER: 1, SWITCH: 2, CLIENTS: _CLIENTS_AT}[kind]
    name = f"{kind}{site}"
    return Host(name, kind, site, namespace_of(number, name), _address(site, place))


def _hardware(number: int, end: int) -> str:
    """A locally administered address, of a cable and its end."""
    return f"02:62:6c:{number >> 8 & 255:02x}:{number & 255:02x}:{end:02x}"


def _to_switch(host: Host, topology: Topology, *, number: int) -> Cable:
    """From the router to the switch, or from the switch to a broker or the clients."""
    switch = End(
        f"{SWITCH}{host.site}",
        ROUTER if host.kind == ROUTER else host.name,
        _address(host.site, 2),
        _SITE_PREFIX,
        _hardware(number, 0),
        is_bridged=True,
    )
    interface = SWITCH if host.kind == ROUTER else "eth0"
    own = End(host.name, interface, host.address, _SITE_PREFIX, _hardware(number, 1))
    if host.kind == ROUTER:
        return Cable(own, switch, topology.router_switch)
    return Cable(switch, own, topology.switch_broker if host.kind == BROKER else topology.switch_clients)


def _between(first: int, second: int, link: Link, *, place: int, number: int) -> Cable:
    start = _CABLES_FROM + 4 * place
    ends = [
        End(
            f"{ROUTER}{own}",
            f"site{other}",
            str(IPv4Address(start + end)),
            _CABLE_PREFIX,
            _hardware(number, end),
        )
        for own, other, end in ((first, second, 1), (second, first, 2))
    ]
    return Cable(ends[0], ends[1], link)


def _routes(topology: Topology, hosts: list[Host], cables: list[Cable]) -> list[Route]:
    routes = [Route(each.name, "default", _address(each.site, 1)) for each in hosts if each.kind != ROUTER]
    gateways = {}
    for cable in cables:
        gateways[cable.first.host, cable.second.host] = cable.second.address
        gateways[cable.second.host, cable.first.host] = cable.first.address
    for (start, end), way in sorted(ways(topology).items()):
        if way.hops:
            gateway = gateways[f"{ROUTER}{start}", f"{ROUTER}{way.sites[1]}"]
            routes.append(Route(f"{ROUTER}{start}", f"10.77.{end}.0/{_SITE_PREFIX}", gateway))
    return routes


def switch_hardware(site: int) -> str:
    return f"02:62:6d:00:{site:02x}:00"


def _known(hosts: list[Host], cables: list[Cable]) -> tuple[Neighbour, ...]:
    """All of a site know each other, and routers know those that they are joined to."""
    known = []
    for site in sorted({host.site for host in hosts}):
        members = {host.name for host in hosts if host.site == site and host.kind != SWITCH}
        at = [(end, end.interface) for cable in cables for end in (cable.first, cable.second)
              if end.host in members and end.prefix == _SITE_PREFIX]  # fmt: skip
        switch = End(f"{SWITCH}{site}", BRIDGE, _address(site, 2), _SITE_PREFIX, switch_hardware(site))
        everybody = [*at, (switch, BRIDGE)]
        for own, interface in everybody:
            known += [
                Neighbour(own.host, interface, other.address, other.hardware)
                for other, _ in everybody
                if other.host != own.host
            ]
    for cable in cables:
        if cable.first.prefix == _CABLE_PREFIX:
            for own, other in ((cable.first, cable.second), (cable.second, cable.first)):
                known.append(Neighbour(own.host, own.interface, other.address, other.hardware))
    return tuple(known)
