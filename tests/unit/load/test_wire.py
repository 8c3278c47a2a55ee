"""The compiled walks say what the plain parser says, whatever the stream and wherever it is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.load import wire
from brokerlab.load.packets import (
    LEVELS,
    Disconnect,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    encode_length,
)
from brokerlab.load.parser import Parser
from brokerlab.load.properties import MESSAGE_EXPIRY, TOPIC_ALIAS, USER_PROPERTY, encode_properties

pytestmark = pytest.mark.unit


def identity(publisher: int, seq: int, intended_ns: int) -> bytes:
    return intended_ns.to_bytes(8, "little", signed=True) + publisher.to_bytes(4, "little") + seq.to_bytes(4, "little")


def publish(qos: int, packet_id: int, topic: str, payload: bytes, *, dup: bool, retain: bool, properties) -> Publish:
    return Publish(topic, payload, qos, packet_id if qos else None, dup and qos > 0, retain, properties)


# The older versions leave the properties out, so one strategy serves all; 130 and more bytes need a longer length.
PROPERTIES = st.sampled_from(
    [
        (),
        ((MESSAGE_EXPIRY, 60),),
        ((TOPIC_ALIAS, 7), (USER_PROPERTY, ("a", "b")), (USER_PROPERTY, ("a", "x" * 140))),
    ]
)
LEVEL = st.sampled_from(sorted(LEVELS.values()))
PUBLISHES = st.builds(
    publish,
    st.sampled_from([0, 1, 2]),
    st.integers(1, 65_535),
    st.sampled_from(["a", "plant/1", "long/" + "x" * 150]),
    st.one_of(
        st.binary(max_size=40),
        st.builds(identity, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**62)),
        st.builds(lambda size: bytes(range(16)) + bytes(size), st.integers(0, 400)),
    ),
    dup=st.booleans(),
    retain=st.booleans(),
    properties=PROPERTIES,
)
REASONS = st.sampled_from([0, 0x10, 0x80, 0x92, 0x97])
RELEASES = st.builds(PubRel, st.integers(1, 65_535), st.sampled_from([0, 0x92]), PROPERTIES)
SUBSCRIBER_STREAM = st.lists(st.one_of(PUBLISHES, RELEASES), max_size=30)


def octets(stream: bytes):
    """A writable array, as the workers' buffers are."""
    return np.frombuffer(bytearray(stream), dtype=np.uint8)


def reference_rows(packets: list[object]) -> tuple[list[tuple[int, ...]], bytes]:
    """Rows and acknowledgements by the plain rules of MQTT 3.1.1 sections 4.3.1 to 4.3.3."""
    rows, acks, held = [], b"", set()
    for packet in packets:
        if isinstance(packet, PubRel):
            held.discard(packet.packet_id)
            acks += PubComp(packet.packet_id).encode()
            continue
        assert isinstance(packet, Publish)
        if packet.qos == 1:
            acks += PubAck(packet.packet_id or 0).encode()
        if packet.qos == 2:
            acks += PubRec(packet.packet_id or 0).encode()
            if packet.packet_id in held:
                continue
            held.add(packet.packet_id)
        body = packet.payload
        known = len(body) >= wire.IDENTITY_BYTES
        rows.append(
            (
                int.from_bytes(body[8:12], "little") if known else -1,
                int.from_bytes(body[12:16], "little") if known else -1,
                int.from_bytes(body[:8], "little", signed=True) if known else 0,
                len(body),
                packet.encode()[0],
            )
        )
    return rows, acks


def walk_in_pieces(stream: bytes, cuts: list[int], *, level: int, row_room: int = 7, ack_room: int = 12):
    """Feeds the stream cut at the given places, with outputs so small that the walk must stop and go on."""
    held = np.zeros(65_536, dtype=np.uint8)
    rows, acks, rest = [], b"", b""
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        buffer = octets(rest + stream[begin:end])
        at, why = 0, wire.FULL
        while why == wire.FULL:
            out_rows, out_acks = np.zeros((row_room, 5), dtype=np.int64), np.zeros(ack_room, dtype=np.uint8)
            at, row, used, _, why = wire.walk_deliveries(buffer, buffer.size, at, level, out_rows, 0, held, out_acks)
            out_rows[:, 4] &= 0xFF  # above it is the place of the variable header
            rows += [tuple(each) for each in out_rows[:row].tolist()]
            acks += out_acks[:used].tobytes()
        assert why == wire.NEED_MORE
        rest = buffer[at:].tobytes()
    assert rest == b""
    return rows, acks


