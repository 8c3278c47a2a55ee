"""Packets that MQTT does not allow: each must be refused, and the broker must live on.

Refused is: the connection is closed, or the answer carries a reason code of failure. What a broker
took shows in the answer to the PINGREQ that is sent right behind. That it lives on is proved by a new client.
"""

from collections.abc import Callable
from functools import partial

from brokerlab.lab.probe.check import Check, Sections, both
from brokerlab.lab.probe.peer import Peer
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import Broken, NotKept, require
from brokerlab.load.packets import FIRST_FAILURE, ConnAck, Packet, PingReq, PingResp, SubAck, encode_length

_LATE_CLOSE_S = 0.3  # a broker may answer the PINGREQ before it looks at what was wrong
_ANSWER_S = 0.8  # waited twice, and in between the broker has to serve somebody else: then it is not just slow
_PING = PingReq().encode()
Bytes = Callable[[int], bytes]


def _packet(head: int, body: bytes) -> bytes:
    return bytes((head,)) + encode_length(len(body)) + body


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def _none(level: int) -> bytes:
    """No properties, where there could be some."""
    return b"\x00" if level == 5 else b""


def _connect(
    level: int, *, name: bytes = b"MQTT", flags: int = 2, tail: bytes = b"", properties: bytes | None = None
) -> bytes:
    """A CONNECT of which every part can be wrong."""
    block = _none(level) if properties is None else _text(properties)[1:]
    head = _text(name) + bytes((level, flags)) + b"\x00\x3c" + block
    return _packet(0x10, head + _text(b"blmalformed") + tail)


def _publish(level: int, topic: bytes = b"brokerlab-probe/bad", *, head: int = 0x30, packet_id: bytes = b"") -> bytes:
    return _packet(head, _text(topic) + packet_id + _none(level) + b"x")


def _subscribe(
    level: int, *, head: int = 0x82, packet_id: bytes = b"\x00\x01", topic: bytes = b"brokerlab-probe/bad", qos: int = 0
) -> bytes:
    return _packet(head, packet_id + _none(level) + _text(topic) + bytes((qos,)))


def _with_property(data: bytes) -> bytes:
    """A PUBLISH of MQTT 5.0 with this block of properties."""
    return _packet(0x30, _text(b"brokerlab-probe/bad") + bytes((len(data),)) + data + b"x")


def _refused(room: Room, make: Bytes, *, is_first: bool) -> str:
    peer = room.raw("bad") if is_first else room.peer("bad")
    peer.send_bytes(make(room.level) + (b"" if is_first else _PING))
    try:
        seen = _verdict(room, peer)
    except NotKept:
        _require_alive(room)  # worse than taking it is dying of it
        raise
    _require_alive(room)
    return seen


def _verdict(room: Room, peer: Peer) -> str:
    """How the broker refused; Broken when it did not."""
    while _has_answer(room, peer):
        answer = peer.answers.popleft()
        if code := _refusal(answer):
            return f"refused with {type(answer).__name__.upper()} {code:#04x}"
        if isinstance(answer, ConnAck):
            raise Broken("the CONNECT was accepted")
        if isinstance(answer, PingResp):
            if peer.is_ended(within_s=_LATE_CLOSE_S):
                break
            raise Broken("the broker took it and went on")
    if peer.is_closed:
        return "the connection was closed"
    raise Broken("neither closed nor refused, while others were served")


def _has_answer(room: Room, peer: Peer) -> bool:
    if peer.received_answer(within_s=_ANSWER_S) or peer.is_closed:
        return bool(peer.answers)
    _require_alive(room)
    return peer.received_answer(within_s=_ANSWER_S)


def _refusal(answer: Packet) -> int:
    """The reason code of failure that an answer carries, else 0."""
    if isinstance(answer, ConnAck):
        return answer.return_code
    codes = answer.return_codes if isinstance(answer, SubAck) else (getattr(answer, "reason_code", 0),)
    return min(codes) if codes and min(codes) >= FIRST_FAILURE else 0


def _require_alive(room: Room) -> None:
    try:
        room.peer("after").ping()
    except NotKept as problem:
        raise Broken(f"the broker did not survive it: {problem}") from problem
    require(not room.place.obituary(), f"the broker did not survive it: {room.place.obituary()}")


def _case(name: str, title: str, sections: Sections, make: Bytes, *, is_first: bool = False) -> Check:
    run = partial(_refused, make=make, is_first=is_first)
    return Check(f"malformed.{name}", f"refused: {title}", sections, run, is_alone=True)


def _first(name: str, title: str, sections: Sections, make: Bytes) -> Check:
    """A case that is the first packet of its connection."""
    return _case(name, title, sections, make, is_first=True)


_ID = b"\x00\x01"

