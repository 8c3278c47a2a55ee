"""How exactly publishers that also hear know when a message came."""

import socket
import time
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest

from brokerlab.load.ears import Ear, Ears
from brokerlab.load.messages import messages_of
from brokerlab.load.packets import PingResp, PubAck, Publish, PubRel
from brokerlab.load.publisher import Publisher
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.load.stream import TcpStream
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Qos, Workload

pytestmark = pytest.mark.unit
HEARD = Publish("t", bytes(16)).encode()
RELEASED = Publish("t", bytes(16), 2, 9).encode()


class Rows:
    def add(self, *_columns):
        """What is published is not looked at here."""


@contextmanager
def loop(folder):
    """A publisher that hears what the test sends over real TCP, and its ears."""
    client, workload = Client(0, "p0", "t", hears="t"), Workload(qos=Qos(1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = TcpStream(socket.create_connection(listener.getsockname()))
        broker, _ = listener.accept()
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
