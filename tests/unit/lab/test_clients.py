import pytest

from brokerlab.errors import UserError
from brokerlab.lab.access import open_access
from brokerlab.lab.cast import cast_of, specs_of
from brokerlab.lab.clients import clients_of
from brokerlab.lab.crossing import Door
from brokerlab.study.plan import Cell, PlannedRun
from brokerlab.study.population import client_count
from brokerlab.study.secret import Secret
from brokerlab.study.table import FilterTable
from brokerlab.study.values import (
    BrokerChoice,
    ClientLife,
    Credentials,
    Probe,
    Roles,
    SubscribeAt,
    Topics,
    Workload,
)

pytestmark = pytest.mark.unit


def heard(clients):
    """The publishers that each subscriber hears."""
    flows = {}
    for subscriber, publisher in zip(clients.flows.subscriber, clients.flows.publisher, strict=True):
        flows.setdefault(int(subscriber), []).append(int(publisher))
    return flows


def test_every_subscriber_of_a_wildcard_hears_every_publisher():
    clients = clients_of(Workload(publishers=3, subscribers=2), seed=7)

    assert heard(clients) == {0: [0, 1, 2], 1: [0, 1, 2]}
    assert clients.fan_out == 2
    assert clients.expected({0: 10, 1: 20, 2: 30}) == 120


def test_one_to_one_topics_pair_publishers_and_subscribers():
    topics = Topics(publish="pair/{publisher}", subscribe="pair/{subscriber}")
    clients = clients_of(Workload(publishers=3, subscribers=2, topics=topics), seed=7)

    assert heard(clients) == {0: [0], 1: [1]}
    assert clients.expected({0: 10, 1: 20, 2: 30}) == 30


def test_client_identifiers_are_unique_short_and_those_of_the_seed():
    clients = clients_of(Workload(publishers=1000, subscribers=1000), seed=2**63 - 1)
    names = [client.name for client in clients.publishers + clients.subscribers]

    assert len(set(names)) == 2000
    assert max(map(len, names)) <= 23


def test_a_workload_in_which_nobody_hears_anything_is_refused():
    with pytest.raises(UserError, match="no subscriber would get a message"):
        clients_of(Workload(topics=Topics("a/{publisher}", "b/#")), seed=1)


def test_messages_take_turns_over_topics_and_a_subscriber_of_some_gets_its_share():
    """S-02, F-14: 2 publishers with 3 topics each; 7 messages are 3, 2 and 2 on them, 4 are 2, 1 and 1."""
    topics = Topics("plant/{publisher}/{topic}", ("plant/+/0", "plant/1/2"), count=3)
    clients = clients_of(Workload(publishers=2, subscribers=2, topics=topics), seed=7)

    assert [client.filters for client in clients.subscribers] == [("plant/+/0", "plant/1/2")] * 2
    assert clients.expected({0: 7, 1: 4}) == 2 * (3 + 2 + 1)
    assert clients.fan_out == 2 * 3 / 6


def test_ten_thousand_pairs_are_as_many_flows():
    """Not a hundred million places, and no filter is held against every topic."""
    topics = Topics("pair/{publisher}/{topic}", "pair/{subscriber}/#", count=2)
    clients = clients_of(Workload(publishers=10_000, subscribers=10_000, topics=topics), seed=7)

    assert clients.flows.size == 10_000
    assert (clients.flows.subscriber == clients.flows.publisher).all()
    assert clients.expected(dict.fromkeys(range(10_000), 3)) == 30_000


def test_a_shared_subscription_is_owed_every_message_once_a_group():
    topics = Topics("t/{publisher}", "t/#", share=("a", "b"))
    clients = clients_of(Workload(publishers=2, subscribers=5, topics=topics), seed=7)

    assert [client.filters for client in clients.subscribers] == [
        (f"$share/{group}/t/#",) for group in ("a", "b", "a", "b", "a")
    ]
    assert clients.expected({0: 10, 1: 20}) == 2 * 30
    assert clients.fan_out == 2


def test_a_retained_replay_is_owed_one_message_a_topic():
    """Publisher 1 sent two messages, so one of its three topics has none."""
    topics = Topics("t/{publisher}/{topic}", "t/#", count=3, subscribe_at=SubscribeAt.AFTER)
    clients = clients_of(Workload(publishers=2, subscribers=2, topics=topics, retain=True), seed=7)

    assert clients.expected({0: 10, 1: 2}) == 2 * (3 + 2)


@pytest.mark.parametrize("failover", [False, True])
def test_those_beside_the_load_come_back_and_go_elsewhere_where_all_do(failover, tmp_path):
    """They are at the first node, whose next one is where no publisher is."""
    workload = Workload(
        publishers=1, probe=Probe(), clients=ClientLife(reconnect=True, failover=failover),
        subscriptions=FilterTable(10, clients=1),
    )  # fmt: skip
    clients = clients_of(workload, seed=1)
    cell = Cell("c", (), BrokerChoice("b", "b"), workload)
    doors = [Door(number, "h", number + 1) for number in range(3)]
    specs = specs_of(PlannedRun(cell, 1, 1, 1), cast_of(workload, clients, seed=1), doors=doors, folder=tmp_path)

    beside = {spec.node: spec for spec in specs if spec.node in ("probe/0", "filters/0")}
    assert {spec.workload.clients.reconnect for spec in beside.values()} == {True}
    assert {spec.others for spec in beside.values()} == {(("h", 2), ("h", 3)) if failover else ()}


@pytest.mark.parametrize("role", list(Roles))
@pytest.mark.parametrize("is_all", [False, True])
def test_plan_users_and_rate_count_the_clients_that_connect(role, is_all, tmp_path):
    """One after the other in every role: no two of them have the same place, and none is free."""
    beside = {"probe": Probe(), "subscriptions": FilterTable(10, clients=2)} if is_all else {}
    life = ClientLife(connect_rate_per_s=10, idle=2 if is_all else 0, addresses=("127.0.0.2",))
    credentials = Credentials(user="u-{client}", password=Secret("x"))
    workload = Workload(publishers=3, role=role, clients=life, credentials=credentials, **beside)
    clients = clients_of(workload, seed=1)
    cast = cast_of(workload, clients, seed=1)
    cell = Cell("c", (), BrokerChoice("b", "b"), workload)
    with open_access(workload, clients, host="127.0.0.1", beside=cast.beside) as access:
        specs = access.admitted(specs_of(PlannedRun(cell, 1, 1, 1), cast, doors=[Door(0, "h", 1)], folder=tmp_path))

    every = [(spec.connects_after + each.number, each) for spec in specs for each in spec.clients]

    assert sorted(place for place, _ in every) == list(range(client_count(workload)))
    assert {each.user for _, each in every} == {f"u-{number}" for number in range(client_count(workload))}
    lives = [spec.workload.clients for spec in specs]
    assert {(each.connect_rate_per_s, each.addresses) for each in lives} == {(10, ("127.0.0.2",))}
