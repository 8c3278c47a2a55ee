"""Parts of ensembles that need no broker: who opens a bridge, who missed whom, what each worker should get."""

import pytest

from brokerlab.brokers.registry import driver
from brokerlab.lab.cast import cast_of
from brokerlab.lab.clients import clients_of
from brokerlab.lab.ensemble import bridges_of, common_qos, openers
from brokerlab.lab.health import Departure, Told, missed
from brokerlab.lab.joints import spans_of
from brokerlab.lab.stand import Stand, on_loopback
from brokerlab.study.ensemble_values import BridgePer, BridgeShape, BridgeWays, Bridging, Ensemble, Join
from brokerlab.study.placement_values import Placement
from brokerlab.study.places import Place
from brokerlab.study.values import Probe, Topics, Workload

pytestmark = pytest.mark.unit
MOSQUITTO, NATS = driver("mosquitto"), driver("nats")


def test_like_brokers_open_their_own_bridges_and_strangers_are_joined_by_ours():
    """F-08: a stranger would send Mosquitto's own messages back to it."""
    drivers = [MOSQUITTO, driver("mosquitto@2.1.2"), NATS, NATS]

    assert openers([(0, 1), (1, 2), (2, 3)], drivers) == {(0, 1): 1, (1, 2): None, (2, 3): None}


def test_bridges_follow_the_round_trips_of_the_network():
    costs = {(0, 1): 80.0, (0, 2): 10.0, (1, 2): 20.0}

    assert bridges_of(Ensemble(3, Join.BRIDGE), costs) == ((0, 2), (1, 2))
    assert bridges_of(Ensemble(3, Join.BRIDGE, BridgeShape.CHAIN), costs) == ((0, 1), (1, 2))
    assert bridges_of(Ensemble(3, Join.BRIDGE, ((1, 0), (0, 2))), costs) == ((1, 0), (0, 2))


def test_levels_of_a_mixed_ensemble_are_those_that_all_have():
    assert common_qos([MOSQUITTO, driver("nats@2.9.10")]) == (0, 1)


def test_clients_of_a_node_are_those_of_its_site():
    nodes = tuple(Place(f"node {number}", "10.0.0.1", site=site) for number, site in enumerate((0, 1, 1, 2)))
    clients = (Place("clients 0", "10.0.0.2", site=0), Place("clients 1", "10.0.1.2", site=1))
    stand = Stand(nodes, clients)

    assert [stand.home(number).name for number in range(4)] == ["clients 0", "clients 1", "clients 1", "clients 0"]
    assert [place.name for place in on_loopback(2).brokers] == ["node 0", "node 1"]


def test_a_node_that_sees_fewer_members_than_before_missed_somebody():
    """A cluster that is still forming misses nobody, and one that does not answer says nothing."""
    growing = [Told(0, at, members) for at, members in enumerate((1, 2, 3, None, 3))]
    shrinking = [Told(1, at, members) for at, members in enumerate((3, 3, 2, 1))]

    assert missed([*growing, *shrinking], 3) == [Departure(1, 2, "it saw 2 members of 3, after it had seen 3")]


def test_what_each_node_s_subscribers_should_get_adds_up():
    """Two publishers at node 0 and four subscribers that hear both: one at node 0, the others at 1 and 2."""
    workload = Workload(
        publishers=2, subscribers=4, topics=Topics("t/{publisher}", "t/#"), placement=Placement(locality=25.0)
    )
    clients = clients_of(workload, seed=5, nodes=3)
    cast = cast_of(workload, clients, seed=5)
    (home,) = set(clients.placed.publishers)

    expected = cast.expected({0: 10, 1: 5})

    assert sum(expected.values()) == clients.expected({0: 10, 1: 5}) == 60
    assert expected == {
        f"subscribers/{node}": 15 * clients.placed.subscribers.count(node) for node in set(clients.placed.subscribers)
    }
    assert expected[f"subscribers/{home}"] == 15


def test_subscribers_that_overhear_the_probe_get_it_at_their_node():
    workload = Workload(
        publishers=1, subscribers=3, topics=Topics("t", "#"), probe=Probe(), placement=Placement(locality=0.0)
    )
    clients = clients_of(workload, seed=5, nodes=2)
    cast = cast_of(workload, clients, seed=5)

    assert cast.expected({0: 10, cast.probe.number: 4}) == {"subscribers/1": 3 * 14, "probe/0": 4}


HUBS = ((1, "hub/0"), (2, "hub/1"), (1, "hub/2"))


@pytest.mark.parametrize(
    ("bridging", "carried"),
    [
        (None, [("p/#",)]),
        (Bridging(), [("p/#",)]),
        (Bridging(ways=BridgeWays.INWARD), [("hub/0", "hub/2")]),
        (Bridging(BridgePer.PUBLISHER), [("hub/0",), ("hub/2",)]),
    ],
)
def test_a_pair_has_one_bridge_or_one_for_each_publisher_there(bridging, carried):
    """X-03: AUT 1 and AUT 2."""
    spans = spans_of((0, 1), Ensemble(3, Join.BRIDGE, BridgeShape.STAR, bridging=bridging), HUBS, prefix="p/")

    assert [span.subscribe for span in spans] == carried
    assert all(span.both or span.ends == (1, 0) for span in spans)
    assert len({span.key for span in spans}) == len(spans)
