"""How exactly publishers that also hear know when a message came, and how they go on over another connection."""

import socket
import time
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest

from brokerlab.load.ears import Ear, Ears
from brokerlab.load.echoing import Answers, Device
from brokerlab.load.messages import messages_of
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import PingResp, PubAck, Publish, PubRel, SubAck, Subscribe
from brokerlab.load.parser import Parser
from brokerlab.load.publisher import Publisher
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.load.spec import Subscribe as Order
from brokerlab.load.stream import TcpStream
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Qos, Workload

pytestmark = pytest.mark.unit
HEARD = Publish("t", bytes(16)).encode()
RELEASED = Publish("t", bytes(16), 2, 9).encode()


class Rows:
    def add(self, *_columns):
        """What is published is not looked at here."""


def connected():
    """Both ends of a connection over real TCP, the first as a client has it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = TcpStream(socket.create_connection(listener.getsockname()))
        return stream, listener.accept()[0]


@contextmanager
def loop(folder):
    """A publisher that hears what the test sends over real TCP, and its ears."""
    client, workload = Client(0, "p0", "t", hears="t"), Workload(qos=Qos(1))
    stream, broker = connected()
    spec = WorkerSpec("loops/0", 0, "", 0, (client,), workload, 1.0, 1, folder, hears_qos=1)
    ears = Ears(spec, SessionLog("loops/0", lambda _batch: None), note=lambda _: None, subscribed=lambda _: None)
    messages = messages_of(client, workload, seed=1, level=4)
    publisher = Publisher(client, stream, messages, qos=1, rows=Rows(), level=4)
    stream.stamp()
    publisher.others = Ear(ears, publisher)
    broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with broker:
        yield publisher, ears, broker
    stream.close()


@pytest.mark.parametrize(
    ("sent", "is_exact"),
    [
        (HEARD, True),
        (PubAck(1).encode() + HEARD, True),
        (HEARD + PubAck(1).encode(), False),
        (HEARD + PingResp().encode(), False),
        (HEARD + HEARD[:5], False),
        (RELEASED + PubRel(9).encode(), False),
        (RELEASED + RELEASED, False),
    ],
)
def test_only_the_last_packet_of_a_read_has_its_own_time(tmp_path, sent, is_exact):
    """What comes behind it in the same read may have come later, and the kernel tells of the last byte alone."""
    with loop(tmp_path) as (publisher, ears, broker):
        publisher.send(np.array([time.monotonic_ns()]))
        broker.sendall(sent)
        time.sleep(0.05)
        buffer = bytearray(4096)
        publisher.read(buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(4096, dtype=np.uint8))
        ears.close()

    (path,) = RunDirectory(tmp_path).files("deliveries")
    resolutions = pq.read_table(path)["resolution_ns"].to_pylist()
    assert len(resolutions) == 1
    assert (resolutions[0] == 0) == is_exact


@pytest.mark.parametrize("measured", [True, False])
def test_what_waited_to_be_read_in_the_measure_phase_is_its_receive_lag(tmp_path, measured):
    with loop(tmp_path) as (publisher, ears, broker):
        begin_ns = time.monotonic_ns() + (0 if measured else 60_000_000_000)
        ears.go(Go(begin_ns, begin_ns, begin_ns + 60_000_000_000), Opened(publisher))
        publisher.send(np.array([time.monotonic_ns()]))
        broker.sendall(HEARD)
        time.sleep(0.6)  # the backlog is looked at twice a second
        hear(publisher)
        seen = ears.watched()
        ears.close()

    if not measured:
        assert seen == {"receive_lag_buckets": (), "receive_lag_max_ns": 0, "backlog_bytes": None}
        return
    assert seen["receive_lag_max_ns"] >= 590_000_000
    assert [count for _, count in seen["receive_lag_buckets"]] == [1]
    assert seen["backlog_bytes"] >= len(HEARD)


class Opened:
    """What holds the connections of a worker, as far as its ears ask."""

    def __init__(self, publisher):
        self.open = {publisher.stream.fileno(): publisher}


def hear(publisher):
    buffer = bytearray(1 << 16)
    publisher.read(buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(1 << 16, dtype=np.uint8))


class Devices:
    """What a role would do for the one device of a worker."""

    def __init__(self, folder, stream):
        client = Client(0, "d0", "reply", hears="t")
        spec = WorkerSpec("devices/0", 0, "", 0, (client,), Workload(qos=Qos(0)), 1.0, 1, folder)
        self.ears = Ears(spec, SessionLog("devices/0", lambda _batch: None), note=lambda _: None, subscribed=print)
        answers = Answers(client, qos=0, level=4, payload_bytes=16, note=lambda _: None)
        self.publisher = Publisher(client, stream, answers, qos=0, rows=Rows(), level=4)
        self.publisher.others = Ear(self.ears, self.publisher, hearer=Device(self.publisher, answers, level=4))
        self.open = {stream.fileno(): self.publisher}

    def ready(self, fd, _event):
        self.open[fd].push()


def test_a_device_that_comes_back_subscribes_and_then_answers_what_it_could_not(tmp_path):
    """Its socket has no room when messages 2 and 3 come; over the next connection nothing of them is missing."""
    stream, broker = connected()
    devices = Devices(tmp_path, stream)
    publisher = devices.publisher
    devices.ears.subscribe(Order(), devices)
    (asked,) = Parser().feed(broker.recv(1024))
    broker.sendall(SubAck(asked.packet_id, (0,)).encode() + Publish("t", b"1" * 16).encode())
    hear(publisher)
    assert broker.recv(1024) == Publish("reply", b"1" * 16).encode()
    publisher.outbox = Outbox(Full(), handed=1)
    broker.sendall(b"".join(Publish("t", each * 16).encode() for each in (b"2", b"3")))
    hear(publisher)
    assert publisher.is_blocked

    publisher.leave()
    assert not publisher.has_more
    again, broker_again = connected()
    publisher.join(again, receive_maximum=65_535, is_resumed=False)

    said = Parser().feed(broker_again.recv(1024))
    assert said == [
        Subscribe(1, (("t", 0),)), Publish("reply", b"2" * 16), Publish("reply", b"3" * 16),
    ]  # fmt: skip
    assert (publisher.following, publisher.in_flight, publisher.still_due()) == (3, 0, 0)
    assert publisher.messages.payload_bytes(0, 3).tolist() == [16, 16, 16]
    devices.ears.close()
    for each in (stream, broker, again, broker_again):
        each.close()


class Full:
    """A socket that takes nothing."""

    def send(self, _data):
        raise BlockingIOError
