"""A broker's stream that ends in the middle of a packet, or goes on with what is none: what came before it counts."""

import socket

import numpy as np
import pyarrow.parquet as pq
import pytest
from subscribing_rig import subscribed_at

from brokerlab.load import wire
from brokerlab.load.messages import messages_of
from brokerlab.load.packets import LEVELS, PubAck, PubComp, Publish, PubRec
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Client
from brokerlab.load.stream import TcpStream
from brokerlab.record.directory import RunDirectory
from brokerlab.study.script import MALFORMED
from brokerlab.study.values import Qos, Schedule, Workload

pytestmark = pytest.mark.unit
TOPIC, PAYLOAD_BYTES, WHOLE = "t", 20, 3
PACKET_BYTES = (
    2 + 2 + len(TOPIC) + PAYLOAD_BYTES
)  # at QoS 0: fixed header, topic, payload, which begins with 16 of identity
SAID = {
    "qos": "a malformed packet: there is no QoS 3",
    "length": "a malformed packet: the remaining length is longer than four bytes",
    "topic": "a malformed packet: the packet ends 7 bytes too early",
    "pubrel": "a malformed packet: the flags of the fixed header are 0b0000, not 0b0010",
    "puback": "a malformed packet: the flags of the fixed header are 0b0001, not 0b0000",
    "unknown": "a packet of type 4, which has no place here",
    "type-0": "a malformed packet: there is no packet type 0",
    "type-15": "a malformed packet: there is no packet type 15",
}
TO_PUBLISHERS = [kind for kind in MALFORMED if kind != "unknown"]


def message(seq, *, qos):
    """Of publisher 5, due at 1 ns."""
    identity = (1).to_bytes(8, "little") + (5).to_bytes(4, "little") + seq.to_bytes(4, "little")
    return Publish(TOPIC, identity.ljust(PAYLOAD_BYTES, b"."), qos, seq + 1 if qos else None).encode()


def heard_by_a_subscriber(stream, folder, *, qos, closes):
    """The sequence numbers of the rows that a stream comes to, and what the run says of the connection."""
    workload = Workload(payload_bytes=PAYLOAD_BYTES, schedule=Schedule(rate_per_s=1), qos=Qos(qos))
    with subscribed_at(workload, folder, [0, 0, 0]) as (role, drive_until, (end,)):
        end.sendall(stream)
        if closes:
            end.shutdown(socket.SHUT_WR)
        drive_until(lambda: role.stock().closed_by_broker)
        (said,) = role.close().closed_by_broker
    files = RunDirectory(folder).files("deliveries")
    return [seq for file in files for seq in pq.read_table(file)["seq"].to_pylist()], said


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_that_is_cut_at_any_byte_is_none_and_those_before_it_count(tmp_path, qos):
    whole = b"".join(message(seq, qos=qos) for seq in range(WHOLE))
    last = message(WHOLE, qos=qos)
    assert len(last) == PACKET_BYTES + (2 if qos else 0)

    for count in range(len(last)):
        seqs, said = heard_by_a_subscriber(whole + last[:count], tmp_path / str(count), qos=qos, closes=True)

        assert (seqs, said) == ([0, 1, 2], "s0: the broker closed the connection")


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("kind", MALFORMED)
def test_a_subscriber_says_what_is_wrong_and_counts_nothing_behind_it(tmp_path, kind, qos):
    whole = b"".join(message(seq, qos=qos) for seq in range(WHOLE))

    seqs, said = heard_by_a_subscriber(
        whole + MALFORMED[kind] + message(WHOLE, qos=qos), tmp_path, qos=qos, closes=False
    )

    assert (seqs, said) == ([0, 1, 2], f"s0: the broker sent {SAID[kind]}")


class Rows:
    def __init__(self):
        self.acknowledged = []

    def add(self, _publisher, first_seq, intended_ns, _sent_ns, acked_ns, _payload_bytes):
        self.acknowledged += [first_seq + at for at in range(intended_ns.size) if acked_ns[at] > 0]


def answered_publisher(stream, *, qos, later=b""):
    """A publisher of three messages after such an answer: what is acknowledged, its counts, and what it raised.

    `later` has arrived, too, when it lets the connection go.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        rows, client, problem = Rows(), Client(5, "p5", TOPIC), None
        messages = messages_of(client, Workload(payload_bytes=32, qos=Qos(qos)), seed=1, level=LEVELS["3.1.1"])
        publisher = Publisher(client, TcpStream(ours), messages, qos=qos, rows=rows)
        publisher.send(np.array([1, 2, 3]))
        buffer = bytearray(4096)
        room = buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(4096, dtype=np.uint8)
        theirs.sendall(stream)
        try:
            publisher.read(*room)
        except ConnectionError as raised:
            problem = raised
            theirs.sendall(later)
            publisher.read_rest(problem, *room)
        publisher.record(everything=True)
        return rows.acknowledged, publisher.seen.tolist(), problem and str(problem)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("kind", TO_PUBLISHERS)
def test_a_publisher_says_what_is_wrong_and_counts_nothing_behind_it(kind, qos):
    first, behind = [b"".join(packet.encode() for packet in answers(identifier, qos)) for identifier in (1, 2)]

    acknowledged, seen, problem = answered_publisher(first + MALFORMED[kind] + behind, qos=qos, later=behind)

    assert problem == f"the broker sent {SAID[kind]}"
    assert acknowledged == ([0] if qos else [])
    assert seen == {0: [0, 0, 0, 0, 0], 1: [1, 0, 0, 0, 0], 2: [0, 1, 1, 0, 0]}[qos]


@pytest.mark.parametrize("qos", [1, 2])
def test_an_identifier_that_no_message_has_is_counted_and_acknowledges_none(qos):
    first, behind = [b"".join(packet.encode() for packet in answers(identifier, qos)) for identifier in (1, 2)]

    acknowledged, seen, problem = answered_publisher(first + MALFORMED["unknown"] + behind, qos=qos)

    assert (acknowledged, problem) == ([0, 1], None)
    assert seen == {1: [3, 0, 0, 1, 0], 2: [1, 2, 2, 1, 0]}[qos]


@pytest.mark.parametrize("level", [3, 4, 5])
def test_before_3_1_1_flags_are_free_and_pubrel_may_carry_dup(level):
    stream = np.frombuffer(bytearray(b"\x6a\x02\x00\x01\x49\x02\x00\x01"), dtype=np.uint8)
    room, acked_ns = np.empty(64, dtype=np.uint8), np.zeros(4, dtype=np.int64)

    _, _, used, _, why = wire.walk_deliveries(
        stream, 4, 0, level, np.empty((1, 5), dtype=np.int64), 0, np.zeros(wire.HELD_BYTES, dtype=np.uint8), room
    )
    _, _, acknowledged, _, why_not = wire.walk_acknowledgements(
        stream, 8, 4, level, 0, 1, acked_ns, 1, room, np.zeros(5, dtype=np.int64)
    )

    is_free = level == 3
    assert (used, acknowledged) == ((4, 1) if is_free else (0, 0))
    assert {why, why_not} == {wire.NEED_MORE if is_free else wire.OTHER}


def answers(identifier, qos):
    return {0: [], 1: [PubAck(identifier)], 2: [PubRec(identifier), PubComp(identifier)]}[qos]
