"""Packets against bytes that can be checked on paper, and every packet through every cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerlab.load.packets import (
    MAX_REMAINING_BYTES,
    ConnAck,
    Connect,
    Disconnect,
    MalformedPacketError,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Will,
    connack_reason,
    decode_length,
    encode_length,
)
from brokerlab.load.parser import Parser
from brokerlab.load.properties import MAXIMUM_QOS, RECEIVE_MAXIMUM, SESSION_EXPIRY, USER_PROPERTY

pytestmark = pytest.mark.unit

ON_PAPER = [
    (Connect("ab", 10), "10 0e 0004 4d515454 04 02 000a 0002 6162"),
    (
        Connect("a", 0, False, Will("w", b"\x00", 1, True), "u", b"p"),
        "10 19 0004 4d515454 04 ec 0000 0001 61 0001 77 0001 00 0001 75 0001 70",
    ),
    (ConnAck(5), "20 02 00 05"),
    (ConnAck(0, session_present=True), "20 02 01 00"),
    (Publish("a/b", b"hi"), "30 07 0003 612f62 6869"),
    (Publish("a", b"", 1, 10, dup=True), "3a 05 0001 61 000a"),
    (Publish("a", b"x", 2, 65535, retain=True), "35 06 0001 61 ffff 78"),
    (PubAck(258), "40 02 0102"),
    (PubRec(258), "50 02 0102"),
    (PubRel(258), "62 02 0102"),
    (PubComp(258), "70 02 0102"),
    (Subscribe(1, (("a/#", 2), ("+", 0))), "82 0c 0001 0003 612f23 02 0001 2b 00"),
    (SubAck(1, (2, 0x80)), "90 04 0001 02 80"),
    (Unsubscribe(1, ("a",)), "a2 05 0001 0001 61"),
    (UnsubAck(1), "b0 02 0001"),
    (PingReq(), "c0 00"),
    (PingResp(), "d0 00"),
    (Disconnect(), "e0 00"),
]

ON_PAPER_OF_5 = [
    (
        Connect("ab", 10, properties=((RECEIVE_MAXIMUM, 20), (SESSION_EXPIRY, 0))),
        "10 17 0004 4d515454 05 02 000a 08 21 0014 11 00000000 0002 6162",
    ),
    (
        Connect("a", 0, True, Will("w", b"", properties=((0x18, 5),)), password=b"p"),
        "10 1c 0004 4d515454 05 46 0000 00 0001 61 05 18 00000005 0001 77 0000 0001 70",
    ),
    (ConnAck(0x87), "20 03 00 87 00"),
    (ConnAck(0, properties=((MAXIMUM_QOS, 1), (0x12, "x"))), "20 09 00 00 06 24 01 12 0001 78"),
    (Publish("a/b", b"hi"), "30 08 0003 612f62 00 6869"),
    (Publish("", b"x", 1, 10, properties=((0x23, 7),)), "32 09 0000 000a 03 23 0007 78"),
    (
        Publish("a", b"", properties=((USER_PROPERTY, ("k", "v")), (0x0B, 300))),
        "30 0e 0001 61 0a 26 0001 6b 0001 76 0b ac02",
    ),
    (PubAck(258), "40 02 0102"),
    (PubAck(258, 0x10), "40 03 0102 10"),
    (PubRec(258, 0x97, ((0x1F, "no"),)), "50 09 0102 97 05 1f 0002 6e6f"),
    (PubRel(258, 0x92), "62 03 0102 92"),
    (PubComp(258), "70 02 0102"),
    (Subscribe(1, (("a", 0x2E),), ((0x0B, 5),)), "82 09 0001 02 0b 05 0001 61 2e"),
    (SubAck(1, (2, 0x87)), "90 05 0001 00 02 87"),
    (Unsubscribe(1, ("a",)), "a2 06 0001 00 0001 61"),
    (UnsubAck(1, (0, 0x11)), "b0 05 0001 00 00 11"),
    (Disconnect(), "e0 00"),
    (Disconnect(0x8B), "e0 01 8b"),
    (Disconnect(0x8B, ((0x1F, "x"),)), "e0 06 8b 04 1f 0001 78"),
]

MALFORMED_IN_5 = [
    ("30 03 0001 61", "ends within a number"),
    ("30 06 0001 61 01 0100", "too early"),
    ("30 05 0001 61 01 7f", "no property 0x7f"),
    ("30 0a 0001 61 06 23 0001 23 0001", "there twice"),
    ("30 05 0001 61 05 23", "too early"),
    ("82 07 0001 00 0001 61 30", "no subscription options"),
    ("90 04 0001 00 03", "no SUBACK return code"),
    ("20 02 00 00", "ends within a number"),
    ("10 0e 0004 4d515454 04 02 000a 0002 6162", "level 4, not 'MQTT' level 5"),
]

MALFORMED = [
    ("00 00", "no packet type 0"),
    ("f0 00", "no packet type 15"),
    ("30 ffffffff 01", "longer than four bytes"),
    ("36 05 0001 61 0001", "no QoS 3"),
    ("38 03 0001 61", "DUP is set at QoS 0"),
    ("30 02 0000", "not a topic name"),
    ("30 04 0002 612b", "not a topic name"),
    ("30 03 0001 ff", "not UTF-8"),
    ("30 03 0001 00", "U\\+0000"),
    ("30 03 0009 61", "8 bytes too early"),
    ("32 05 0001 61 0000", "packet id is 0"),
    ("32 04 0001 61 00", "1 bytes too early"),
    ("42 02 0001", "flags"),
    ("60 02 0001", "flags"),
    ("40 03 0001 00", "1 bytes follow"),
    ("82 02 0001", "without a topic filter"),
    ("82 06 0001 0001 61 03", "no QoS 3"),
    ("a2 02 0001", "without a topic filter"),
    ("90 03 0001 03", "no SUBACK return code"),
    ("20 02 02 00", "reserved bit"),
    ("c0 01 00", "1 bytes follow"),
    ("10 0e 0004 4d515454 05 02 000a 0002 6162", "level 5"),
    ("10 0e 0004 4d515454 04 03 000a 0002 6162", "reserved CONNECT flag"),
    ("10 0e 0004 4d515454 04 0a 000a 0002 6162", "without a will"),
    ("10 0e 0004 4d515454 04 42 000a 0002 6162", "without a user name"),
]


@pytest.mark.parametrize(("packet", "hexadecimal"), ON_PAPER)
def test_packet_and_its_bytes(packet, hexadecimal):
    data = bytes.fromhex(hexadecimal)

    assert packet.encode() == data
    assert Parser().feed(data) == [packet]


@pytest.mark.parametrize(("packet", "hexadecimal"), ON_PAPER_OF_5)
def test_packet_and_its_bytes_of_mqtt_5(packet, hexadecimal):
    data = bytes.fromhex(hexadecimal)

    assert packet.encode(5) == data
    assert Parser(5).feed(data) == [packet]


def test_mqtt_3_1_has_a_name_of_its_own():
    data = bytes.fromhex("10 10 0006 4d5149736470 03 02 000a 0002 6162")

    assert Connect("ab", 10).encode(3) == data
    assert Parser(3).feed(data) == [Connect("ab", 10)]


def test_refusal_in_the_form_of_3_1_1_is_understood_by_a_client_of_5():
    assert Parser(5).feed(ConnAck(1).encode(4)) == [ConnAck(1)]
    assert connack_reason(5, 1) == "unacceptable protocol version"
    assert connack_reason(5, 0x87) == "not authorized"


@pytest.mark.parametrize(("hexadecimal", "reason"), MALFORMED_IN_5)
def test_parser_says_what_is_malformed_in_mqtt_5(hexadecimal, reason):
    with pytest.raises(MalformedPacketError, match=reason):
        Parser(5).feed(bytes.fromhex(hexadecimal))


@pytest.mark.parametrize(("hexadecimal", "reason"), MALFORMED)
def test_parser_says_what_is_malformed(hexadecimal, reason):
    with pytest.raises(MalformedPacketError, match=reason):
        Parser().feed(bytes.fromhex(hexadecimal))


def test_parser_keeps_the_packets_before_malformed_bytes_and_takes_nothing_after_them():
    parser = Parser()

    with pytest.raises(ValueError, match="no packet type 15") as caught:
        parser.feed(PubAck(1).encode() + b"\xf0\x00")
    assert caught.value.before == (PubAck(1),)
    with pytest.raises(ValueError, match="no packet type 15"):
        parser.feed(PubAck(2).encode())


@pytest.mark.parametrize(
    ("length", "hexadecimal"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"), (MAX_REMAINING_BYTES, "ffffff7f")],
)
def test_remaining_length_at_its_borders(length, hexadecimal):
    encoded = bytes.fromhex(hexadecimal)

    assert encode_length(length) == encoded
    assert decode_length(encoded, 0) == (length, len(encoded))
    assert decode_length(encoded[:-1], 0) is None


@pytest.mark.parametrize("length", [-1, MAX_REMAINING_BYTES + 1])
def test_remaining_length_outside_its_borders(length):
    with pytest.raises(ValueError, match="cannot be"):
        encode_length(length)


@pytest.mark.parametrize("packet", [Publish("a", qos=1), Publish("a", qos=0, packet_id=1)])
def test_publish_refuses_a_packet_id_that_does_not_fit_its_qos(packet):
    with pytest.raises(ValueError, match="packet id"):
        packet.encode()


def test_parser_waits_for_the_rest():
    parser = Parser()
    data = Publish("a", b"x" * 300).encode()

    assert parser.feed(data[:-1]) == []
    assert parser.pending_bytes == len(data) - 1
    assert parser.feed(data[-1:]) == [Publish("a", b"x" * 300)]
    assert parser.pending_bytes == 0


packet_ids = st.integers(1, 0xFFFF)
names = st.text(st.characters(exclude_characters="\0+#", exclude_categories=["Cs"]), min_size=1, max_size=20)
publishes = st.builds(
    lambda topic, payload, qos, packet_id, dup, retain: Publish(
        topic, payload, qos, packet_id if qos else None, dup and qos > 0, retain
    ),
    names,
    st.binary(max_size=200),
    st.integers(0, 2),
    packet_ids,
    st.booleans(),
    st.booleans(),
)
packets = st.one_of(
    publishes,
    *(st.builds(kind, packet_ids) for kind in (PubAck, PubRec, PubRel, PubComp, UnsubAck)),
    st.builds(Subscribe, packet_ids, st.lists(st.tuples(names, st.integers(0, 2)), min_size=1, max_size=3).map(tuple)),
    st.builds(Connect, names, st.integers(0, 0xFFFF), st.booleans()),
    st.sampled_from([PingReq(), PingResp(), Disconnect()]),
)


@given(st.lists(packets, max_size=8), st.lists(st.integers(0, 2000), max_size=8), st.sampled_from([3, 4, 5]))
def test_any_stream_cut_anywhere_gives_its_packets(sent, cuts, level):
    data = b"".join(packet.encode(level) for packet in sent)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parser = Parser(level)

    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    assert [packet for piece in pieces for packet in parser.feed(piece)] == sent


@given(st.binary(max_size=60), st.sampled_from([3, 4, 5]))
def test_any_bytes_give_packets_that_mean_the_same_or_are_refused(data, level):
    try:
        parsed = Parser(level).feed(data)
    except MalformedPacketError as refusal:
        parsed = list(refusal.before)

    assert Parser(level).feed(b"".join(packet.encode(level) for packet in parsed)) == parsed
