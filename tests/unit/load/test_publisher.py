"""A publisher over a real socket pair: what it hands over, when it says so, what it records."""

import socket
import struct
import time

import numpy as np
import pytest

from brokerlab.load.alarm import now_ns
from brokerlab.load.messages import messages_of
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import LEVELS, PingReq, PingResp, PubAck, PubComp, Publish, PubRec, PubRel
from brokerlab.load.parser import Parser
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Client
from brokerlab.load.stream import TcpStream
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.values import Qos, Workload

pytestmark = pytest.mark.unit


class Rows:
    def __init__(self):
        self.seen = []

    def add(self, publisher, first_seq, intended_ns, sent_ns, acked_ns, payload_bytes):
        self.seen += zip(range(first_seq, first_seq + intended_ns.size), sent_ns > 0, acked_ns > 0, strict=True)


@pytest.fixture
def wires():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(2)
    with ours, theirs:
        yield ours, theirs


def make(sock, *, qos, rows=None, payload_bytes=32, **limits):
    client, workload = Client(5, "p5", "t/5"), Workload(payload_bytes=payload_bytes, qos=Qos(qos))
    messages = messages_of(client, workload, seed=1, level=LEVELS["3.1.1"])
    return Publisher(client, TcpStream(sock), messages, qos=qos, rows=rows or Rows(), **limits)


def answer(publisher, theirs, *packets):
    buffer = bytearray(4096)
    theirs.sendall(b"".join(packet.encode() for packet in packets))
    publisher.read(buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(4096, dtype=np.uint8))


def test_only_what_is_due_is_sent_and_each_message_once(wires):
    ours, theirs = wires
    publisher = make(ours, qos=0)
    publisher.follow(iter([np.array([10, 20, 30]), np.array([40])]))

    publisher.send_due(25)
    assert publisher.next_due_ns() == 30
    publisher.send_due(99)

    packets = Parser().feed(theirs.recv(65536))
    assert [int.from_bytes(packet.payload[:8], "little") for packet in packets] == [10, 20, 30, 40]
    assert publisher.next_due_ns() is None
    assert (publisher.unsent, publisher.in_flight) == (0, 0)


def test_qos_2_is_acknowledged_by_pubcomp_alone(wires):
    ours, theirs = wires
    rows = Rows()
    publisher = make(ours, qos=2, rows=rows)
    publisher.send(np.array([1, 2]))
    theirs.recv(65536)

    answer(publisher, theirs, PubRec(1), PubRec(2))
    assert publisher.in_flight == 2
    assert Parser().feed(theirs.recv(65536)) == [PubRel(1), PubRel(2)]
    answer(publisher, theirs, PubComp(1))
    assert publisher.in_flight == 1

    publisher.record(everything=True)
    assert rows.seen == [(0, True, True), (1, True, False)]


def test_an_acknowledgement_cut_in_two_counts_when_it_is_whole(wires):
    ours, theirs = wires
    publisher = make(ours, qos=1)
    publisher.send(np.array([1]))
    buffer = bytearray(64)
    arrays = np.frombuffer(buffer, dtype=np.uint8), np.empty(64, dtype=np.uint8)

    for piece in (PubAck(1).encode()[:3], PubAck(1).encode()[3:]):
        theirs.sendall(piece)
        publisher.read(buffer, *arrays)

    assert publisher.in_flight == 0


def test_the_ring_grows_and_keeps_every_message_until_it_is_recorded(wires):
    ours, theirs = wires
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    rows = Rows()
    publisher = make(ours, qos=1, rows=rows)
    publisher.send(np.arange(1, 301))
    answer(publisher, theirs, *(PubAck(number) for number in range(1, 101)))
    publisher.send(np.arange(301, 901))

    publisher.record(everything=True)
    assert [seq for seq, _, _ in rows.seen] == list(range(900))
    assert [seq for seq, _, is_acked in rows.seen if is_acked] == list(range(100))


def test_a_message_that_waits_for_the_window_is_released_by_the_acknowledgement(wires):
    ours, theirs = wires
    publisher = make(ours, qos=1, receive_maximum=2)
    long_ago = np.array([1, 2, 3, 4])
    publisher.follow(iter([long_ago]))

    publisher.send_due(10)
    assert len(Parser().feed(theirs.recv(65536))) == 2
    assert publisher.room() == 0
    answer(publisher, theirs, PubAck(1))
    publisher.send_due(10)
    assert len(Parser().feed(theirs.recv(65536))) == 1
    answer(publisher, theirs, PubAck(2), PubAck(3))
    publisher.send_due(10)

    intended, released, sent = publisher.record(everything=True)
    assert intended.tolist() == [1, 2, 3, 4]
    assert released[:2].tolist() == [1, 2]
    assert sent[0] < released[2] <= sent[2] < released[3] <= sent[3]


