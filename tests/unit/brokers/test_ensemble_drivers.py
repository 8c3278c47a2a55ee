"""What drivers describe for the nodes of clusters and bridges; the contract suite of ensembles starts it."""

import pytest

from brokerlab.brokers import erlang
from brokerlab.brokers.base import Bridges, Clusters, Missing, Peer, Seat, Security
from brokerlab.brokers.program import find_program
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.brokers.source import Elsewhere
from brokerlab.study.values import BrokerChoice

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"
PASSWORD = "known to few"


def having(protocol):
    return [
        name
        for name, each in sorted(DRIVERS.items())
        if isinstance(each, protocol) and not isinstance(each.source, Elsewhere)
    ]


def require(name):
    if isinstance(found := driver(name).find(), Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    if name == "aedes" and find_program("redis-server") is None:
        pytest.skip("a cluster of Aedes needs Redis: apt-get install redis-server")
    return driver(name)


def seats(folder, *hosts):
    return [
        Seat(
            number,
            host,
            18_830 + number,
            folder / str(number),
            tuple(range(20_000 + 10 * number, 20_008 + 10 * number)),
        )
        for number, host in enumerate(hosts)
    ]


def security_of(broker, folder):
    users = {"alice": PASSWORD} if broker.abilities.has_credentials else {}
    return Security(folder=folder / "private", users=users)


def everything_told(node):
    return "\n".join((*node.argv, *node.files.values(), *node.env.values(), *(" ".join(each) for each in node.joins)))


@pytest.mark.parametrize("name", having(Clusters))
def test_nodes_of_a_cluster_share_nothing_and_tell_no_secret(name, tmp_path):
    broker = require(name)
    places = seats(tmp_path, HOST, HOST, HOST)
    group = broker.cluster(BrokerChoice(name, name), places, security=security_of(broker, tmp_path))
    secrets = [path for node in group.nodes for path in node.secrets]

    assert broker.abilities.has_clusters
    assert [(node.host, node.port) for node in group.nodes] == [(seat.host, seat.port) for seat in places]
    assert len(secrets) == len(set(secrets))
    assert all(path.is_relative_to(tmp_path / "private") for path in secrets)
    for seat, node in zip(places, group.nodes, strict=True):
        told = everything_told(node)
        others = [str(other.folder) for other in places if other != seat]
        assert not any(folder in told for folder in others)
        assert PASSWORD not in told
        cookies = [text for path, text in node.secrets.items() if path.name == ".erlang.cookie"]
        assert not any(cookie in told for cookie in cookies)


@pytest.mark.parametrize("name", having(Bridges))
def test_password_of_the_far_broker_is_in_a_private_file(name, tmp_path):
    broker = require(name)
    (seat,) = seats(tmp_path, HOST)
    far = Peer("node-1", HOST, 18_831, "alice", PASSWORD)
    node = broker.bridged(BrokerChoice(name, name), seat, peers=[far], security=Security(folder=tmp_path / "private"))
    (path,) = [path for path, text in node.secrets.items() if PASSWORD in text]

    assert broker.abilities.has_bridges
    assert path.is_relative_to(tmp_path / "private")
    assert PASSWORD not in everything_told(node)


def test_members_on_one_address_get_one_each_and_on_their_own_keep_it(tmp_path):
    """All at one port: nobody has to be asked for it."""
    here = erlang.members("rabbit", seats(tmp_path, HOST, HOST))
    apart = erlang.members("rabbit", seats(tmp_path, "10.77.0.1", "10.77.0.2"))

    assert [member.name for member in here] == ["rabbit@127.77.0.1", "rabbit@127.77.0.2"]
    assert [member.name for member in apart] == ["rabbit@10.77.0.1", "rabbit@10.77.0.2"]
    assert len({member.port for member in (*here, *apart)}) == 1
    assert len({member.cookie for member in apart}) == 1
    assert here[0].cookie != apart[0].cookie


def test_first_driver_has_the_name_with_its_version_too():
    assert driver("mochi@2.7.9") is driver("mochi")
