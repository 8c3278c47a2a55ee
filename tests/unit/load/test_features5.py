"""What MQTT 5.0 adds to messages, byte by byte, and a device that answers requests: over a real socket pair."""

import re
import socket
import time

import numpy as np
import pytest

from brokerlab.errors import RunError
from brokerlab.load import shapes
from brokerlab.load.connection import publish_bytes, session_of
from brokerlab.load.content import LARGE_BYTES
from brokerlab.load.ears import Ear, Ears
from brokerlab.load.echoing import Answers, Device
from brokerlab.load.features5 import connect_properties
from brokerlab.load.messages import messages_of
from brokerlab.load.packets import LEVELS, ConnAck, PubAck, Publish
from brokerlab.load.parser import Parser
from brokerlab.load.properties import (
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    RECEIVE_MAXIMUM,
    RESPONSE_TOPIC,
    SESSION_EXPIRY,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    USER_PROPERTY,
)
from brokerlab.load.publisher import Publisher
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.load.stream import TcpStream
from brokerlab.study.factors import FACTORS
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.replay import digest
from brokerlab.study.seeds import derived_seed
from brokerlab.study.values import (
    ClientLife,
    Content,
    Payload,
    Qos,
    Record,
    Replay,
    SessionKind,
    Topics,
    Workload,
)

pytestmark = pytest.mark.unit
LEVEL = 5
CLIENT = Client(2, "p2", "t/2")
LARGE = LARGE_BYTES + 1


def built(mqtt5, *, blocks=(3,), payload_bytes=32, level=LEVEL, aliases=10, client=CLIENT, **keys):
    workload = Workload(payload_bytes=payload_bytes, protocol="5.0", mqtt5=mqtt5, **keys)
    messages, seq, data = messages_of(client, workload, seed=1, level=level, aliases=aliases), 0, b""
    for count in blocks:
        pieces = messages.build(seq, np.arange(count, dtype=np.int64))
        data, seq = data + b"".join(bytes(piece.data) for piece in pieces), seq + count
    return Parser(level).feed(data), len(data)


def properties_of(packet):
    """User properties by name, the others by their number."""
    user = dict(value for identifier, value in packet.properties if identifier == USER_PROPERTY)
    return user | {identifier: value for identifier, value in packet.properties if identifier != USER_PROPERTY}


def test_the_level_none_of_a_property_sends_none():
    every = Mqtt5(expiry_s=60, receive_maximum=1, session_expiry_s=3600)
    workload = Workload(protocol="5.0", mqtt5=every)
    for name in ("expiry", "receive_maximum", "session_expiry"):
        workload = FACTORS[name].apply(workload, FACTORS[name].parse("none"))

    assert dict(connect_properties(every, keeps_session=False)) == {SESSION_EXPIRY: 3600, RECEIVE_MAXIMUM: 1}
    assert connect_properties(workload.mqtt5, keeps_session=False) == ()
    assert [properties_of(packet) for packet in built(every)[0]] == [{MESSAGE_EXPIRY: 60}] * 3
    assert [properties_of(packet) for packet in built(workload.mqtt5)[0]] == [{}] * 3


def test_user_properties_have_the_bytes_that_were_asked_for():
    packets, with_them = built(Mqtt5(user_properties=3, property_bytes=20))
    _, without = built(Mqtt5())

    assert [identifier for identifier, _ in packets[0].properties] == [USER_PROPERTY] * 3
    assert {len(name) + len(value) for _, (name, value) in packets[0].properties} == {20}
    assert with_them - without == 3 * 3 * (20 + 5)


@pytest.mark.parametrize("response_topic", [False, True])
def test_metadata_tell_each_message_apart_and_when_it_was_due(response_topic):
    """X-06."""
    before_ms = time.time_ns() / 1e6
    due_ns = time.monotonic_ns() + 10**9 * np.arange(12)
    workload = Workload(protocol="5.0", mqtt5=Mqtt5(metadata=True, response_topic=response_topic))
    messages = messages_of(Client(2, "p2", "t/2"), workload, seed=1, level=LEVEL)
    data = b"".join(bytes(piece.data) for first in (0, 5) for piece in messages.build(first, due_ns[first : first + 7]))
    packets = Parser(LEVEL).feed(data)

    told = [dict(value for identifier, value in packet.properties if identifier == USER_PROPERTY) for packet in packets]
    assert [int(each["order"]) for each in told] == [*range(7), *range(5, 12)]
    assert len({each["unique_message_id"] for each in told}) == 12
    assert all(re.fullmatch("[0-9a-f]{64}", each["unique_message_id"]) for each in told)
    words = [shapes.drawn(derived_seed(1, "metadata", 2) + word, np.arange(7)) for word in range(4)]
    drawn = ["".join(f"{word[seq]:016x}"[::-1] for word in words) for seq in range(7)]  # the same however it is cut
    assert [each["unique_message_id"] for each in told[:7]] == drawn
    sent_ms = [float(each["publisher_send_time"]) for each in told[:7]]
    assert sent_ms[0] >= before_ms - 1
    assert np.diff(sent_ms) == pytest.approx([1000] * 6, abs=0.002)


