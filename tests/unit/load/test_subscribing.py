"""The subscribing role beside a broker that is a bare socket."""

import itertools
import select
import socket
import struct
import threading
import time

import pyarrow.parquet as pq
import pytest
from subscribing_rig import subscribed_at

from brokerlab.load.alarm import now_ns
from brokerlab.load.gather import LONGEST_S, SHORTEST_S
from brokerlab.load.pace import BUFFER_BYTES
from brokerlab.load.packets import PubComp, Publish, PubRec, PubRel
from brokerlab.load.spec import Go
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Arrivals, Qos, Schedule, Workload

pytestmark = pytest.mark.unit
LITTLE_BYTES = 8 << 10  # the room of one subscriber among others


@pytest.fixture
def subscribed(tmp_path):
    """One subscriber at QoS 1 of a load that keeps a schedule."""
    workload = Workload(payload_bytes=16, schedule=Schedule(rate_per_s=1), qos=Qos.AT_LEAST_ONCE)
    with subscribed_at(workload, tmp_path, [0, 0, 0]) as (role, _, (end,)):
        yield role, end, tmp_path


def test_what_arrived_before_the_connection_was_reset_is_delivered(subscribed):
    """The subscriber notices the end when it writes (here a ping), before it has read what still lies there."""
    role, broker, folder = subscribed
    for number in (1, 2, 3):
        broker.sendall(Publish("t", bytes(16), 1, number).encode())
    broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    broker.close()  # with a reset

    for seconds in (20, 40):  # each client is pinged in its turn of a round, which lasts a third of the keep-alive
        role.tick(now_ns() + seconds * 1_000_000_000)
    stopped = role.close()

    assert stopped.messages == 3
    assert len(stopped.closed_by_broker) == 1
    (file,) = RunDirectory(folder).files("deliveries")
    assert pq.read_table(file).num_rows == 3


def test_at_qos_2_the_window_waits_until_the_broker_has_released(tmp_path):
    workload = Workload(payload_bytes=16, schedule=Schedule(Arrivals.SATURATE, window=10), qos=Qos.EXACTLY_ONCE)
    counts = [0, 0, 10]
    with subscribed_at(workload, tmp_path, counts) as (role, drive_until, (broker, *_)):
        broker.settimeout(10)
        seen = []
        for sent, answer in (
            (Publish("t", bytes(16), 2, 1), PubRec(1)), (Publish("t", bytes(16), 2, 2), PubRec(2)),
            (PubRel(1), PubComp(1)), (PubRel(2), PubComp(2)),
        ):  # fmt: skip
            broker.sendall(sent.encode())
            drive_until(lambda: select.select([broker], [], [], 0)[0])
            assert broker.recv(16) == answer.encode()
            seen.append(counts[0])
        assert role.close().messages == 2

    assert seen == [0, 0, 1, 2]


def test_a_message_with_a_release_behind_it_does_not_have_its_own_stamp(tmp_path):
    """What is read at once has the stamp of its last byte, which is none of the message's here."""
    workload = Workload(payload_bytes=16, schedule=Schedule(rate_per_s=1), qos=Qos.EXACTLY_ONCE)
    counts = [0, 0, 0]
    with subscribed_at(workload, tmp_path, counts) as (role, drive_until, (broker, *_)):
        for number, behind in ((1, b""), (2, PubRel(1).encode())):
            broker.sendall(Publish("t", bytes(16), 2, number).encode())
            time.sleep(0.02 if behind else 0)  # nobody reads meanwhile
            broker.sendall(behind)
            drive_until(lambda number=number: counts[0] == number)
        role.close()

    (file,) = RunDirectory(tmp_path).files("deliveries")
    alone, followed = pq.read_table(file)["resolution_ns"].to_pylist()
    assert alone == 0
    assert followed >= 20_000_000


