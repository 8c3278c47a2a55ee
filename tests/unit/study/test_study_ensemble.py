"""Ensembles and placement in a study file (B-05, B-11, B-23, F-05, F-08, F-09)."""

import pytest

from brokerlab.study.ensemble_values import BridgeShape, Ensemble, Join
from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.hearing import TopicIndex, flows_of
from brokerlab.study.placement_values import Placement, Spot
from brokerlab.study.placing import Placed, most_at_a_node, placed
from brokerlab.study.plan import make_plan
from brokerlab.study.problems import StudyError
from brokerlab.study.written import study_yaml

DRIVERS = {
    "bridging": DriverFacts(),
    "clustered": DriverFacts(has_clusters=True, most_nodes=3),
    "theirs": DriverFacts(is_elsewhere=True),
}

STUDY = """\
brokerlab: 1
study: joined
goals:
  question: Which crosses faster?
system:
  brokers:
    one: {driver: clustered}
    two: {driver: bridging}
  ensemble: {nodes: 3, join: bridge}
metrics: [latency]
scenario:
  variables:
    broker: [one, two]
"""


@pytest.fixture
def read(tmp_path):
    def reader(text, *settings):
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return read_study(path, settings=settings, drivers=DRIVERS)

    return reader


def problems_of(read, *settings, text=STUDY):
    with pytest.raises(StudyError) as caught:
        read(text, *settings)
    return [(problem.key, problem.rule, problem.nearest) for problem in caught.value.problems]


def test_study_with_an_ensemble_is_written_back_equal(read):
    study = read(
        STUDY,
        "system.ensemble={nodes: 3, join: bridge, bridges: [[0, 1], [1, 2]]}",
        "scenario.placement={publishers: one, subscribers: {share: [50 %, 25 %, 25 %]}}",
    )

    assert study.system.ensemble == Ensemble(3, Join.BRIDGE, ((0, 1), (1, 2)))
    assert study.scenario.workload.placement == Placement(Spot.ONE, (50.0, 25.0, 25.0))
    assert read(study_yaml(study)) == study


def test_nodes_join_and_locality_are_factors(read):
    study = read(
        STUDY,
        "scenario.variables.broker=[one]",
        "scenario.variables.nodes=[2, 3]",
        "scenario.variables.join=[cluster, bridge]",
        "scenario.variables.locality=[0 %, 50 %, spread]",
    )
    cells = make_plan(study, missing={}).cells

    assert len(cells) == 12
    assert {cell.ensemble.nodes for cell in cells} == {2, 3}
    assert {cell.ensemble.join for cell in cells} == {Join.CLUSTER, Join.BRIDGE}
    assert {cell.workload.placement.locality for cell in cells} == {0.0, 50.0, "spread"}
    assert read(study_yaml(study)) == study


def test_members_of_a_mixed_ensemble_take_the_nodes_in_turn(read):
    text = STUDY.replace("  variables:\n    broker: [one, two]\n", "  variables: {}\n")
    study = read(text, "system.ensemble.members=[two, one]")
    (cell,) = make_plan(study, missing={}).cells

    assert [choice.driver for choice in cell.choices] == ["bridging", "clustered", "bridging"]
    assert cell.ensemble.bridges is BridgeShape.TREE


def test_cluster_of_a_broker_that_has_none_is_refused(read):
    ((key, rule, near),) = problems_of(read, "system.ensemble.join=cluster")

    assert (key, near) == ("system.ensemble.join", "bridge")
    assert rule == "broker two has no clusters; `brokerlab brokers` shows which have"


@pytest.mark.parametrize(
    ("setting", "key", "rule"),
    [
        ("system.ensemble.bridges=[[0, 1], [1, 2], [2, 0]]", "system.ensemble.bridges", "2 - 1 - 0 - 2"),
        ("system.ensemble.bridges=[[0, 1]]", "system.ensemble.bridges", "from node 0 to node 2"),
        ("system.ensemble.bridges=[[0, 1], [1, 3]]", "system.ensemble.bridges", "no node 3"),
        ("system.ensemble.bridges=stars", "system.ensemble.bridges", "unknown shape"),
        ("system.ensemble.join=none", "system.ensemble.join", "cluster or bridge"),
        ("system.ensemble={nodes: 4, join: cluster}", "system.ensemble.nodes", "at most 3 nodes by its licence"),
        ("system.ensemble.members=[one, tow]", "system.ensemble.members[1]", "not in system.brokers"),
        ("scenario.placement.publishers={share: [50 %, 40 %]}", "scenario.placement.publishers", "come to 100 %"),
        ("scenario.placement.publishers={share: [50 %, 50 %]}", "scenario.placement.publishers", "3 nodes"),
        ("scenario.locality=120 %", "scenario.locality", "from 0 % to 100 %"),
        ("scenario.workload.transport=tls", "scenario.workload.transport", "bare TCP"),
        ("scenario.workload.role=echo", "scenario.workload.role", "one-way"),
        ("scenario.workload.topics.share=g", "scenario.workload.topics.share", "several groups"),
        ("system.brokers.two.driver=theirs", "system.ensemble.join", "somebody's own"),
        ("system.ensemble.bridge={per: publisher}", "system.ensemble.bridge.per", "bridges: star"),
        ("system.ensemble.bridge={ways: inward}", "system.ensemble.bridge.ways", "bridges: star"),
        ("system.ensemble.bridge={transform: [{pyton: a.b}]}", "system.ensemble.bridge.transform", "unknown step"),
        ("system.ensemble.bridge={transform: a.b}", "system.ensemble.bridge.transform", "a list of steps"),
    ],
)
def test_what_an_ensemble_cannot_be_is_refused_at_its_place(read, setting, key, rule):
    found = problems_of(read, setting)

    assert any(where == key and rule in said for where, said, _ in found), found