@pytest.mark.parametrize("content", [Content.RANDOM, Content.JSON])
@pytest.mark.parametrize("mix", [(), ((64, 50.0), (LARGE, 50.0))], ids=["alike", "mix"])
@pytest.mark.parametrize("qos", [0, 1])
def test_large_messages_carry_metadata_and_correlation_data_too(content, mix, qos):
    """X-06: above 64 KiB a message is sent in pieces, and its small neighbours with it."""
    payload = Payload(content, '{"seq": {seq}}' if content is Content.JSON else None, mix=mix)
    asked = Mqtt5(metadata=True, response_topic=True)
    packets, _ = built(asked, blocks=(5, 3), payload_bytes=LARGE, payload=payload, qos=Qos(qos))

    told = [properties_of(packet) for packet in packets]
    assert {len(packet.payload) for packet in packets} == ({64, LARGE} if mix else {LARGE})
    assert [int(each["order"]) for each in told] == list(range(8))
    assert [int.from_bytes(each[CORRELATION_DATA], "little") for each in told] == list(range(8))
    assert len({each["unique_message_id"] for each in told}) == 8
    assert all(float(each["publisher_send_time"]) > 0 for each in told)


def test_records_of_a_file_carry_alias_and_correlation_data(tmp_path):
    lines = [b"short", b"l" * LARGE, b"another", b"last"]
    (tmp_path / "records").write_bytes(b"\n".join(lines))
    replay = Replay(str(tmp_path / "records"), digest((tmp_path / "records").read_bytes()), Record.LINE)
    asked = Mqtt5(metadata=True, response_topic=True, topic_alias=True)
    packets, _ = built(asked, blocks=(1, 3), payload=Payload(replay=replay), publishers=1, client=Client(0, "p0", "t"))

    assert [packet.payload for packet in packets] == lines
    assert [packet.topic for packet in packets] == ["t", "", "", ""]
    told = [properties_of(packet) for packet in packets]
    assert [int(each["order"]) for each in told] == list(range(4))
    assert [int.from_bytes(each[CORRELATION_DATA], "little") for each in told] == list(range(4))


@pytest.mark.parametrize(("aliases", "later"), [(10, ["", "", ""]), (2, ["", "", "a/2/2"])])
@pytest.mark.parametrize("blocks", [(8,), (1, 7), (4, 4), (2, 3, 3)])
def test_each_topic_has_an_alias_as_far_as_the_broker_takes_them(blocks, aliases, later):
    topics = Topics(publish="a/{publisher}/{topic}", count=3)
    packets, _ = built(Mqtt5(topic_alias=True), blocks=blocks, topics=topics, aliases=aliases, qos=Qos(1))

    assert [packet.topic for packet in packets] == ["a/2/0", "a/2/1", "a/2/2", *later, *later[:2]]
    assert [packet.packet_id for packet in packets] == list(range(1, 9))
    numbers = [properties_of(packet).get(TOPIC_ALIAS) for packet in packets]
    assert numbers == [[1, 2, 3 if aliases > 2 else None][seq % 3] for seq in range(8)]
    assert [int.from_bytes(packet.payload[12:16], "little") for packet in packets] == list(range(8))


@pytest.mark.parametrize("count", [1, 12])
def test_the_largest_packet_is_known_before_it_is_built(count):
    """What is held against the broker's maximum packet size."""
    mqtt5 = Mqtt5(user_properties=9, metadata=True, topic_alias=True, expiry_s=60, response_topic=True)
    topics = Topics(publish="a/{publisher}/{topic}", count=count)
    workload = Workload(payload_bytes=300, protocol="5.0", mqtt5=mqtt5, qos=Qos(1), topics=topics)
    messages = messages_of(CLIENT, workload, seed=1, level=LEVEL, aliases=20)

    longest = max(sum(len(piece.data) for piece in messages.build(seq, np.arange(1))) for seq in range(count))
    assert publish_bytes(CLIENT, workload, level=LEVEL) == messages.largest == longest


@pytest.mark.parametrize("blocks", [(3,), (1, 2), (2, 1)])
def test_a_topic_is_told_once_however_the_blocks_are_cut(blocks):
    packets, _ = built(Mqtt5(topic_alias=True), blocks=blocks)

    assert [packet.topic for packet in packets] == ["t/2", "", ""]
    assert all(packet.properties == ((TOPIC_ALIAS, 1),) for packet in packets)


