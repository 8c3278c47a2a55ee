"""The filters of the table: each is its own, none matches the load, and the packets say so."""

import socket

import pytest

from brokerlab.load.filters import FILL, SUBSCRIBE, UNSUBSCRIBE, Asked, Holder, filter_of, share_of
from brokerlab.load.packets import Subscribe, Unsubscribe
from brokerlab.load.parser import Parser
from brokerlab.load.spec import Client
from brokerlab.load.topics import is_filter
from brokerlab.study.table import FilterKind, FilterTable
from brokerlab.study.topics import topic_matches

pytestmark = pytest.mark.unit


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("kind", FilterKind)
def test_filters_are_legal_and_different_and_match_nothing_of_the_load(kind):
    clients = [Client(number, "c", "brokerlab") for number in range(3)]
    names = [filter_of(client, kind, number) for client in clients for number in range(120)]

    assert len(set(names)) == len(names)
    assert all(map(is_filter, names))
    assert all(("+" in name and "#" in name) == (kind is FilterKind.WILDCARD) for name in names)
    topics = ["brokerlab/0", "brokerlab/0/x/x", "brokerlab", "brokerlab-probe/1", "0/1"]
    assert not any(topic_matches(name, topic) for name in names for topic in topics)


def test_table_is_shared_out_evenly_and_wholly():
    table = FilterTable(table=1003, clients=10)

    assert [share_of(table, number) for number in range(10)] == [101, 101, 101, *[100] * 7]


@pytest.mark.parametrize("level", [4, 5])
def test_packets_fill_then_add_the_newest_and_take_away_the_oldest(ends, level):
    ours, theirs = ends
    holder = Holder(Client(2, "c", "a"), ours, FilterTable(table=2003, clients=4), level=level)

    while holder.to_fill:
        holder.fill(7)
    holder.subscribe(11)
    holder.unsubscribe(13)
    assert holder.outbox.push(lambda _before, _count, _at_ns: None)

    filled, more, new, old = Parser(level).feed(theirs.recv(1 << 16))
    assert [len(filled.filters), len(more.filters)] == [500, 1]
    assert filled.filters[0] == ("a/brokerlab-table-2-0", 0)
    assert new == Subscribe(3, (("a/brokerlab-table-2-501", 0),))
    assert old == Unsubscribe(4, ("a/brokerlab-table-2-0",))
    assert holder.waiting == {
        1: Asked(FILL, 7, 500), 2: Asked(FILL, 7, 1), 3: Asked(SUBSCRIBE, 11), 4: Asked(UNSUBSCRIBE, 13),
    }  # fmt: skip
    assert list(holder.due_ns) == [11, 13]


def test_packet_identifiers_come_round_and_pass_over_those_in_use(ends):
    holder = Holder(Client(0, "c", "a"), ends[0], FilterTable(clients=1), level=4)

    holder.subscribe(0)
    for number in range(65_533):
        holder.subscribe(number)
        del holder.waiting[number + 2]
    holder.subscribe(1)
    holder.subscribe(2)

    assert sorted(holder.waiting) == [1, 2, 65_535]
    assert holder.has_room
