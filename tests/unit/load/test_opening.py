"""Opening many connections at once, beside brokers that are bare sockets: who gets in, who does not, what is noted."""

import contextlib
import errno
import select
import socket
import threading

import pytest

from brokerlab.errors import RunError, UserError
from brokerlab.load.alarm import now_ns
from brokerlab.load.opening import Openings, open_one
from brokerlab.load.packets import ConnAck, PingResp
from brokerlab.load.parser import Parser
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.study.values import ClientLife, Workload

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"


@contextlib.contextmanager
def broker(serve, *, backlog=128, host=HOST):
    """Calls `serve(socket)` for each connection, one after the other; gives its port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), backlog=backlog, family=family) as server:
        peers = []

        def accept():
            with contextlib.suppress(OSError):  # the server is closed at the end
                while True:
                    peer, _ = server.accept()
                    peers.append(peer)
                    serve(peer)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for peer in peers:
                peer.close()


def read_connect(peer):
    parser, packets = Parser(), []
    while not packets:
        packets = parser.feed(peer.recv(4096))
    return packets[0]


def spec_of(port, clients, tmp_path, *, host=HOST, addresses=()):
    workload = Workload(clients=ClientLife(addresses=addresses))
    return WorkerSpec(
        node="publishers/0", index=0, host=host, port=port, clients=clients, workload=workload, fan_out=1.0,
        seed=1, run=tmp_path,
    )  # fmt: skip


def clients_of(count):
    return tuple(Client(number, f"p{number}", f"t/{number}") for number in range(count))


class Opened:
    """Opens connections to a port until none is under way, and remembers how each ended."""

    def __init__(self, clients, port, tmp_path, *, timeout_s=5.0, at_once=64, due_ns=lambda _number: 0):
        self.sessions, self.failures, self.most = [], {}, 0
        self.log = SessionLog("publishers/0")
        with select.epoll() as epoll:
            openings = Openings(
                spec_of(port, clients, tmp_path), epoll, self.log, timeout_s=timeout_s, at_once=at_once,
                opened=self.sessions.append,
                failed=lambda client, failure: self.failures.update({client.name: failure}),
            )  # fmt: skip
            for client in clients:
                openings.ask(client, due_ns=due_ns(client.number))
            while openings:
                openings.tick(now_ns())
                self.most = max(self.most, sum(fd in openings for fd in range(1024)))
                for fd, _ in epoll.poll(0.02):
                    if fd in openings:
                        openings.ready(fd)
        for session in self.sessions:
            session.stream.close()

    def rows(self, event):
        return [row for row in self.log.batch().to_pylist() if row["event"].startswith(event)]


def accept_all(peer):
    read_connect(peer)
    peer.sendall(ConnAck().encode())


def test_all_clients_get_in_a_bounded_number_at_a_time(tmp_path):
    with broker(accept_all) as port:
        opened = Opened(clients_of(300), port, tmp_path, at_once=20)

    assert sorted(session.client.number for session in opened.sessions) == list(range(300))
    assert 1 <= opened.most <= 20
    assert {event: len(opened.rows(event)) for event in ("tcp", "connack", "connect")} == {
        "tcp": 300,
        "connack": 300,
        "connect": 0,
    }
    assert all(row["latency_ns"] > 0 and row["reason_code"] == 0 for row in opened.rows("connack"))


def test_an_answer_in_pieces_counts_when_it_is_whole_and_nothing_after_it_is_read(tmp_path):
    def piecewise(peer):
        read_connect(peer)
        for byte in ConnAck().encode():
            peer.sendall(bytes((byte,)))
        peer.sendall(PingResp().encode())

    with broker(piecewise) as port:
        (client,) = clients_of(1)
        session = open_one(client, spec_of(port, (client,), tmp_path), timeout_s=5, log=SessionLog("publishers/0"))
        with session.stream.socket as sock:
            sock.settimeout(5)
            assert sock.recv(16) == PingResp().encode()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_broker_with_an_address_of_ipv6_is_reached(tmp_path):
    with broker(accept_all, host="::1") as port:
        (client,) = clients_of(1)
        spec = spec_of(port, (client,), tmp_path, host="::1")
        session = open_one(client, spec, timeout_s=5, log=SessionLog("publishers/0"))

        assert session.stream.socket.family == socket.AF_INET6
        session.stream.close()


@pytest.mark.parametrize(
    ("host", "address", "said"),
    [
        (HOST, "198.51.100.1", f"from 198.51.100.1 to {HOST}, "),
        ("::1", HOST, "to ::1, which is of IPv6: 127.0.0.1 is not"),
    ],
)
def test_a_source_address_that_cannot_be_is_not_the_broker_s_fault(tmp_path, host, address, said):
    (client,) = clients_of(1)
    spec = spec_of(1, (client,), tmp_path, host=host, addresses=(address,))

    with pytest.raises(UserError, match=said):
        open_one(client, spec, timeout_s=5, log=SessionLog("publishers/0"))


def test_each_kind_of_failure_is_told_and_the_others_get_in(tmp_path):
    """Refused, closed, malformed and silent: the broker does what the client's name asks for."""

    def serve(peer):
        match read_connect(peer).client_id:
            case "p1":
                peer.sendall(ConnAck(5).encode())
            case "p2":
                peer.close()
            case "p3":
                peer.sendall(b"\x20\xff\xff\xff\xff\x01")
            case "p4":
                pass
            case _:
                peer.sendall(ConnAck().encode())

    with broker(serve) as port:
        opened = Opened(clients_of(6), port, tmp_path, timeout_s=0.5)

    assert sorted(session.client.name for session in opened.sessions) == ["p0", "p5"]
    assert {name: failure.message for name, failure in opened.failures.items()} == {
        "p1": "p1: the broker refused the connection: not authorized (code 0x05)",
        "p2": "p2: the broker closed the connection after CONNECT",
        "p3": "p3: no answer to CONNECT: the remaining length is longer than four bytes",
        "p4": "p4: no answer to CONNECT: nothing came in 0.5 s",
    }
    assert opened.failures["p4"].code == errno.ETIMEDOUT
    assert [row["reason_code"] for row in opened.rows("connack") if row["reason_code"]] == [5]
    assert len(opened.rows("connect failed: ")) == 3


