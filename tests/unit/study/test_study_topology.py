"""Topologies as values: shapes, ways, links and the keys that make them (B-01, B-02, B-03, F-05, F-15)."""

import pytest

from brokerlab.study.file import read_study
from brokerlab.study.link_profiles import PROFILES
from brokerlab.study.plan import make_plan
from brokerlab.study.problems import StudyError
from brokerlab.study.topology import Direction, Link, SiteLink, Topology, broker_sites, joins, way_rtt_ms, ways
from brokerlab.study.written import study_yaml

STUDY = """
brokerlab: 1
study: links
goals: {{question: Which?}}
system: {{brokers: {{one: {{driver: amqtt}}}}}}
metrics: [latency]
scenario:
  variables: {variables}
  topology: {topology}
"""


@pytest.fixture
def read(tmp_path, drivers):
    def reader(topology, variables="{broker: [one]}"):
        path = tmp_path / "study.yaml"
        path.write_text(STUDY.format(topology=topology, variables=variables), encoding="utf-8")
        return read_study(path, drivers=drivers)

    return reader


@pytest.mark.parametrize(
    ("shape", "pairs"),
    [
        ("mesh", [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]),
        ("star", [(1, 2), (1, 3), (1, 4)]),
        ("chain", [(1, 2), (2, 3), (3, 4)]),
        ("tree", [(1, 2), (1, 3), (2, 4)]),
    ],
)
def test_shapes_join_routers(shape, pairs):
    assert [(each.first, each.second) for each in joins(Topology(shape=shape, sites=4))] == pairs


@pytest.mark.parametrize(("shape", "hops"), [("mesh", 1), ("star", 2), ("chain", 3), ("tree", 3)])
def test_hop_count_of_the_farthest_pair(shape, hops):
    """F-05: of four sites, the last to the last but one or the first."""
    found = ways(Topology(shape=shape, sites=4))

    assert max(way.hops for way in found.values()) == hops
    assert found[4, 4].hops == 0


def test_way_prefers_few_routers_then_short_links():
    fast, slow = (Link(Direction(delay), Direction(delay)) for delay in (1.0, 10.0))
    square = Topology("graph", 4, links=(SiteLink(1, 2, slow), SiteLink(2, 4, slow), SiteLink(1, 3, fast),
                                         SiteLink(3, 4, fast)))  # fmt: skip

    way = ways(square)[1, 4]

    assert way.sites == (1, 3, 4)
    assert way_rtt_ms(square, way) == 4.0


def test_one_broker_stands_far_from_the_clients_of_the_first_site():
    assert broker_sites(Topology("chain", 2), nodes=1) == (2,)
    assert broker_sites(Topology("mesh", 2, brokers_per_site=2), nodes=3) == (1, 1, 2)


@pytest.mark.parametrize(
    "written",
    [
        "loopback",
        "{shape: site, brokers_per_site: 3, switch_broker: {rtt: 1 ms}}",
        "{shape: chain, sites: 2, rtt: 40 ms}",
        "{shape: mesh, sites: 5, rtt: 50 ms, rate: 1 Mbit/s, router_switch: {rtt: 2 ms}}",
        "{shape: star, sites: 3, profile: 4g, queue: 64 KiB, back: {loss: 2 %}}",
        "{shape: tree, sites: 7, children: 3, profile: lossy, back: {rate: none}}",
        "{shape: graph, rtt: 5 ms, links: [{between: [1, 2]}, {between: [3, 2], delay: 3 ms, back: {delay: 1 ms}}]}",
    ],
)
def test_topology_reads_back_from_its_resolved_study(read, tmp_path, drivers, written):
    study = read(written)
    again = tmp_path / "again.yaml"
    again.write_text(study_yaml(study), encoding="utf-8")

    assert read_study(again, drivers=drivers) == study


def test_both_directions_apart(read):
    link = read("{shape: chain, sites: 2, delay: 30 ms, rate: 5 Mbit/s, back: {delay: 10 ms, rate: none}}")

    between = link.scenario.topology.between
    assert (between.there.delay_ms, between.back.delay_ms, between.rtt_ms) == (30, 10, 40)
    assert (between.there.rate_bits_per_s, between.back.rate_bits_per_s) == (5e6, None)