@pytest.mark.parametrize("payload_bytes", [32, 4])
def test_a_request_names_its_answers_topic_and_its_own_number(payload_bytes):
    packets, _ = built(Mqtt5(response_topic=True, expiry_s=60), blocks=(2, 1), payload_bytes=payload_bytes)

    assert [packet.properties for packet in packets] == [
        (
            (MESSAGE_EXPIRY, 60),
            (RESPONSE_TOPIC, "brokerlab-echo/2"),
            (CORRELATION_DATA, seq.to_bytes(8, "little")),
        )
        for seq in range(3)
    ]
    assert {len(packet.payload) for packet in packets} == {payload_bytes}


def test_older_versions_carry_nothing_of_it():
    _, length = built(Mqtt5(user_properties=3, topic_alias=True, response_topic=True), level=4)

    assert length == 3 * (2 + 2 + len("t/2") + 32)


def test_connect_says_how_much_it_takes_and_how_long_a_session_lasts():
    asked = Mqtt5(receive_maximum=20, session_expiry_s=3600)

    assert connect_properties(asked, keeps_session=False) == ((SESSION_EXPIRY, 3600), (RECEIVE_MAXIMUM, 20))
    assert connect_properties(Mqtt5(), keeps_session=False) == ()


@pytest.mark.parametrize("allowed", [(), ((TOPIC_ALIAS_MAXIMUM, 0),)])
def test_a_broker_that_allows_no_alias_ends_the_run(allowed):
    ours, theirs = socket.socketpair()
    workload = Workload(protocol="5.0", mqtt5=Mqtt5(topic_alias=True))
    with ours, theirs, pytest.raises(RunError, match="allows no topic alias"):
        session_of(
            Client(0, "p0", "t"), TcpStream(ours), ConnAck(False, 0, allowed), level=LEVEL, workload=workload,
            log=SessionLog("publishers/0", lambda _batch: None),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "session", "said", "is_resumed"),
    [
        ("3.1.1", SessionKind.PERSISTENT, False, False),
        ("3.1.1", SessionKind.PERSISTENT, True, True),
        ("3.1", SessionKind.PERSISTENT, False, True),  # its CONNACK has no word for it
        ("3.1", SessionKind.CLEAN, False, False),
    ],
)
def test_a_session_of_mqtt_3_1_that_was_asked_for_is_taken_as_kept(protocol, session, said, is_resumed):
    workload = Workload(protocol=protocol, clients=ClientLife(session=session))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        found = session_of(
            Client(0, "p0", "t"), TcpStream(ours), ConnAck(0, session_present=said), level=LEVELS[protocol],
            workload=workload, log=SessionLog("publishers/0", lambda _batch: None),
        )  # fmt: skip

    assert found.is_resumed is is_resumed


class Rows:
    def add(self, *_columns):
        """What is recorded is not looked at here."""


def test_a_device_answers_to_the_response_topic_with_the_correlation_data(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(2)
        client = Client(0, "d0", "usual", hears="asked")
        spec = WorkerSpec("devices/0", 0, "", 0, (client,), Workload(protocol="5.0"), 1.0, 1, tmp_path, files="device_")
        ears = Ears(spec, SessionLog("devices/0", lambda _batch: None), note=lambda _: None, subscribed=lambda _: None)
        answers = Answers(client, qos=0, level=LEVEL, payload_bytes=64, note=lambda _: None)
        publisher = Publisher(client, TcpStream(ours), answers, qos=0, rows=Rows(), level=LEVEL)
        publisher.others = Ear(ears, publisher, Device(publisher, answers, level=LEVEL))
        requests = [
            Publish("asked", b"x" * 16, 1, 7, properties=((RESPONSE_TOPIC, "mine"), (CORRELATION_DATA, b"abc"))),
            Publish("asked", b"y" * 40, 0, None, properties=((USER_PROPERTY, ("a", "b")),)),
        ]
        theirs.sendall(b"".join(packet.encode(LEVEL) for packet in requests))

        buffer = bytearray(4096)
        publisher.read(buffer, np.frombuffer(buffer, dtype=np.uint8), np.empty(4096, dtype=np.uint8))
        said = Parser(LEVEL).feed(theirs.recv(4096))
        ears.close()

    first, second = (packet for packet in said if isinstance(packet, Publish))
    assert (first.topic, first.payload, first.properties) == ("mine", b"x" * 16, ((CORRELATION_DATA, b"abc"),))
    assert (second.topic, second.payload, second.properties) == ("usual", b"y" * 40, ())
    assert PubAck(7) in said