def test_identifiers_run_out_at_65535_in_flight(wires):
    ours, _ = wires
    publisher = make(ours, qos=1)
    publisher.follow(iter([np.arange(1, 70_001)]))
    ours.close()
    publisher.following = 65_535

    assert publisher.room() == 0
    publisher.send_due(10**9)  # would raise on the closed socket if it sent
    assert publisher.following == 65_535


def test_a_packet_is_handed_over_with_its_last_byte(wires):
    ours, theirs = wires
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    outbox, handed = Outbox(ours), []
    outbox.put(memoryview(bytes(1_000_000)), stride=1000)

    assert not outbox.push(lambda before, count, at_ns: handed.append(count))
    taken = sum(handed)
    assert 0 < taken < 1000
    received = 0
    while not outbox.push(lambda before, count, at_ns: handed.append(count)):
        received += len(theirs.recv(65536))

    assert sum(handed) == 1000
    assert outbox.is_empty


def test_a_long_message_that_the_kernel_takes_in_pieces_left_with_its_first_byte(wires):
    """Until its last byte is taken the reader is slow, not the generator: sent late, but without lag."""
    ours, theirs = wires
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    publisher = make(ours, qos=0, payload_bytes=100_000)
    due_ns = now_ns()
    publisher.follow(iter([np.array([due_ns, due_ns])]))

    publisher.send_due(due_ns)
    assert publisher.is_blocked
    began_by_ns = now_ns()
    time.sleep(0.05)
    slept_until_ns = now_ns()
    while not publisher.push():
        theirs.recv(65536)

    _, released, began = publisher.record(everything=True)
    assert released[0] == due_ns
    assert began[0] <= began_by_ns, "while it was sent, some 50 ms later"
    assert began[1] >= slept_until_ns, "the second waited behind it"
    assert began[1] - released[1] <= began_by_ns - due_ns, "for room in the socket, which is not the generator's time"


@pytest.mark.parametrize("late_ns", [0, 200_000_000], ids=["in-time", "late"])
def test_the_wait_for_a_full_socket_is_not_the_generators_time_and_what_it_was_late_before_is(wires, late_ns):
    ours, theirs = wires
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    publisher = make(ours, qos=0, payload_bytes=1_000)
    first_ns = now_ns() - late_ns
    due = first_ns + np.arange(100)
    publisher.follow(iter([due, due + late_ns + 1_000_000]))

    publisher.send_due(first_ns + 99)
    assert publisher.is_blocked
    tried_by_ns = now_ns()
    time.sleep(0.05)
    while publisher.has_more:
        if publisher.push():
            publisher.send_due(now_ns())
        else:
            theirs.recv(65536)

    intended, released, sent = publisher.record(everything=True)
    lag = sent - released
    assert intended.size == 200
    assert (lag[:100] >= late_ns).all()
    assert (lag[:100] <= tried_by_ns - due[0]).all()
    assert (sent - intended)[50:].min() > 45_000_000
    assert lag[100:].max() < 45_000_000, "due while the socket was full"


def test_a_closed_connection_is_an_error_of_the_connection(wires):
    ours, theirs = wires
    publisher = make(ours, qos=1)
    theirs.close()
    buffer = bytearray(64)

    with pytest.raises(ConnectionResetError):
        publisher.read(buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(64, dtype=np.uint8))


def another(wires_of_before):
    """The wires of the next connection."""
    for end in wires_of_before:
        end.close()
    ours, theirs = socket.socketpair()
    theirs.settimeout(2)
    return ours, theirs


def test_next_connection_sends_what_the_last_did_not_take_as_a_whole(wires):
    """The first message fills the socket in part; it and the one behind it are due again, with their numbers."""
    ours, theirs = wires
    rows = Rows()
    publisher = make(ours, qos=0, rows=rows)
    publisher.follow(iter([np.array([10, 20, 30, 40])]))
    publisher.send_due(15)
    theirs.recv(65536)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    filler = memoryview(bytes(1 << 20))
    publisher.outbox.put(filler)  # bytes that nobody counts
    publisher.send_due(35)
    assert publisher.is_blocked

    publisher.leave()
    assert (publisher.following, publisher.next_due_ns(), publisher.unsent) == (1, 20, 0)
    assert not publisher.is_blocked  # what was queued for the last connection is not waited for
    ours, theirs = another(wires)
    publisher.join(TcpStream(ours), receive_maximum=65_535, is_resumed=False)
    publisher.send_due(99)

    with ours, theirs:
        packets = Parser().feed(theirs.recv(65536))
    assert [int.from_bytes(packet.payload[:8], "little") for packet in packets] == [20, 30, 40]
    publisher.record(everything=True)
    assert rows.seen == [(0, True, False), (1, True, False), (2, True, False), (3, True, False)]


