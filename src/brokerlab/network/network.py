"""A topology made real: namespaces, cables, addresses and routes, for as long as it is open.

with Network(topology, nodes=3, seed=1) as network:
    network.brokers, network.clients     places where a broker or the clients of a site live
    network.measure()                    every link against its claim (proof.py)
"""

import os
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import asdict
from types import TracebackType
from typing import Self

from pyroute2 import IPRoute

from brokerlab.network.carrier import Carried, Carrier
from brokerlab.network.groups import site_group
from brokerlab.network.layout import (
    BRIDGE,
    BROKER,
    CLIENTS,
    ROUTER,
    SWITCH,
    Cable,
    End,
    Host,
    Layout,
    lay_out,
    switch_hardware,
)
from brokerlab.network.namespaces import index_of, kernel_errors, namespace
from brokerlab.network.naming import new_number
from brokerlab.network.proof import Measured, PairEcho, echo_pairs, measure
from brokerlab.network.wires import Kind, emulate, has_netem, kind_of, lay_taps, lay_wire
from brokerlab.study.places import Place
from brokerlab.study.topology import Link, Topology, way_rtt_ms, ways

_PERMANENT = 0x80  # NUD_PERMANENT


class Network:
    """A context manager; everything that it makes is noted in the inventory first."""

    def __init__(self, topology: Topology, *, nodes: int = 1, seed: int = 0, netem: bool | None = None) -> None:
        """`netem` says whether links are the kernel's; None: where it has it."""
        self.layout: Layout = lay_out(topology, nodes=nodes, number=new_number())
        self.carrier: Carrier | None = None
        self.groups: dict[int, int] = {}  # the process group of each site
        self._seed, self._netem = seed, netem
        self._kinds: dict[str, Kind] = {}
        self._talks: dict[str, IPRoute] = {}
        self._namespaces = {host.name: host.namespace for host in self.layout.hosts}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # -- what stands where ----------------------------------------------------------------------------------------

    @property
    def brokers(self) -> tuple[Place, ...]:
        """One place for each node, in order."""
        return tuple(self._place(host, f"node {host.name.removeprefix(BROKER)}") for host in self._of(BROKER))

    @property
    def clients(self) -> tuple[Place, ...]:
        """One place for each site, in order."""
        return tuple(self._place(host, f"site {host.site}") for host in self._of(CLIENTS))

    def _of(self, kind: str) -> tuple[Host, ...]:
        return self.layout.of_kind(kind)

    def _place(self, host: Host, name: str) -> Place:
        return Place(name, host.address, host.namespace, host.site, self.groups[host.site])

    def kind(self, cable: str) -> Kind:
        return self._kinds[cable]

    def section(self) -> dict[str, object]:
        """For the manifest: what was built, and of what."""
        topology = self.layout.topology
        return {
            "topology": asdict(topology),
            "hosts": [asdict(host) for host in self.layout.hosts],
            "groups": [{"site": site, "group": group} for site, group in sorted(self.groups.items())],
            "cables": [
                {"name": each.name, "kind": self._kinds[each.name].value, "link": asdict(each.link)}
                for each in self.layout.cables
            ],
            "ways": [
                {"from": start, "to": end, "sites": list(way.sites), "hops": way.hops,
                 "rtt_ms": way_rtt_ms(topology, way)}
                for (start, end), way in sorted(ways(topology).items())
            ],
        }  # fmt: skip

    # -- the proof ------------------------------------------------------------------------------------------------

    def measure(self) -> list[Measured]:
        """Every link against its claim."""
        return measure(self.layout, {name: kind.value for name, kind in self._kinds.items()})

    def echo_pairs(self) -> list[PairEcho]:
        """Round trips between all who may talk to each other; an unhealthy network is refused."""
        return echo_pairs(self.layout)

    # -- links while they carry -----------------------------------------------------------------------------------

    def change(self, cable: str, link: Link) -> None:
        """Makes a link another one; the kernel's plain wire cannot be."""
        found = self._cable(cable)
        if self._kinds[cable] is Kind.USERSPACE and self.carrier is not None:
            self.carrier.change(cable, link)
        else:
            emulate(Cable(found.first, found.second, link), self._talks)

    def cut(self, cable: str, *, is_cut: bool = True) -> None:
        """Drops everything on a link, or no longer."""
        if self._kinds[cable] is Kind.USERSPACE and self.carrier is not None:
            self.carrier.cut(cable, is_cut=is_cut)
            return
        end = self._cable(cable).first
        with kernel_errors(f"the cut of {cable}"):
            talk = self._talks[end.host]
            talk.link("set", index=index_of(talk, end.interface), state="down" if is_cut else "up")
            if not is_cut:
                self._know(end.host)

    def link(self, cable: str) -> Link:
        """What a link claims to be."""
        return self._cable(cable).link

    def cables_around(self, sites: Collection[int]) -> tuple[str, ...]:
        """The links between the routers of these sites and those of all others."""
        routers = {f"{ROUTER}{site}" for site in sites}
        return tuple(
            each.name
            for each in self.layout.cables
            if each.first.host.startswith(ROUTER)
            and each.second.host.startswith(ROUTER)
            and (each.first.host in routers) != (each.second.host in routers)
        )

    def _cable(self, name: str) -> Cable:
        return next(each for each in self.layout.cables if each.name == name)

    # -- building -------------------------------------------------------------------------------------------------

    def _build(self, stack: ExitStack) -> None:
        for host in self.layout.hosts:
            self._talks[host.name] = stack.enter_context(namespace(host.namespace, is_router=host.kind == ROUTER))
        for host in self._of(ROUTER):
            self.groups[host.site] = stack.enter_context(site_group(host.namespace))
        self._lay_cables(stack)
        for host in self._of(SWITCH):
            self._add_bridge(host)
        for cable in self.layout.cables:
            for end in (cable.first, cable.second):
                self._connect(end)
        for host in self.layout.hosts:
            self._know(host.name)
        if self.carrier is not None:
            self.carrier.wait_until_up()

    def _lay_cables(self, stack: ExitStack) -> None:
        cables = self.layout.cables
        if self._netem is None:
            is_needed = any(not each.link.is_plain for each in cables)
            self._netem = is_needed and has_netem(self._talks[self.layout.hosts[0].name])
        self._kinds = {each.name: kind_of(each, has_netem=self._netem) for each in cables}
        for cable in (each for each in cables if self._kinds[each.name] is not Kind.USERSPACE):
            lay_wire(cable, self._talks, self._namespaces)
            if self._kinds[cable.name] is Kind.NETEM:
                emulate(cable, self._talks)
        if any(kind is Kind.USERSPACE for kind in self._kinds.values()):
            self.carrier = stack.enter_context(self._carrier())

    def _carrier(self) -> Carrier:
        """The carrier with its ends, which it closes when it is entered."""
        carried: list[Carried] = []
        try:
            for cable in (each for each in self.layout.cables if self._kinds[each.name] is Kind.USERSPACE):
                carried.append(lay_taps(cable, self._talks, self._namespaces))
        except BaseException:
            for each in carried:
                os.close(each.first)
                os.close(each.second)
            raise
        return Carrier(carried, seed=self._seed)

    def _add_bridge(self, switch: Host) -> None:
        talk = self._talks[switch.name]
        with kernel_errors(f"the switch of site {switch.site}"):
            talk.link("add", ifname=BRIDGE, kind="bridge", address=switch_hardware(switch.site))
            index = index_of(talk, BRIDGE)
            talk.addr("add", index=index, address=switch.address, prefixlen=24)
            talk.link("set", index=index, state="up")

    def _connect(self, end: End) -> None:
        """Gives an interface its addresses, or to its switch, and brings it up."""
        talk = self._talks[end.host]
        with kernel_errors(f"the interface {end.interface} of {end.host}"):
            index = index_of(talk, end.interface)
            talk.link("set", index=index, address=end.hardware)
            if end.is_bridged:
                talk.link("set", index=index, master=index_of(talk, BRIDGE))
            else:
                talk.addr("add", index=index, address=end.address, prefixlen=end.prefix)
            talk.link("set", index=index, state="up")

    def _know(self, host: str) -> None:
        """Neighbours and routes of a host; once more after an interface was down, which loses them."""
        talk = self._talks[host]
        with kernel_errors(f"neighbours and routes of {host}"):
            for each in (each for each in self.layout.neighbours if each.host == host):
                index = index_of(talk, each.interface)
                talk.neigh("replace", dst=each.address, lladdr=each.hardware, ifindex=index, state=_PERMANENT)
            for route in (each for each in self.layout.routes if each.host == host):
                talk.route("replace", dst=route.destination, gateway=route.gateway)