def test_a_look_takes_what_found_no_room_in_the_receive_buffer(tmp_path):
    """Otherwise the sleeps between looks, of which each would take one buffer, are the limit of large messages."""
    messages, size = 200, 16_384
    workload = Workload(payload_bytes=size, schedule=Schedule(Arrivals.SATURATE, window=messages), qos=Qos.AT_MOST_ONCE)
    counts, looks = [0, 0, messages], []
    with subscribed_at(workload, tmp_path, counts) as (role, drive_until, (broker, *_)):
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * messages * size)
        broker.sendall(Publish("t", bytes(size)).encode() * messages)
        drive_until(lambda: looks.append(counts[0]) or counts[0] == messages)
        role.close()

    assert len(looks) - 1 < messages * size / (256 << 10)  # which is what the buffer has room for, at most


def test_at_a_pace_a_look_takes_a_buffer_and_what_was_held_back_is_as_old_as_it_may_be(tmp_path):
    messages = 8192
    workload = Workload(payload_bytes=64, schedule=Schedule(Arrivals.SATURATE, window=messages), qos=Qos.AT_MOST_ONCE)
    counts, looks = [0, 0, messages], []
    packet = Publish("t", bytes(64)).encode()
    with subscribed_at(workload, tmp_path, counts) as (role, drive_until, (broker, *_)):
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * messages * len(packet))
        sent_ns = now_ns()
        broker.sendall(packet * messages)
        drive_until(lambda: looks.append(counts[0]) or counts[0] == messages)
        stopped = role.close()

    steps = {later - earlier for earlier, later in itertools.pairwise(looks)}
    assert len(steps) > 1
    assert max(steps) * len(packet) < 4 * BUFFER_BYTES
    assert stopped.reading_pause_s is not None
    assert SHORTEST_S <= stopped.reading_pause_s <= LONGEST_S
    (file,) = RunDirectory(tmp_path).files("deliveries")
    rows = pq.read_table(file, columns=["received_ns", "resolution_ns"]).to_pydict()
    held_ns = max(
        resolution - (received - sent_ns)
        for received, resolution in zip(rows["received_ns"], rows["resolution_ns"], strict=True)
    )
    last = rows["received_ns"][-1] - rows["resolution_ns"][-1]
    assert held_ns > 0  # the first of them was seen to be missing before they were sent
    assert last <= sent_ns  # and the last of them may be as old


def test_one_of_several_reads_on_through_little_room_and_what_was_held_back_is_as_old_as_it_may_be(tmp_path):
    messages = 8192
    workload = Workload(payload_bytes=64, schedule=Schedule(Arrivals.SATURATE, window=messages), qos=Qos.AT_MOST_ONCE)
    counts, looks = [0, 0, messages], []
    packet = Publish("t", bytes(64)).encode()
    with subscribed_at(workload, tmp_path, counts, subscribers=2) as (role, drive_until, (broker, *_)):
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * messages * len(packet))
        sent_ns = now_ns()
        broker.sendall(packet * messages)
        drive_until(lambda: looks.append(counts[0]) or counts[0] == messages)
        stopped = role.close()

    assert looks[1] * len(packet) > 2 * LITTLE_BYTES
    assert stopped.reading_pause_s is None
    (file,) = RunDirectory(tmp_path).files("deliveries")
    rows = pq.read_table(file, columns=["received_ns", "resolution_ns"]).slice(0, looks[1]).to_pydict()
    for received, resolution in zip(rows["received_ns"], rows["resolution_ns"], strict=True):
        assert received - resolution <= sent_ns  # the broker had all of them before the look


def test_a_new_order_ends_the_look_at_the_sockets_of_the_last(tmp_path):
    """A search gives dozens of orders, and threads of all of them would look beside what is measured."""
    with subscribed_at(Workload(), tmp_path, [0, 0, 64]) as (role, _, _):
        for number in range(3):
            role.go(Go(1, 2, 3, number, 5.0))
        looking = [each.name for each in threading.enumerate()].count("backlog")
        stock = role.stock()
        role.close()

    assert looking == 1
    assert stock.backlog_bytes is None  # nobody looked in so short a time
    assert "backlog" not in {each.name for each in threading.enumerate()}