def test_clean_session_leaves_unacknowledged_messages_so(wires):
    ours, theirs = wires
    rows = Rows()
    publisher = make(ours, qos=1, rows=rows)
    publisher.send(np.array([1, 2]))
    theirs.recv(65536)
    answer(publisher, theirs, PubAck(2))

    publisher.leave()
    ours, theirs = another(wires)
    publisher.join(TcpStream(ours), receive_maximum=65_535, is_resumed=False)
    publisher.send(np.array([3]))

    with ours, theirs:
        (packet,) = Parser().feed(theirs.recv(65536))
        assert (packet.packet_id, packet.dup) == (3, False)
        answer(publisher, theirs, PubAck(3))
    publisher.record(everything=True)
    assert rows.seen == [(0, True, False), (1, True, True), (2, True, True)]
    assert publisher.resent == 0


def test_who_leaves_at_qos_0_has_the_broker_answer_behind_all_that_was_sent(wires):
    ours, theirs = wires
    publisher = make(ours, qos=0)
    publisher.send(np.array([1, 2]))

    publisher.ask()

    with ours, theirs:
        assert [type(packet) for packet in Parser().feed(theirs.recv(65536))] == [Publish, Publish, PingReq]
        assert publisher.is_asking
        answer(publisher, theirs, PingResp())
        assert not publisher.is_asking


def parsed(theirs):
    return Parser(5).feed(theirs.recv(65536))


def test_each_connection_is_told_the_topic_again_where_it_has_an_alias(wires):
    """MQTT 5.0 section 3.3.2.3.4; what was sent before is sent again in full, what was due or built is told anew."""
    ours, theirs = wires
    client, workload = Client(5, "p5", "t/5"), Workload(protocol="5.0", qos=Qos(1), mqtt5=Mqtt5(topic_alias=True))
    messages = messages_of(client, workload, seed=1, level=5, aliases=1)
    publisher = Publisher(client, TcpStream(ours), messages, qos=1, rows=Rows(), level=5)
    publisher.keep_session()
    publisher.follow(iter([np.array([10, 20, 30, 40, 50])]))
    publisher.send_due(25)
    publisher.prepare()
    assert [packet.topic for packet in parsed(theirs)] == ["t/5", ""]

    publisher.leave()
    ours, theirs = another(wires)
    publisher.join(TcpStream(ours), receive_maximum=65_535, is_resumed=True)
    again = parsed(theirs)
    publisher.send_due(45)
    anew = parsed(theirs)
    publisher.send_due(99)

    with ours, theirs:
        assert [(packet.topic, packet.dup, packet.packet_id) for packet in again] == [
            ("t/5", True, 1),
            ("t/5", True, 2),
        ]
        assert [(packet.topic, packet.packet_id) for packet in anew] == [("t/5", 3), ("", 4)]
        assert [(packet.topic, packet.packet_id) for packet in parsed(theirs)] == [("", 5)]


def test_session_that_lasts_is_taken_up_with_dup_and_releases(wires):
    """MQTT 3.1.1 section 4.4: the first message is through, the second was received, the third perhaps not."""
    ours, theirs = wires
    rows = Rows()
    publisher = make(ours, qos=2, rows=rows)
    publisher.keep_session()
    publisher.send(np.array([1, 2, 3]))
    theirs.recv(65536)
    answer(publisher, theirs, PubRec(1), PubRec(2), PubComp(1))

    publisher.leave()
    ours, theirs = another(wires)
    publisher.join(TcpStream(ours), receive_maximum=65_535, is_resumed=True)

    with ours, theirs:
        release, repeated = Parser().feed(theirs.recv(65536))
        assert release == PubRel(2)
        assert (repeated.packet_id, repeated.dup, repeated.qos) == (3, True, 2)
        answer(publisher, theirs, PubComp(2), PubRec(3), PubComp(3))
    publisher.record(everything=True)
    assert rows.seen == [(0, True, True), (1, True, True), (2, True, True)]
    assert (publisher.resent, publisher.in_flight) == (2, 0)


@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledgements_that_arrived_before_a_reset_are_read(qos):
    """The publisher notices the end when it writes, before it has read what still lies there."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        ours.setblocking(False)
        rows, buffer = Rows(), bytearray(4096)
        publisher = make(ours, qos=qos, rows=rows)
        publisher.send(np.array([1, 2, 3]))
        answers = [PubAck] if qos == 1 else [PubRec, PubComp]
        theirs.sendall(b"".join(kind(packet_id).encode() for packet_id in (1, 2) for kind in answers))
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()  # with a reset
        with pytest.raises(ConnectionError) as ended:
            publisher.ping(now_ns() + 1)

        publisher.read_rest(ended.value, buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(4096, dtype=np.uint8))
        publisher.record(everything=True)

    assert [is_acked for _, _, is_acked in rows.seen] == [True, True, False]
