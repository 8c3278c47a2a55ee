"""Every driver that has clusters or bridges, three nodes in namespaces of their own (B-05, B-06, F-08).

`make test` takes those that are quick to start; BROKERLAB_CONTRACT=all takes all, or names some.
"""

import os
import signal
from dataclasses import replace

import pytest
from broker_rig import CHOICE, chosen_drivers, expected_qos, is_running
from ensemble_rig import ROUNDS, crossings, joined, namespaces, wait_until

from brokerlab.brokers.base import Bridges, Clusters, Missing, TellsMembers
from brokerlab.brokers.program import find_program
from brokerlab.brokers.registry import DRIVERS
from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.load.client import Login
from brokerlab.study.ensemble_values import Join

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
]

NODES = 3
HAS_TIME = CHOICE in os.environ  # without it this would be some ensembles too many
# Each speaks another set of versions and levels.
STRANGERS = [
    name for name in ("gmqtt", "hivemq", "nats", "rabbitmq", "rumqttd") if HAS_TIME and name in chosen_drivers()
]
ALICE = {"alice": "in wonderland"}


def having(protocol, names):
    return [name for name in names if isinstance(DRIVERS[name], protocol)]


def require(name):
    if isinstance(found := DRIVERS[name].find(), Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    if name == "aedes" and find_program("redis-server") is None:
        pytest.skip("a cluster of Aedes needs Redis: apt-get install redis-server")
    return DRIVERS[name]


@pytest.fixture
def nothing_left(tmp_path):
    """What an ensemble must leave behind: configurations and logs."""
    seen = []
    yield seen
    for nodes in seen:
        assert not any(is_running(pid) for pid in nodes.pids)
        assert namespaces() & nodes.namespaces == set()
        for number, node in enumerate(nodes.described):
            folder = tmp_path / "nodes" / str(number)
            left = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
            assert left == set(node.files), number


class Seen:
    """What of an ensemble is looked at when it is gone."""

    def __init__(self, nodes):
        self.pids = [pid for process in nodes.processes for pid in process.pids()]
        self.namespaces = {place.namespace for place in (*nodes.setup.stand.brokers, *nodes.setup.stand.clients)}
        self.described = [process.node for process in nodes.processes]


@pytest.mark.parametrize("name", having(Clusters, chosen_drivers()))
def test_messages_cross_every_pair_of_nodes_of_a_cluster(name, tmp_path, nothing_left):
    driver = require(name)
    with joined([name] * NODES, tmp_path, join=Join.CLUSTER) as nodes:
        nothing_left.append(Seen(nodes))
        assert_each_comes_once(nodes, driver.abilities)
        if isinstance(driver, TellsMembers):
            wait_until(lambda: members(driver, nodes) == [NODES] * NODES, "all are members")
            os.kill(nodes.processes[-1].pid, signal.SIGKILL)
            wait_until(lambda: members(driver, nodes) == [NODES - 1] * (NODES - 1) + [None], "one is none any more")


def members(driver, nodes):
    """What each node says."""
    told = []
    for process in nodes.processes:
        with inside(process.namespace):
            told.append(driver.members(process.node))
    return told


@pytest.mark.parametrize(
    ("name", "join"),
    [
        (name, join)
        for protocol, join in ((Clusters, Join.CLUSTER), (Bridges, Join.BRIDGE))
        for name in having(protocol, chosen_drivers() if HAS_TIME else ())
    ],
)
def test_ensemble_that_asks_for_passwords_forms_and_refuses_strangers(name, join, tmp_path, nothing_left):
    driver = require(name)
    if not driver.abilities.has_credentials:
        pytest.skip(f"{name} has no user names")
    with joined([name] * NODES, tmp_path, join=join, users=ALICE) as nodes:
        nothing_left.append(Seen(nodes))
        assert_all_came(crossings(nodes, 1), 1, nodes=NODES)
        for door in nodes.doors():
            with pytest.raises(RunError):
                replace(door, login=Login(user="alice", password=b"in london")).open()


@pytest.mark.parametrize("name", having(Bridges, chosen_drivers()))
def test_messages_cross_every_pair_of_bridged_nodes(name, tmp_path, nothing_left):
    driver = require(name)
    with joined([name] * NODES, tmp_path, join=Join.BRIDGE) as nodes:
        nothing_left.append(Seen(nodes))
        assert nodes.joints == {}, "not by the brokers themselves"
        assert_each_comes_once(nodes, driver.abilities)


@pytest.mark.parametrize("name", having(Bridges, chosen_drivers()))
def test_nodes_that_may_lose_nothing_are_bridged_too(name, tmp_path, nothing_left):
    """Limits that are lifted are told to the other end: Mosquitto's bridges do not connect with some of them."""
    driver = require(name)
    if "lossless" not in driver.abilities.presets:
        pytest.skip(f"{name} has no preset lossless")
    with joined([name] * 2, tmp_path, join=Join.BRIDGE, preset="lossless") as nodes:
        nothing_left.append(Seen(nodes))
        assert_all_came(crossings(nodes, 1), 1, nodes=2)


@pytest.mark.parametrize("name", STRANGERS)
def test_messages_cross_between_mosquitto_and_another_broker(name, tmp_path, nothing_left):
    """F-08; by a bridge of our own."""
    driver = require(name)
    with joined(["mosquitto", name], tmp_path, join=Join.BRIDGE) as nodes:
        nothing_left.append(Seen(nodes))
        for qos in driver.abilities.qos:
            assert_all_came(crossings(nodes, int(qos)), qos, nodes=2)


def assert_each_comes_once(nodes, abilities):
    for qos in abilities.qos:
        messages = crossings(nodes, int(qos))
        assert_all_came(messages, qos, nodes=NODES)
        expected = expected_qos(abilities, published=int(qos), subscribed=int(qos))
        assert {delivered for *_, delivered in messages} == {expected}


def assert_all_came(messages, qos, *, nodes):
    """Once each, from every node to every node; in which order is not looked at."""
    came = sorted((start, end, payload) for start, end, payload, _ in messages)
    expected = [(start, end, n) for start in range(nodes) for end in range(nodes) for n in range(ROUNDS)]
    assert came == expected, f"at QoS {qos}"
