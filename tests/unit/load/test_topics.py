"""Messages of several topics on the wire, and the rows that say which topic each had (S-02, F-14)."""

import numpy as np
import pytest

from brokerlab.load.messages import messages_of
from brokerlab.load.packets import LEVELS
from brokerlab.load.parser import Parser
from brokerlab.load.rows import PublicationRows
from brokerlab.load.spec import Client
from brokerlab.study.values import Qos, Topics, Workload

CLIENT = Client(7, "p7", "plant/7/0")


class Written(list):
    def write(self, made):
        self.append(made())


def bytes_of(block):
    return b"".join(bytes(piece.data) for piece in block)


@pytest.mark.parametrize("protocol", ["3.1.1", "5.0"])
@pytest.mark.parametrize("qos", list(Qos))
@pytest.mark.parametrize("retain", [False, True])
def test_message_seq_goes_to_topic_seq_mod_count_however_the_blocks_are_cut(qos, protocol, retain):
    """Eleven topics of two lengths; packets are read back by the plain parser."""
    topics = Topics("plant/{publisher}/{topic}", count=11)
    workload = Workload(topics=topics, payload_bytes=40, qos=qos, retain=retain, protocol=protocol)
    messages = messages_of(CLIENT, workload, seed=1, level=LEVELS[protocol])
    times = np.arange(1000, 1030)
    whole = bytes_of(messages.build(0, times))
    packets = Parser(LEVELS[protocol]).feed(whole)

    assert whole == b"".join(bytes_of(messages.build(at, times[at : at + 7])) for at in range(0, 30, 7))
    assert [packet.topic for packet in packets] == [f"plant/7/{seq % 11}" for seq in range(30)]
    assert [packet.packet_id for packet in packets] == [seq + 1 if qos else None for seq in range(30)]
    assert {(packet.qos, packet.retain, len(packet.payload)) for packet in packets} == {(qos, retain, 40)}
    assert [int.from_bytes(packet.payload[12:16], "little") for packet in packets] == list(range(30))


def test_a_publication_row_has_the_topic_of_its_message():
    written = Written()
    rows = PublicationRows(written, topics={0: ["a"], 1: ["b/0", "b/1", "b/2"]}, qos=1, retain=True)
    for publisher, first_seq in ((1, 2), (0, 0)):
        rows.add(publisher, first_seq, *(np.arange(1, 5) for _ in range(3)), 64)
    rows.flush()
    (batch,) = written

    assert batch.column("topic").to_pylist() == ["b/2", "b/0", "b/1", "b/2", "a", "a", "a", "a"]
    assert set(batch.column("retain").to_pylist()) == {True}
