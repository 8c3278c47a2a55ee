"""The subscribing role beside a broker that is a bare socket."""

import select
import socket
import struct
import threading

import pyarrow.parquet as pq
import pytest

from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import ConnAck, Publish, SubAck
from brokerlab.load.role import Connections
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Connect, Connected, Progress, Subscribe, Subscribed, WorkerSpec
from brokerlab.load.subscribing import Subscribing
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Qos, Schedule, Workload

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"


@pytest.fixture
def subscribed(tmp_path):
    """A role with one subscriber at QoS 1, and the broker's end of its connection."""
    with socket.create_server((HOST, 0)) as server, select.epoll() as epoll:
        client = Client(0, "s0", "t")
        spec = WorkerSpec(
            node="subscribers/0", index=0, host=HOST, port=server.getsockname()[1], clients=(client,),
            workload=Workload(payload_bytes=16, schedule=Schedule(rate_per_s=1), qos=Qos.AT_LEAST_ONCE), fan_out=1,
            seed=1, run=tmp_path,
        )  # fmt: skip
        log = SessionLog(spec.node)
        said = []
        role = Subscribing(spec, Connections(epoll, log), log, said.append, [0, 0, 0], Progress((), (0,), (1,), 2))
        ends = []
        broker = threading.Thread(target=lambda: ends.append(greet(server)))
        broker.start()
        role.connect(Connect())
        drive(role, epoll, lambda: Connected() in said)
        role.subscribe(Subscribe())
        drive(role, epoll, lambda: any(isinstance(each, Subscribed) and each.granted[0].codes == (1,) for each in said))
        broker.join()
        with ends[0]:
            yield role, ends[0], tmp_path


def drive(role, epoll, is_done):
    """Does the worker's part: calls the role as its loop does."""
    deadline = now_ns() + 10_000_000_000
    while not is_done():
        assert now_ns() < deadline
        role.tick(now_ns())
        for fd, event in epoll.poll(0.05):
            role.ready(fd, event)


def greet(server):
    accepted, _ = server.accept()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.recv(4096)
    accepted.sendall(ConnAck().encode())
    accepted.recv(4096)
    accepted.sendall(SubAck(1, (1,)).encode())
    return accepted


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