@settings(max_examples=200, deadline=None)
@given(SUBSCRIBER_STREAM, LEVEL, st.data())
def test_deliveries_equal_the_plain_parser_wherever_the_stream_is_cut(packets, level, data):
    stream = b"".join(packet.encode(level) for packet in packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))

    rows, acks = walk_in_pieces(stream, cuts, level=level)

    assert (rows, acks) == reference_rows(Parser(level).feed(stream))


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 200_000),
    st.integers(1, 40),
    st.sampled_from([0, 1, 2]),
    st.integers(16, 300),
    st.integers(0, 2**32 - 1),
    st.one_of(st.none(), PROPERTIES),
)
def test_built_publishes_are_what_the_plain_parser_reads(first_seq, count, qos, payload_bytes, publisher, properties):
    block = None if properties is None else encode_properties(properties, encode_length)
    template, id_at, payload_at = wire.publish_template(
        "plant/7", payload_bytes=payload_bytes, qos=qos, retain=False, filler=b"f" * payload_bytes, properties=block
    )
    intended = np.arange(count, dtype=np.int64) * 1_000 + 10**15
    out = np.zeros(template.size * count, dtype=np.uint8)

    used = wire.build_publishes(template, id_at, payload_at, publisher, first_seq, intended, out)

    packets = Parser(4 if properties is None else 5).feed(out[:used].tobytes())
    assert {packet.properties for packet in packets} == {properties or ()}
    assert [packet.payload for packet in packets] == [
        identity(publisher, first_seq + i, int(intended[i])) + b"f" * (payload_bytes - 16) for i in range(count)
    ]
    assert [packet.packet_id for packet in packets] == [
        wire.packet_id(first_seq + i) if qos else None for i in range(count)
    ]


UNFINISHED = (0, wire.UNHEARD, wire.RECOVERED, wire.UNHEARD | wire.RECOVERED)


def reference_marks(packets: list[object], *, oldest: int, following: int, before: dict[int, int]):
    """Marks of the messages, PUBRELs and counts by the plain rules of MQTT 5.0 sections 3.4 to 3.7."""
    marks, releases, seen = dict.fromkeys(range(oldest, following), 0), b"", [0, 0, 0, 0, 0]
    marks |= before
    by_id = {wire.packet_id(seq): seq for seq in marks}
    for packet in packets:
        seen[[PubAck, PubRec, PubComp].index(type(packet))] += 1
        seq = by_id.get(packet.packet_id)
        is_known = seq is not None and marks[seq] in UNFINISHED
        unheard = wire.UNHEARD if packet.reason_code == 0x10 else 0
        is_unknown = isinstance(packet, PubComp) and packet.reason_code == 0x92
        was_through = is_unknown and is_known and marks[seq] & wire.RECOVERED
        if packet.reason_code >= 0x80 and not was_through:
            seen[4] += 1
            mark = -packet.reason_code
        elif isinstance(packet, PubRec):
            releases += PubRel(packet.packet_id).encode()
            mark = unheard
        else:
            mark = 99 | unheard | (marks[seq] & wire.UNHEARD if is_known else 0)
        if is_known:
            marks[seq] = mark
        else:
            seen[3] += 1
    return marks, releases, seen


ANSWERS = st.builds(
    lambda kind, packet_id, reason, properties: kind(packet_id, reason, properties),
    st.sampled_from([PubAck, PubRec, PubComp]),
    st.integers(1, 14),
    REASONS,
    PROPERTIES,
)


MARKS = st.sampled_from(UNFINISHED)


