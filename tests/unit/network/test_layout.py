"""Topologies laid out: names, addresses, cables and routes (B-02, B-03)."""

from ipaddress import ip_address, ip_network

import pytest

from brokerlab.network.layout import BROKER, ROUTER, lay_out
from brokerlab.network.naming import PREFIX
from brokerlab.study.topology import Direction, Link, Topology

SLOW = Link(Direction(5.0), Direction(5.0))


def laid(shape="mesh", sites=3, nodes=3, **others):
    return lay_out(Topology(shape, sites, **others), nodes=nodes, number="0123456789")


def test_every_site_has_router_switch_clients_and_its_brokers():
    layout = laid(sites=2, nodes=3, brokers_per_site=2)

    assert sorted(host.name for host in layout.hosts if host.site == 1) == [
        "broker0", "broker1", "clients1", "router1", "switch1",
    ]  # fmt: skip
    assert [host.address for host in layout.of_kind(BROKER)] == ["10.77.1.10", "10.77.1.11", "10.77.2.10"]


@pytest.mark.parametrize("shape", ["site", "mesh", "star", "chain", "tree"])
def test_addresses_and_hardware_are_unique(shape):
    sites = 1 if shape == "site" else 7
    layout = laid(shape, sites, nodes=1)
    ends = [end for cable in layout.cables for end in (cable.first, cable.second)]

    own = [(end.host, end.address) for end in ends if not end.is_bridged]
    assert len(own) == len({address for _, address in own})
    assert len(ends) == len({end.hardware for end in ends})
    assert all(ip_address(host.address) in ip_network("10.77.0.0/16") for host in layout.hosts)


def test_names_lead_to_brokerlab_and_fit_the_kernel():
    layout = laid(sites=50, nodes=50)

    assert all(host.namespace.startswith(PREFIX) for host in layout.hosts)
    assert all(len(end.interface) <= 15 for cable in layout.cables for end in (cable.first, cable.second))


def test_links_of_each_kind_are_apart():
    layout = laid(sites=2, nodes=2, between=SLOW, switch_broker=Link(Direction(1.0), Direction(2.0)))

    delays = {cable.name: (cable.link.there.delay_ms, cable.link.back.delay_ms) for cable in layout.cables}
    assert delays["router1-router2"] == (5, 5)
    assert delays["switch1-broker0"] == (1, 2)
    assert delays["router1-switch1"] == delays["switch1-clients1"] == (0, 0)


def test_routes_follow_the_chain():
    layout = laid("chain", 3, nodes=1)

    of_first = {route.destination: route.gateway for route in layout.routes if route.host == "router1"}
    second = next(cable for cable in layout.cables if cable.name == "router1-router2").second
    assert of_first == {"10.77.2.0/24": second.address, "10.77.3.0/24": second.address}
    assert all(route.destination == "default" for route in layout.routes if not route.host.startswith(ROUTER))