def test_nobody_listens(tmp_path):
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    (client,) = clients_of(1)

    with pytest.raises(RunError, match=f"p0: no connection to {HOST}:{port}: Connection refused"):
        open_one(client, spec_of(port, (client,), tmp_path), timeout_s=5, log=SessionLog("publishers/0"))


def test_scheduled_connections_wait_for_their_time_and_note_how_late_they_began(tmp_path):
    start_ns = now_ns()
    with broker(accept_all) as port:
        opened = Opened(clients_of(10), port, tmp_path, due_ns=lambda number: start_ns + number * 20_000_000)

    rows = opened.rows("connect")
    assert [row["at_ns"] - row["latency_ns"] - start_ns for row in rows] == [20_000_000 * n for n in range(10)]
    assert [row["client"] for row in rows] == [f"p{number}" for number in range(10)]


def test_log_passes_its_rows_on_by_the_thousand():
    batches = []
    log = SessionLog("publishers/0", batches.append)
    (client,) = clients_of(1)
    for number in range(5000):
        log.add(client, "tcp", began_ns=0, at_ns=number)
    assert [batch.num_rows for batch in batches] == [4096]

    log.flush()

    assert [batch.num_rows for batch in batches] == [4096, 904]
    assert batches[1].to_pylist()[-1] == {
        "client": "p0",
        "node": "publishers/0",
        "event": "tcp",
        "at_ns": 4999,
        "latency_ns": 4999,
        "granted_qos": None,
        "reason_code": None,
    }