@settings(max_examples=200, deadline=None)
@given(st.lists(ANSWERS, max_size=25), LEVEL, st.dictionaries(st.integers(3, 12), MARKS), st.data())
def test_acknowledgements_equal_the_plain_parser_wherever_the_stream_is_cut(packets, level, before, data):
    stream = b"".join(packet.encode(level) for packet in packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    first, following = 3, 13
    acked, seen = np.zeros(16, dtype=np.int64), np.zeros(5, dtype=np.int64)
    for seq, mark in before.items():
        acked[seq & 15] = mark
    oldest, releases, rest = first, b"", b""

    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        buffer = octets(rest + stream[begin:end])
        at, why = 0, wire.FULL
        while why == wire.FULL:
            out = np.zeros(8, dtype=np.uint8)
            at, oldest, _, used, why = wire.walk_acknowledgements(
                buffer, buffer.size, at, level, oldest, following, acked, 99, out, seen
            )
            releases += out[:used].tobytes()
        assert why == wire.NEED_MORE
        rest = buffer[at:].tobytes()

    marks, expected, counts = reference_marks(
        Parser(level).feed(stream), oldest=first, following=following, before=before
    )
    assert {seq: int(acked[seq & 15]) for seq in marks} == marks
    assert (releases, seen.tolist()) == (expected, counts)
    assert oldest == next((seq for seq in marks if marks[seq] in UNFINISHED), following)


@pytest.mark.parametrize("answer", [PubAck, PubComp])
def test_acknowledgements_out_of_order_across_the_wrap_of_identifiers(answer):
    oldest, following = 65_530, 65_540
    acked = np.zeros(16, dtype=np.int64)
    seen, out = np.zeros(5, dtype=np.int64), np.zeros(64, dtype=np.uint8)
    order = [65_531, 65_530, 65_539, 65_536]
    stream = octets(b"".join(answer(wire.packet_id(seq)).encode() for seq in order))

    at, oldest, count, used, why = wire.walk_acknowledgements(
        stream, stream.size, 0, 4, oldest, following, acked, 99, out, seen
    )

    assert (at, oldest, count, used, why) == (stream.size, 65_532, 4, 0, wire.NEED_MORE)
    assert [seq for seq in range(65_530, 65_540) if acked[seq & 15]] == sorted(order)


def test_pubrec_is_answered_with_pubrel_and_is_no_acknowledgement_yet():
    acked = np.zeros(16, dtype=np.int64)
    seen, out = np.zeros(5, dtype=np.int64), np.zeros(64, dtype=np.uint8)
    stream = octets(PubRec(1).encode() + PubRec(2).encode())

    _, oldest, count, used, _ = wire.walk_acknowledgements(stream, stream.size, 0, 4, 0, 2, acked, 99, out, seen)

    assert (oldest, count) == (0, 0)
    assert out[:used].tobytes() == PubRel(1).encode() + PubRel(2).encode()


def test_an_acknowledgement_that_nobody_waits_for_is_counted_not_believed():
    acked = np.zeros(16, dtype=np.int64)
    seen, out = np.zeros(5, dtype=np.int64), np.zeros(64, dtype=np.uint8)
    stream = octets(PubAck(9).encode() + PubAck(1).encode() * 2)

    _, oldest, count, _, _ = wire.walk_acknowledgements(stream, stream.size, 0, 4, 0, 2, acked, 99, out, seen)

    assert (oldest, count) == (1, 1)
    assert seen.tolist() == [3, 0, 0, 2, 0]


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (PingResp().encode(), wire.OTHER),
        (PubRel(1, 0x92).encode(5), wire.OTHER),  # 3 bytes, which MQTT 3.1.1 does not have
        (b"\x36\x04\x00\x01a\x00", wire.MALFORMED),  # QoS 3
        (b"\x30\xff\xff\xff\xff\x01", wire.MALFORMED),  # a length of five bytes
        (b"\x30\x03\x00\x09a", wire.MALFORMED),  # a topic longer than its packet
        (b"\x32\x03\x00\x01a", wire.MALFORMED),  # QoS 1 without an identifier
        (b"\x30", wire.NEED_MORE),
        (b"\x30\x80", wire.NEED_MORE),
    ],
)
def test_a_walk_stops_where_it_cannot_go_on(stream, why):
    assert stopped_at_once(stream, level=4) == why


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (PingResp().encode(), wire.OTHER),
        (Disconnect(0x8B).encode(5), wire.OTHER),
        (b"\x30\x03\x00\x01a", wire.MALFORMED),  # no length of properties
        (b"\x30\x05\x00\x01a\x02\x00", wire.MALFORMED),  # properties longer than their packet
        (b"\x30\x07\x00\x01a\xff\xff\xff\xff", wire.MALFORMED),  # a length of five bytes
        (b"\x32\x05\x00\x01a\x00\x01", wire.MALFORMED),  # QoS 1 without a length of properties
    ],
)
def test_a_walk_of_mqtt_5_stops_where_it_cannot_go_on(stream, why):
    assert stopped_at_once(stream, level=5) == why


def stopped_at_once(stream: bytes, *, level: int) -> int:
    buffer = octets(stream)
    rows, acks = np.zeros((4, 5), dtype=np.int64), np.zeros(64, dtype=np.uint8)

    at, row, _, _, stopped = wire.walk_deliveries(
        buffer, buffer.size, 0, level, rows, 0, np.zeros(65_536, dtype=np.uint8), acks
    )

    assert (at, row) == (0, 0)
    return stopped