def test_placement_without_nodes_is_refused(read):
    found = problems_of(read, "system.ensemble={nodes: 1, join: none}", "scenario.locality=50 %")

    assert [(key, rule) for key, rule, _ in found] == [
        ("scenario.locality", "needs several nodes: set system.ensemble.nodes and join")
    ]


# -- placing ------------------------------------------------------------------------------------------------------


def flows(filters, topics):
    return flows_of([(each,) for each in filters], TopicIndex(lambda: topics, size=len(topics)), count=1)


ALL_HEAR_ALL = flows(["t/#"] * 10, ["t/0", "t/1"])
PAIRS = flows([f"t/{number}" for number in range(10)], [f"t/{number}" for number in range(10)])


@pytest.mark.parametrize(("percent", "local"), [(0, 0), (50, 50), (100, 100), (30, 30)])
@pytest.mark.parametrize("heard", [ALL_HEAR_ALL, PAIRS])
def test_locality_is_the_share_of_flows_at_one_node(percent, local, heard):
    found = placed(Placement(locality=percent), heard, publishers=heard.publishers, subscribers=10, nodes=5, seed=1)

    assert found.local_percent(heard) == pytest.approx(local)


def test_no_locality_is_one_node_for_publishers_and_another_for_subscribers():
    assert placed(Placement(locality=0), ALL_HEAR_ALL, publishers=2, subscribers=10, nodes=5, seed=3) == Placed(
        (0, 0), (1,) * 10
    )


def test_spread_is_as_local_as_nodes_are_few():
    found = placed(Placement(locality="spread"), ALL_HEAR_ALL, publishers=2, subscribers=10, nodes=5, seed=1)

    assert found.publishers == (0, 0)
    assert found.local_percent(ALL_HEAR_ALL) == pytest.approx(20)


def test_random_placement_is_that_of_the_seed():
    rule = Placement(Spot.RANDOM, Spot.RANDOM)
    once, again, other = (placed(rule, PAIRS, publishers=10, subscribers=10, nodes=4, seed=seed) for seed in (7, 7, 8))

    assert once == again != other
    assert set(once.publishers) <= set(range(4))


def test_shares_fill_the_nodes_in_order():
    rule = Placement((50.0, 0.0, 50.0), Spot.ONE)

    assert placed(rule, PAIRS, publishers=10, subscribers=10, nodes=3, seed=1).publishers == (0,) * 5 + (2,) * 5


def test_bridges_of_our_own_are_read_and_written_with_their_transformer(read):
    """X-03, X-09: one for each publisher, with what all of them have together."""
    study = read(
        STUDY,
        "system.ensemble={nodes: 3, join: bridge, bridges: star, bridge: {ways: inward, transform: [{python: a.b}], "
        "connections: per message, limits: {cpus: 1}}}",
        "scenario.variables.bridge_per=[pair, publisher]",
    )

    bridging = study.system.ensemble.bridging
    assert (bridging.ways, bridging.transform, bridging.connections) == ("inward", '[{"python": "a.b"}]', "per message")
    assert bridging.limits.cpus == 1
    assert {cell.ensemble.bridging.per for cell in make_plan(study, missing={}).cells} == {"pair", "publisher"}
    assert read(study_yaml(study)).system.ensemble == study.system.ensemble


@pytest.mark.parametrize(
    ("rule", "exactly"),
    [
        (Placement(), (3, 3)), (Placement(Spot.ONE), (10, 3)), (Placement(locality="spread"), (10, 3)),
        (Placement((20.0, 50.0, 30.0, 0.0)), (5, 3)), (Placement(Spot.RANDOM), None), (Placement(locality=50.0), None),
        (Placement(locality=0.0), None),
    ],
)  # fmt: skip
def test_no_node_has_more_clients_than_the_most_that_are_told(rule, exactly):
    told = most_at_a_node(rule, publishers=10, subscribers=10, nodes=4)

    for seed in range(5):
        found = placed(rule, PAIRS, publishers=10, subscribers=10, nodes=4, seed=seed)
        most = tuple(max(map(nodes.count, nodes)) for nodes in (found.publishers, found.subscribers))
        assert most[0] <= told[0]
        assert most[1] <= told[1]
        assert exactly is None or most == told == exactly
    assert most_at_a_node(rule, publishers=10, subscribers=0, nodes=1) == (10, 0)
