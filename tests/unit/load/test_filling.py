"""Publishers that keep a window full, over real sockets: what leaves, what comes back, and what ends a watch."""

import select
import socket
import struct
import threading
from contextlib import ExitStack
from random import Random

import numpy as np
import pytest
from filling_rig import DELIVERED, LONG_NS, OTHER_WORKER, OVERTAKEN, OWN, Rig, received, tcp_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.load import filling, window
from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import PingResp, PubAck, PubComp, PubRec
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Go
from brokerlab.load.websocket import WebSocketStream
from brokerlab.study.values import Topics

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module", autouse=True)
def no_write_offs():
    """On a busy machine a test may take longer than a window waits for deliveries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "PATIENCE_NS", 1 << 62)
        yield


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@settings(max_examples=25, deadline=None)
@given(
    qos=st.integers(0, 2), protocol=st.sampled_from(["3.1.1", "5.0"]), publishers=st.integers(1, 3),
    window=st.integers(1, 60), most=st.sampled_from([3, 65_535]), first=st.sampled_from([0, 65_520]),
    room=st.sampled_from([(130, 8), (1 << 16, 1 << 16)]), turns=st.integers(1, 8), seed=st.integers(0, 1 << 32),
)  # fmt: skip
def test_whatever_the_peers_acknowledge_everything_leaves_once_and_is_known(room, turns, seed, **values):
    random = Random(seed)  # not one of Hypothesis: how much is drawn is up to what the sockets had by then
    with ExitStack() as stack:
        rig = Rig(stack, buffer_bytes=room[0], releases_bytes=room[1], **values)
        rig.until(rig.turn, lambda: rig.is_heard(1))
        for _ in range(turns):
            for peer in rig.peers:
                peer.say_something(random)
            rig.counts[DELIVERED] += random.randint(0, rig.counts[OWN] - rig.counts[DELIVERED])
            rig.turn()
            assert rig.is_heard(sum(rig.sent()) - values["publishers"] * values["first"])
            assert rig.counts[OWN] - rig.counts[DELIVERED] <= values["window"]
            assert all(each.in_flight <= values["most"] for each in rig.publishers if values["qos"])
        for peer in rig.peers:
            peer.say()
        said = [sum(len(peer.said_ids(kind)) for peer in rig.peers) for kind in (PubAck, PubRec, PubComp)]
        turns = iter(range(30))  # not for a time: Hypothesis would take minutes to shrink what fails
        rig.until(rig.turn, lambda: rig.seen.tolist() == [*said, 0, 0] or next(turns, None) is None)
        rig.turn()
        assert rig.seen.tolist() == [*said, 0, 0]
        rig.check()


def test_window_is_shared_and_room_below_a_quarter_of_it_is_kept(stack):
    rig = Rig(stack, qos=0, window=16, publishers=3)
    assert rig.fills(6, 5, 5)
    rig.counts[DELIVERED] = 3
    assert rig.fills(6, 5, 5)
    rig.counts[OVERTAKEN] = 1
    assert rig.fills(8, 6, 6)
    rig.counts[OTHER_WORKER], rig.counts[DELIVERED] = 10, 19
    assert rig.fills(10, 8, 8)


def test_with_fan_out_a_message_makes_room_when_all_copies_arrived(stack):
    rig = Rig(stack, qos=0, window=10, fan_out=2.0)
    for delivered, sent in ((0, 10), (5, 10), (13, 16), (20, 20)):
        rig.counts[DELIVERED] = delivered
        assert rig.fills(sent)


def test_deliveries_make_room_while_the_watch_lasts(stack):
    rig, is_over, sent = Rig(stack, qos=0), threading.Event(), [0]

    def deliver():
        while not is_over.wait(0.000_5):
            rig.counts[DELIVERED] = rig.counts[OWN]

    def watch():
        rig.watch(lasts_ns=LONG_NS)
        rig.peers[0].hear()
        sent.append(rig.counts[OWN])

    subscriber = threading.Thread(target=deliver)
    subscriber.start()
    rig.until(watch, lambda: max(np.diff(sent), default=0) > 2 * 16)
    is_over.set()
    subscriber.join()
    rig.check()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(("payload_bytes", "window"), [(40, 10_000), (60_000, 20)])
def test_what_a_socket_takes_in_part_is_followed_by_the_rest(stack, qos, payload_bytes, window):
    rig = Rig(stack, qos=qos, payload_bytes=payload_bytes, window=window, publishers=2, pair=tcp_pair)
    rig.until(rig.watch, lambda: rig.publishers[0].is_blocked)
    assert rig.publishers[0].unsent
    assert rig.watch(lasts_ns=LONG_NS) is None

    rig.until(rig.turn, lambda: rig.is_heard(0.75 * window))

    assert all(rig.sent())
    assert rig.counts[OWN] <= window
    rig.check()


@pytest.mark.parametrize("delivered", [0, 12_000])
def test_releases_that_a_socket_takes_in_part_stay_in_order_before_new_messages(stack, delivered):
    rig = Rig(stack, qos=2, window=24_000, publishers=2, pair=tcp_pair)
    rig.until(rig.turn, lambda: rig.is_heard(18_000))
    for peer in rig.peers:
        assert peer.owed
        peer.say(*peer.owed)
    rig.counts[DELIVERED] = delivered

    rig.until(rig.watch, lambda: any(each.is_blocked for each in rig.publishers))
    assert any(len(peer.hear().releases) < len(peer.said) for peer in rig.peers)
    are_released = lambda: all(len(peer.releases) == len(peer.said) for peer in rig.peers)  # noqa: E731
    rig.until(rig.turn, lambda: are_released() and rig.is_heard(18_000 + delivered))
    rig.check()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_connection_that_the_broker_ends_is_told_of_and_the_others_go_on(stack, qos):
    rig, heard = Rig(stack, qos=qos, publishers=3, window=12, pair=tcp_pair), []
    rig.until(rig.turn, lambda: rig.is_heard(12))
    ended = list(rig.open)[1]
    for peer in rig.peers:
        peer.say(*peer.owed)
    rig.peers[1].end.shutdown(socket.SHUT_WR)

    rig.until(lambda: heard.extend(rig.watch() or ()), lambda: (ended, select.EPOLLIN) in heard)
    rig.read([(ended, select.EPOLLIN)] * 2)
    del rig.peers[1], rig.publishers[1]
    rig.counts[DELIVERED] = 8
    rig.until(
        rig.turn, lambda: sum(len(peer.messages + peer.releases) for peer in rig.peers) == (24 if qos == 2 else 16)
    )
    rig.turn()
    rig.check()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("room", [0, 12])
def test_connection_that_is_reset_is_not_lost(stack, qos, room):
    rig, heard = Rig(stack, qos=qos, publishers=3, window=12, pair=tcp_pair), []
    rig.until(rig.turn, lambda: rig.is_heard(12))
    gone = list(rig.open)[1]
    rig.peers[1].end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    rig.peers.pop(1).end.close()
    rig.counts[DELIVERED] = room

    rig.until(lambda: heard.extend(rig.watch() or ()), lambda: heard or rig.lost)
    assert {fd for fd, _ in heard} | set(rig.lost) == {gone}
    rig.read(heard)
    del rig.publishers[1]
    rig.counts[DELIVERED] = 12
    rig.until(rig.turn, lambda: sum(len(peer.messages) for peer in rig.peers) == sum(rig.sent()) > 12)
    rig.check()


def test_packets_at_qos_0_are_left_to_be_read_one_by_one(stack):
    """A broker may say there too why it is about to close."""
    rig = Rig(stack, qos=0)
    rig.peers[0].say(PingResp())

    assert rig.watch(lasts_ns=LONG_NS) == [(*rig.open, select.EPOLLIN)]


@pytest.mark.parametrize(("first", "others"), [(PubComp, []), (PubRec, [PingResp()])])
def test_a_publisher_that_fails_does_not_disturb_what_others_were_told(stack, first, others):
    """What the one has not read yet is read while what the other has read waits."""
    rig = Rig(stack, qos=2, publishers=2, window=40, buffer_bytes=64)
    rig.until(rig.turn, lambda: rig.is_heard(40))
    rig.peers[0].say(*map(first, range(1, 17)), *map(PubRec, range(17, 21)))  # 16 are read at once
    rig.peers[0].end.shutdown(socket.SHUT_RD)
    rig.peers[1].say(*others, *map(PubRec, range(1, 5)))
    rig.counts[DELIVERED] = 40

    rig.until(rig.watch, lambda: rig.peers[1].hear().releases)

    assert len(rig.lost) == 1
    assert rig.peers[1].releases == [1, 2, 3, 4]


def test_an_order_ends_the_watch_before_anything_else_is_done(stack):
    rig, began_ns = Rig(stack), now_ns()
    rig.order_end.send(b"x")

    heard = rig.watch(pause_s=10.0, lasts_ns=LONG_NS)

    assert now_ns() - began_ns < LONG_NS
    assert (heard, rig.sent()) == ([(rig.orders_fd, select.EPOLLIN)], [0])


def test_what_there_is_room_for_after_the_end_is_not_sent(stack):
    rig = Rig(stack)

    assert rig.watch(pause_s=0.035, lasts_ns=30_000_000) == []
    assert rig.filling.watch(rig.open, Go(0, 0, now_ns()), 0.0, do=rig.do) is None
    assert rig.filling.watch(rig.open, Go(2 * now_ns(), 0, 3 * now_ns()), 0.0, do=rig.do) is None
    assert rig.sent() == [0]


def test_no_message_is_due_at_the_end_or_later():
    """However many there was room for just before."""
    for turn in range(30):
        with ExitStack() as stack:
            rig = Rig(stack, qos=0, publishers=3, window=9_000)
            end_ns = now_ns() + 1_000_000 + 20_000 * turn
            rig.filling.watch(rig.open, Go(0, 0, end_ns), 0.001, do=rig.do)
            for publisher in rig.publishers:
                publisher.record(everything=True)
            assert [intended for intended, _, _ in rig.rows.seen.values() if intended >= end_ns] == []


def framed(publisher):
    publisher.stream = WebSocketStream(publisher.stream, host="h", path="/", protocol="3.1.1")


UNUSUAL = {
    "list": ({"is_shared": False}, id),
    "topics": ({"topics": Topics("t/{topic}", "t/#", count=3)}, id),
    "long": ({"payload_bytes": 200_000}, id),
    "blocked": ({}, lambda publisher: publisher.outbox.put(memoryview(b"x"))),
    "framed": ({}, framed),
    "session": ({}, Publisher.keep_session),
    "hears": ({}, lambda publisher: setattr(publisher, "others", object())),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_is_left_to_the_ordinary_way(stack, what):
    given, change = UNUSUAL[what]
    rig = Rig(stack, publishers=2, **given)
    change(rig.publishers[1])

    assert rig.watch(lasts_ns=LONG_NS) is None
    assert rig.sent() == [0, 0]
    assert [received(peer.end) for peer in rig.peers] == [b"", b""]


@pytest.mark.parametrize("records", [False, True])
def test_ring_that_is_full_ends_a_watch_and_nothing_in_it_is_lost(stack, monkeypatch, records):
    monkeypatch.setattr(filling, "_RECORDED_TOGETHER", 0)
    rig = Rig(stack, qos=1, window=50)
    rig.counts[DELIVERED] = 1_000  # of others, so that there is more room than the ring has
    publisher, peer, sent = rig.publishers[0], rig.peers[0], []

    def watch():
        rig.watch(lasts_ns=LONG_NS)
        sent.append(publisher.following)
        peer.hear().say(*peer.owed)
        peer.owed.clear()
        if records:
            publisher.record(least=1)

    rig.until(watch, lambda: rig.seen[0] == 1_050)

    assert max(np.diff([0, *sent])) >= 128 == sent[0]
    assert (publisher.ring.rows.shape[1] < 1_050) is records
    rig.check()
