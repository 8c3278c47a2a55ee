"""Every driver that clusters or bridges, with three nodes in namespaces of their own (B-05, B-06, F-08).

`make test` takes those that are quick to start; BROKERLAB_CONTRACT=all takes all, or names some.
"""

import os

import pytest
from broker_rig import chosen_drivers, expected_qos
from ensemble_rig import ROUNDS, crossings, namespaces, private, seats, started, wait_until

from brokerlab.brokers.base import Bridges, Clusters, Group, Missing, Peer, TellsMembers
from brokerlab.brokers.registry import DRIVERS
from brokerlab.inside import inside
from brokerlab.study.values import BrokerChoice

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
]

NODES = 3


def of(protocol):
    return [name for name in chosen_drivers() if isinstance(DRIVERS[name], protocol)]


@pytest.fixture
def sites():
    with namespaces(NODES) as made:
        yield made


def found(name):
    missing = DRIVERS[name].find()
    if isinstance(missing, Missing):
        pytest.skip(f"{missing.reason}: {missing.hint}")
    return DRIVERS[name]


@pytest.mark.parametrize("name", of(Clusters))
def test_messages_cross_every_pair_of_nodes_of_a_cluster(name, sites, tmp_path):
    driver = found(name)
    group = driver.cluster(BrokerChoice(name, name), seats(sites, tmp_path), security=private(tmp_path))
    with started(group, sites, tmp_path) as processes:
        assert_all_cross(driver.abilities, processes)
        if isinstance(driver, TellsMembers):
            for process in processes:
                with inside(process.namespace):
                    wait_until(lambda process=process: driver.members(process.node) == NODES, "all are members")


@pytest.mark.parametrize("name", of(Bridges))
def test_messages_cross_every_pair_of_bridged_nodes(name, sites, tmp_path):
    """A star: the last two open a bridge to the first."""
    driver = found(name)
    choice, places, security = BrokerChoice(name, name), seats(sites, tmp_path), private(tmp_path)
    centre = Peer("node-0", places[0].host, places[0].port)
    group = Group(
        tuple(driver.bridged(choice, seat, peers=[centre] if seat.index else [], security=security) for seat in places)
    )
    with started(group, sites, tmp_path) as processes:
        assert_all_cross(driver.abilities, processes)


def assert_all_cross(abilities, processes):
    for qos in abilities.qos:
        ways, messages = crossings(processes, int(qos))
        for (start, end), payloads in ways.items():
            assert payloads == [f"{start} {number}" for number in range(ROUNDS)], (qos, start, end)
        expected = expected_qos(abilities, published=int(qos), subscribed=int(qos))
        assert {message.qos for each in messages for message in each} == {expected}
