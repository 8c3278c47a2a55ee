"""What MQTT 5.0 adds for the clients of a run: reasons of refusal, limits of the broker, and its goodbye."""

import contextlib
import socket
import threading

import numpy as np
import pyarrow as pa
import pytest

from brokerlab.errors import RunError
from brokerlab.load.alarm import now_ns
from brokerlab.load.messages import messages_of
from brokerlab.load.opening import open_one
from brokerlab.load.packets import ConnAck, Connect, Disconnect, PingResp, PubAck, PubComp, Publish, PubRec, PubRel
from brokerlab.load.parser import Parser
from brokerlab.load.properties import MAXIMUM_QOS, RECEIVE_MAXIMUM, SERVER_KEEP_ALIVE, USER_PROPERTY
from brokerlab.load.publisher import Publisher
from brokerlab.load.rows import PublicationRows
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.load.stream import TcpStream
from brokerlab.study.values import Qos, Workload

pytestmark = pytest.mark.unit
CLIENT = Client(0, "p0", "t/0")


class Written:
    """Stands where the run directory's writer stands."""

    def __init__(self):
        self.batches = []

    def write(self, made):
        self.batches.append(made())

    def column(self, name):
        return pa.Table.from_batches(self.batches).column(name).to_pylist()


@pytest.fixture
def wires():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(2)
    with ours, theirs:
        yield ours, theirs


def make(sock, *, qos, written, receive_maximum=65_535):
    rows = PublicationRows(written, topics={0: ["t/0"]}, qos=qos)
    messages = messages_of(CLIENT, Workload(payload_bytes=32, qos=Qos(qos)), seed=1, level=5)
    publisher = Publisher(
        CLIENT, TcpStream(sock), messages, qos=qos, rows=rows, level=5, receive_maximum=receive_maximum
    )
    return publisher, rows


def answer(publisher, theirs, *packets):
    buffer = bytearray(4096)
    theirs.sendall(b"".join(packet.encode(5) for packet in packets))
    publisher.read(buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(4096, dtype=np.uint8))


@pytest.mark.parametrize(("qos", "refusal"), [(1, PubAck), (2, PubRec)])
def test_refused_message_is_finished_with_its_reason_and_not_acknowledged(wires, qos, refusal):
    ours, theirs = wires
    written = Written()
    publisher, rows = make(ours, qos=qos, written=written)
    publisher.send(np.array([1]))
    assert [type(packet) for packet in Parser(5).feed(theirs.recv(65536))] == [Publish]

    answer(publisher, theirs, refusal(1, 0x97, ((USER_PROPERTY, ("why", "quota")),)))

    assert publisher.in_flight == 0
    publisher.record(everything=True)
    rows.flush()
    assert (written.column("acked_ns"), written.column("reason_code")) == ([None], [0x97])
    ours.close()
    assert theirs.recv(1) == b""  # no PUBREL for a refused message


def test_a_release_that_the_broker_knows_nothing_of_is_a_refusal_within_a_connection(wires):
    """Section 3.7.2.1: outside of recovery the two do not agree on the session, so nobody knows what became of it."""
    ours, theirs = wires
    written = Written()
    publisher, rows = make(ours, qos=2, written=written)
    publisher.send(np.array([1, 2]))

    answer(publisher, theirs, PubRec(1), PubComp(1, 0x92), PubRec(2), PubComp(2))

    publisher.record(everything=True)
    rows.flush()
    assert [at_ns is not None for at_ns in written.column("acked_ns")] == [False, True]
    assert written.column("reason_code") == [0x92, None]
    assert publisher.seen.tolist() == [0, 2, 2, 0, 1]


@pytest.mark.parametrize("is_unheard", [False, True])
def test_a_release_that_is_sent_again_may_be_known_no_more(wires, is_unheard):
    """Section 3.7.2.1: no error during recovery. PUBCOMP was lost with the connection; only what is released is done.

    The first message was received before, the second not: what its own PUBREL meets with is no matter of recovery.
    """
    ours, theirs = wires
    written = Written()
    publisher, rows = make(ours, qos=2, written=written)
    publisher.keep_session()
    publisher.send(np.array([1, 2]))
    answer(publisher, theirs, PubRec(1, 0x10 if is_unheard else 0))

    publisher.leave()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        publisher.join(TcpStream(ours), receive_maximum=9, is_resumed=True)
        assert [type(packet) for packet in Parser(5).feed(theirs.recv(65536))] == [PubRel, Publish]
        answer(publisher, theirs, PubComp(1, 0x92), PubRec(2), PubComp(2, 0x92))

    publisher.record(everything=True)
    rows.flush()
    assert [at_ns is not None for at_ns in written.column("acked_ns")] == [True, False]
    assert written.column("reason_code") == [0x10 if is_unheard else None, 0x92]
    assert publisher.seen.tolist() == [0, 2, 2, 0, 1]


def test_recovery_is_over_where_the_broker_has_lost_the_session(wires):
    """On the third connection the message is sent anew; until then nothing is known of it, and no reason either."""
    ours, theirs = wires
    written = Written()
    publisher, rows = make(ours, qos=2, written=written)
    publisher.keep_session()
    publisher.send(np.array([1, 2]))
    answer(publisher, theirs, PubRec(1), PubRec(2))
    for is_resumed in (True, False):
        publisher.leave()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            publisher.join(TcpStream(ours), receive_maximum=9, is_resumed=is_resumed)
            assert {type(packet) for packet in Parser(5).feed(theirs.recv(65536))} == {
                PubRel if is_resumed else Publish
            }
            if not is_resumed:
                answer(publisher, theirs, PubComp(1, 0x92))

    publisher.record(everything=True)
    rows.flush()
    assert (written.column("acked_ns"), written.column("reason_code")) == ([None, None], [0x92, None])


