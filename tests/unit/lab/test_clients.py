import pytest

from brokerlab.errors import UserError
from brokerlab.lab.clients import clients_of
from brokerlab.study.values import Topics, Workload

pytestmark = pytest.mark.unit


def test_every_subscriber_of_a_wildcard_hears_every_publisher():
    clients = clients_of(Workload(publishers=3, subscribers=2), seed=7)

    assert clients.heard == {0: (0, 1, 2), 1: (0, 1, 2)}
    assert clients.fan_out == 2
    assert clients.expected({0: 10, 1: 20, 2: 30}) == 120


def test_one_to_one_topics_pair_publishers_and_subscribers():
    topics = Topics(publish="pair/{publisher}", subscribe="pair/{subscriber}")
    clients = clients_of(Workload(publishers=3, subscribers=2, topics=topics), seed=7)

    assert clients.heard == {0: (0,), 1: (1,)}
    assert clients.expected({0: 10, 1: 20, 2: 30}) == 30


def test_client_identifiers_are_unique_short_and_those_of_the_seed():
    clients = clients_of(Workload(publishers=1000, subscribers=1000), seed=2**63 - 1)
    names = [client.name for client in clients.publishers + clients.subscribers]

    assert len(set(names)) == 2000
    assert max(map(len, names)) <= 23


def test_a_workload_in_which_nobody_hears_anything_is_refused():
    with pytest.raises(UserError, match="no subscriber would get a message"):
        clients_of(Workload(topics=Topics("a/{publisher}", "b/#")), seed=1)