def test_link_written_from_the_higher_site_is_turned(read):
    topology = read("{shape: graph, links: [{between: [2, 1], delay: 3 ms, back: {delay: 1 ms}}]}").scenario.topology

    assert joins(topology)[0].link.there.delay_ms == 1


def test_rtt_rate_and_loss_are_factors(read):
    """F-15: every cell has the link of its levels."""
    levels = "{rtt: [5 ms, 50 ms], link_rate: [none, 1 Mbit/s], loss: [1 %]}"

    plan = make_plan(read("{shape: chain, sites: 2}", levels), missing={})

    links = [cell.topology.between.there for cell in plan.cells]
    assert [(link.delay_ms, link.rate_bits_per_s, link.loss_percent) for link in links] == [
        (2.5, None, 1.0), (2.5, 1e6, 1.0), (25.0, None, 1.0), (25.0, 1e6, 1.0),
    ]  # fmt: skip
    assert plan.cells[1].id == "broker-one.rtt-5ms.link_rate-1Mbit-per-s.loss-1percent"


def test_profile_is_a_factor(read):
    plan = make_plan(read("{shape: chain, sites: 2}", "{profile: [lan, satellite]}"), missing={})

    assert [cell.topology.between for cell in plan.cells] == [PROFILES["lan"], PROFILES["satellite"]]


@pytest.mark.parametrize(
    ("topology", "variables", "rule"),
    [
        ("{shape: loopback, rtt: 5 ms}", "{}", "loopback has no sites and no links: leave out rtt"),
        ("{shape: site, sites: 2}", "{}", "a single site has no links between routers: leave out sites"),
        ("{shape: mesh}", "{}", "a mesh needs the key sites, 2 or more"),
        ("{shape: graph}", "{}", "a graph is the list of its links"),
        ("{shape: chain, sites: 3, links: [{between: [1, 3]}]}", "{}", "a chain has no link between the sites 1 and 3"),
        ("{shape: graph, sites: 3, links: [{between: [1, 2]}]}", "{}", "no way of links leads from site 1 to site 3"),
        ("{shape: chain, sites: 2, rtt: 5 ms, delay: 2 ms}", "{}", "rtt is both delays together"),
        ("{shape: chain, sites: 2, rtt: 5 ms, jitter: 3 ms}", "{}", "jitter of 3 ms is more than the delay"),
        ("{shape: chain, sites: 2, queue: 9 kB}", "{}", "queue is what waits for the rate"),
        ("{shape: chain, sites: 2, correlation: 9 %}", "{}", "correlation is of losses"),
        ("loopback", "{rtt: [5 ms]}", "varies the links between routers, and the topology loopback has none"),
        ("{shape: chain, sites: 2, jitter: 1 ms, rtt: 9 ms}", "{rtt: [1 ms]}", "jitter of 1 ms is more than"),
        ("{shape: chain, sites: 2}", "{profile: [lan], loss: [1 %]}", "a profile has figures of its own"),
    ],
)  # fmt: skip
def test_impossible_networks_are_refused(read, topology, variables, rule):
    with pytest.raises(StudyError, match="scenario") as caught:
        read(topology, variables)

    assert rule in caught.value.message


@pytest.mark.parametrize(
    ("metrics", "deploy", "taps"),
    [
        ("[latency]", "{}", ()),
        ("[latency, traffic]", "{}", ("broker",)),
        ("[latency, traffic]", "{captures: [router]}", ("router",)),
        ("[latency, traffic]", "{captures: []}", ()),
    ],
)
def test_packets_are_captured_where_the_metric_needs_them(tmp_path, drivers, metrics, deploy, taps):
    path = tmp_path / "study.yaml"
    text = STUDY.format(topology="{shape: chain, sites: 2}", variables="{broker: [one]}")
    path.write_text(text.replace("[latency]", metrics) + f"deploy: {deploy}\n", encoding="utf-8")

    study = read_study(path, drivers=drivers)
    path.write_text(study_yaml(study), encoding="utf-8")

    assert study.deploy.captures == taps
    assert read_study(path, drivers=drivers).deploy.captures == taps