def test_a_release_that_is_sent_again_and_not_answered_has_no_reason(wires):
    ours, theirs = wires
    written = Written()
    publisher, rows = make(ours, qos=2, written=written)
    publisher.keep_session()
    publisher.send(np.array([1]))
    answer(publisher, theirs, PubRec(1))
    publisher.leave()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        publisher.join(TcpStream(ours), receive_maximum=9, is_resumed=True)

    publisher.record(everything=True)
    rows.flush()
    assert (written.column("acked_ns"), written.column("reason_code")) == ([None], [None])


@pytest.mark.parametrize(
    ("qos", "answers"),
    [(1, [PubAck(1, 0x10), PubAck(2)]), (2, [PubRec(1, 0x10), PubRec(2), PubComp(1), PubComp(2)])],
)
def test_a_message_that_nobody_hears_is_acknowledged_and_keeps_its_reason(wires, qos, answers):
    """Sections 3.4.2.1 and 3.5.2.1."""
    ours, theirs = wires
    written = Written()
    publisher, rows = make(ours, qos=qos, written=written)
    publisher.send(np.array([1, 2, 3]))
    theirs.recv(65536)

    for packet in answers:
        assert publisher.in_flight > 1
        answer(publisher, theirs, packet)

    assert publisher.in_flight == 1
    publisher.record(everything=True)
    rows.flush()
    first, second, third = written.column("acked_ns")
    assert 0 < first <= second <= now_ns()
    assert third is None
    assert written.column("reason_code") == [0x10, None, None]
    assert publisher.seen.tolist()[3:] == [0, 0]


def test_who_hears_a_message_that_is_sent_again_is_asked_again(wires):
    """The first PUBREC told of nobody, and the session did not last: what counts is the answer to the second."""
    ours, theirs = wires
    written = Written()
    publisher, rows = make(ours, qos=2, written=written)
    publisher.keep_session()
    publisher.send(np.array([1]))
    answer(publisher, theirs, PubRec(1, 0x10))

    publisher.leave()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        publisher.join(TcpStream(ours), receive_maximum=9, is_resumed=False)
        answer(publisher, theirs, PubRec(1), PubComp(1))

    publisher.record(everything=True)
    rows.flush()
    assert written.column("acked_ns") != [None]
    assert (written.column("reason_code"), publisher.resent) == ([None], 1)


def test_publisher_keeps_to_the_receive_maximum_of_the_broker(wires):
    ours, theirs = wires
    publisher, _ = make(ours, qos=1, written=Written(), receive_maximum=3)
    publisher.follow(iter([np.arange(1, 6)]))

    publisher.send_due(99)
    first = Parser(5).feed(theirs.recv(65536))
    answer(publisher, theirs, PubAck(1), PubAck(2, 0x10))
    publisher.send_due(99)
    second = Parser(5).feed(theirs.recv(65536))

    assert [packet.packet_id for packet in first] == [1, 2, 3]
    assert [packet.packet_id for packet in second] == [4, 5]


def test_goodbye_of_the_broker_is_told_with_its_reason(wires):
    ours, theirs = wires
    publisher, _ = make(ours, qos=0, written=Written())

    with pytest.raises(ConnectionError, match=r"the broker disconnected: server shutting down \(0x8b\)"):
        answer(publisher, theirs, PingResp(), Disconnect(0x8B))


@contextlib.contextmanager
def broker_that_answers(packet):
    """Reads one CONNECT of MQTT 5.0 and answers it; gives its port and what it read."""
    read = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            peer, _ = server.accept()
            with peer:
                parser = Parser(5)
                while not read:
                    read.extend(parser.feed(peer.recv(4096)))
                peer.sendall(packet.encode(5))
                peer.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], read
        finally:
            thread.join(5)


def spec_of(port, tmp_path, *, qos=1):
    return WorkerSpec(
        node="publishers/0", index=0, host="127.0.0.1", port=port, clients=(CLIENT,),
        workload=Workload(payload_bytes=32, qos=Qos(qos), protocol="5.0"), fan_out=1.0, seed=1, run=tmp_path,
    )  # fmt: skip


def test_limits_of_the_broker_are_taken_and_recorded(tmp_path):
    said = ((RECEIVE_MAXIMUM, 20), (SERVER_KEEP_ALIVE, 30))
    log = SessionLog("publishers/0")
    with broker_that_answers(ConnAck(properties=said)) as (port, read):
        session = open_one(CLIENT, spec_of(port, tmp_path), timeout_s=2, log=log)
        session.stream.close()

    assert (session.level, session.receive_maximum, session.keep_alive_s) == (5, 20, 30)
    assert isinstance(read[0], Connect)
    assert read[0].clean_session
    assert [row["event"] for row in log.batch().to_pylist()] == [
        "tcp",
        "connack",
        "connack properties: receive maximum 20, server keep alive 30",
    ]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (ConnAck(0x87), r"refused the connection: not authorized \(code 0x87\)"),
        (ConnAck(properties=((MAXIMUM_QOS, 1),)), "takes QoS 1 at most, and the run needs QoS 2"),
    ],
)
def test_broker_that_does_not_take_the_run_is_told(tmp_path, said, message):
    log = SessionLog("publishers/0")
    with broker_that_answers(said) as (port, _), pytest.raises(RunError, match=message):
        open_one(CLIENT, spec_of(port, tmp_path, qos=2), timeout_s=2, log=log)

    assert [row["reason_code"] for row in log.batch().to_pylist() if row["event"] == "connack"] == [said.return_code]