CHECKS = (
    _first("not-connect", "a first packet that is no CONNECT", both("3.1"), lambda _: _PING),
    _first("name", "a protocol name that is not MQTT", both("3.1.2.1"), lambda level: _connect(level, name=b"MQTX")),
    _first("connect-flag", "the reserved CONNECT flag", both("3.1.2.3"), lambda level: _connect(level, flags=3)),
    _first("will-flags", "will QoS without a will", both("3.1.2.6"), lambda level: _connect(level, flags=0x0A)),
    _first("will-qos", "will QoS 3", both("3.1.2.6"),
           lambda level: _connect(level, flags=0x1E, tail=_none(level) + _text(b"brokerlab-probe/bad") + _text(b"x"))),
    _first("password", "a password without a user name", {4: "3.1.2.9"},
           lambda level: _connect(level, flags=0x42, tail=_text(b"secret"))),
    _first("connect-cut", "a CONNECT that ends too early", both("3.1.3"), lambda _: _packet(0x10, b"\x00\x04MQTT\x04")),
    _first("connect-utf8", "a client identifier that is not UTF-8", both("1.5.3", "1.5.4"),
           lambda level: _connect(level).replace(b"blmalformed", b"bl\xc3\x28lform\xff\xfe")),
    _case("second-connect", "a second CONNECT", both("3.1"), _connect),
    _case("length", "a remaining length of five bytes", both("2.2.3", "2.1.4"), lambda _: b"\x30\xff\xff\xff\xff\x01"),
    _case("type-0", "packet type 0", both("2.2.1", "2.1.2"), lambda _: b"\x00\x00"),
    _case("type-15", "packet type 15", {4: "2.2.1"}, lambda _: b"\xf0\x00"),
    _case("from-client", "a packet that only brokers send", both("2.2.1", "2.1.2"), lambda _: b"\x20\x02\x00\x00"),
    _case("subscribe-flags", "SUBSCRIBE with wrong flags", both("3.8.1"), lambda level: _subscribe(level, head=0x80)),
    _case("unsubscribe-flags", "UNSUBSCRIBE with wrong flags", both("3.10.1"),
          lambda level: _packet(0xA0, _ID + _none(level) + _text(b"brokerlab-probe/bad"))),
    _case("pubrel-flags", "PUBREL with wrong flags", both("3.6.1"), lambda _: b"\x60\x02" + _ID),
    _case("ping-flags", "PINGREQ with wrong flags", both("2.2.2", "2.1.3"), lambda _: b"\xc1\x00"),
    _case("qos-3", "PUBLISH at QoS 3", both("3.3.1.2"), lambda level: _publish(level, head=0x36, packet_id=_ID)),
    _case("dup-0", "PUBLISH at QoS 0 with DUP", both("3.3.1.1"), lambda level: _publish(level, head=0x38)),
    _case("publish-id-0", "PUBLISH at QoS 1 with identifier 0", both("2.3.1", "2.2.1"),
          lambda level: _publish(level, head=0x32, packet_id=b"\x00\x00")),
    _case("publish-plus", "PUBLISH to a topic with +", both("3.3.2.1"),
          lambda level: _publish(level, b"brokerlab-probe/+")),
    _case("publish-hash", "PUBLISH to a topic with #", both("3.3.2.1"),
          lambda level: _publish(level, b"brokerlab-probe/#")),
    _case("publish-empty", "PUBLISH to an empty topic", both("4.7.3"), lambda level: _publish(level, b"")),
    _case("publish-utf8", "PUBLISH to a topic that is not UTF-8", both("1.5.3", "1.5.4"),
          lambda level: _publish(level, b"brokerlab-probe/\xc3\x28")),
    _case("publish-null", "PUBLISH to a topic with U+0000", both("1.5.3", "1.5.4"),
          lambda level: _publish(level, b"brokerlab-probe/\x00")),
    _case("publish-cut", "PUBLISH whose topic is longer than the packet", both("3.3.2.1"),
          lambda _: b"\x30\x04\x00\x20ab"),
    _case("subscribe-none", "SUBSCRIBE without a filter", both("3.8.3"),
          lambda level: _packet(0x82, _ID + _none(level))),
    _case("subscribe-id-0", "SUBSCRIBE with identifier 0", both("2.3.1", "2.2.1"),
          lambda level: _subscribe(level, packet_id=b"\x00\x00")),
    _case("subscribe-qos-3", "SUBSCRIBE at QoS 3", both("3.8.3"), lambda level: _subscribe(level, qos=3)),
    _case("subscribe-bits", "SUBSCRIBE with reserved bits", both("3.8.3"), lambda level: _subscribe(level, qos=0xC0)),
    _case("filter-hash", "a filter with # in the middle", both("4.7.1.2"),
          lambda level: _subscribe(level, topic=b"a/#/b")),
    _case("filter-plus", "a filter with + in a level", both("4.7.1.3"), lambda level: _subscribe(level, topic=b"a+/b")),
    _case("filter-empty", "an empty filter", both("4.7.3"), lambda level: _subscribe(level, topic=b"")),
    _case("retain-handling-3", "SUBSCRIBE with retain handling 3", {5: "3.8.3.1"},
          lambda level: _subscribe(level, qos=0x30)),
    _case("property-unknown", "a property that does not exist", {5: "2.2.2.2"}, lambda _: _with_property(b"\x7f\x00")),
    _case("property-twice", "a property twice", {5: "3.3.2.3.3"},
          lambda _: _with_property(b"\x02\x00\x00\x00\x05\x02\x00\x00\x00\x05")),
    _case("property-misplaced", "a property of another packet", {5: "2.2.2.2"},
          lambda _: _with_property(b"\x11\x00\x00\x00\x05")),
    _case("alias-0", "topic alias 0", {5: "3.3.2.3.4"}, lambda _: _with_property(b"\x23\x00\x00")),
    _first("receive-maximum-0", "receive maximum 0", {5: "3.1.2.11.3"},
           lambda level: _connect(level, properties=b"\x21\x00\x00")),
)  # fmt: skip
