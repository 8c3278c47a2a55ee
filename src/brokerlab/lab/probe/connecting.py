"""CONNECT, CONNACK, client identifiers, keep-alive."""

import time

from brokerlab.lab.probe.check import Check, both, every
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import Broken, Undecided, Unsupported, require, value_of
from brokerlab.load.packets import (
    FIRST_FAILURE,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    SubAck,
    Subscribe,
    Will,
)
from brokerlab.load.properties import ASSIGNED_CLIENT_ID, SERVER_KEEP_ALIVE, number_of

_KEEP_ALIVE_S = 1
_TAKEN_OVER = 0x8E
_WRONG_VERSION = (0x01, 0x84)
_REJECTED = (0x02, 0x85)
_LONGEST_WAIT_S = 4  # for a keep-alive that the broker asks for


def _accepted(room: Room) -> str:
    try:
        peer = room.peer("one")
    except Broken as problem:  # however the broker says no
        raise Unsupported(f"this version is not spoken here: {problem}") from problem
    require(not peer.connack.session_present, "a clean session is said to be present")
    return "CONNACK 0x00, session present 0"


def _ping(room: Room) -> str:
    peer = room.peer("one")
    for _ in range(3):
        peer.ping()
    return "every PINGREQ was answered"


def _unknown_level(room: Room) -> str:
    peer = room.raw("one")
    head = b"\x00\x04MQTT\x07\x02\x00\x3c"
    body = head + (b"\x00" if room.level == 5 else b"") + b"\x00\x05probe"
    peer.send_bytes(bytes((0x10, len(body))) + body)
    is_closed = peer.is_ended()
    codes = [answer.return_code for answer in peer.answers if isinstance(answer, ConnAck)]
    require(0 not in codes, "a CONNECT of protocol level 7 was accepted")
    require(is_closed, f"the connection is still open after {room.patience_s:g} s")
    if room.level == 4:
        require(bool(codes), "the connection was closed without CONNACK 0x01")
        require(codes[0] in _WRONG_VERSION, f"CONNACK {codes[0]:#04x} came, not 0x01")
    return f"CONNACK {codes[0]:#04x}, closed" if codes else "closed without CONNACK, as MQTT 5.0 allows"


def _at_once(room: Room) -> str:
    """A client need not wait for the CONNACK; Moquette closes such connections, and some that wait but a moment."""
    peer = room.raw("one")
    peer.send(Connect(room.client_id(), 600), Subscribe(peer.next_id(), ((room.topic("t"), 1),)))
    peer.connack = peer.answer(ConnAck)
    require(not peer.connack.return_code, f"refused with {peer.connack.return_code:#04x}")
    codes = peer.answer(SubAck).return_codes
    require(bool(codes) and codes[0] < FIRST_FAILURE, f"the subscription was answered with {codes}")
    return "CONNECT and SUBSCRIBE in one piece, CONNACK and SUBACK came"


def _empty_id(room: Room) -> str:
    one, two = room.raw("one"), room.raw("two")
    for peer in (one, two):
        peer.send(Connect("", 600))
        peer.connack = peer.answer(ConnAck)
        if peer.connack.return_code in _REJECTED:
            raise Unsupported("an empty client identifier is refused, which a broker may")
        require(not peer.connack.return_code, f"refused with {peer.connack.return_code:#04x}")
    if room.level == 5:
        names = [value_of(peer.connack.properties, ASSIGNED_CLIENT_ID) for peer in (one, two)]
        require(all(names), "the assigned client identifier is not in the CONNACK")
        require(names[0] != names[1], "two clients were assigned the same identifier")
    one.ping()  # two nameless clients are two clients: neither took the other's place
    two.ping()
    return "two clients without a name got one each"


def _empty_id_kept(room: Room) -> str:
    peer = room.raw("one")
    peer.send(Connect("", 600, clean_session=False))
    code = peer.answer(ConnAck).return_code
    require(code == _REJECTED[0], f"CONNACK {code:#04x} came, not 0x02")
    require(peer.is_ended(), "the connection stayed open after the refusal")
    return "CONNACK 0x02, closed"


def _id_23(room: Room) -> str:
    name = (room.client_id() + "ABCDEFGHIJ0123456789")[:23]
    room.peer("one", client_id=name).ping()
    return "23 letters and digits are accepted"


def _id_24(room: Room) -> str:
    peer = room.raw("one")
    peer.send(Connect((room.client_id() + "ABCDEFGHIJ0123456789")[:24], 600))
    code = peer.answer(ConnAck).return_code
    require(code == _REJECTED[0], f"an identifier of 24 characters got CONNACK {code:#04x}, not 0x02")
    return "CONNACK 0x02"


def _takeover(room: Room) -> str:
    name = room.client_id()
    first = room.peer("first", client_id=name)
    second = room.peer("second", client_id=name)
    require(first.is_ended(), f"the first connection is still open {room.patience_s:g} s after the second")
    second.ping()
    return "the first connection was closed, the second one lives"


def _takeover_told(room: Room) -> str:
    name = room.client_id()
    first = room.peer("first", client_id=name)
    room.peer("second", client_id=name)
    first.is_ended()
    codes = [answer.reason_code for answer in first.answers if isinstance(answer, Disconnect)]
    require(codes == [_TAKEN_OVER], "the first client was not told DISCONNECT 0x8e")
    return "DISCONNECT 0x8e"


def _silence_s(room: Room) -> float:
    """How long a silent client is watched: the section says when to close, and Mosquitto looks every five seconds."""
    return 1.5 * _KEEP_ALIVE_S + 2 * room.patience_s


def _enforced(room: Room) -> str:
    began = time.monotonic()  # before the broker can have begun to count
    peer = room.peer("one", keep_alive_s=_KEEP_ALIVE_S)
    require(peer.is_ended(within_s=_silence_s(room)), "a silent client was not disconnected")
    after_s = time.monotonic() - began
    require(after_s >= _KEEP_ALIVE_S, f"closed after {after_s:.2f} s of silence, before the keep-alive of 1 s was over")
    return f"keep-alive 1 s, closed after {after_s:.2f} s of silence"


def _pings_keep(room: Room) -> str:
    peer = room.peer("one", keep_alive_s=2)
    ends = time.monotonic() + 3.6
    while time.monotonic() < ends:
        peer.listen(0.6)
        peer.send(PingReq())
        if not peer.is_closed:
            peer.answer(PingResp)
        require(not peer.is_closed, "a client that pings in time was disconnected")
    return "keep-alive 2 s, pinged every 0.6 s for 3.6 s: still connected"


def _server_keep_alive(room: Room) -> str:
    peer = room.peer("one", keep_alive_s=0xFFFF)
    asked_s = number_of(peer.connack.properties, SERVER_KEEP_ALIVE)
    if asked_s is None:
        raise Unsupported("the broker asks for no keep-alive of its own")
    if asked_s > _LONGEST_WAIT_S:
        raise Undecided(f"the broker asks for {asked_s} s, longer than the probe waits")
    if not peer.is_ended(within_s=1.5 * asked_s + room.patience_s):
        raise Broken(f"the broker asked for a keep-alive of {asked_s} s and does not end a silent connection")
    return f"the broker asked for {asked_s} s and keeps to it"


def _will_at_timeout(room: Room) -> str:
    watcher = room.peer("watcher")
    watcher.subscribe(room.topic("will"), 0)
    silent = room.peer("silent", keep_alive_s=_KEEP_ALIVE_S, will=Will(room.topic("will"), b"gone"))
    require(bool(watcher.received(1, within_s=_silence_s(room))), "the will of a silent client did not come")
    silent.close()
    return "the will of a silent client came"


CHECKS = (
    Check("connect.accepted", "CONNECT is accepted", every("3.2", "3.2.2"), _accepted),
    Check("connect.ping", "PINGREQ is answered with PINGRESP", every("3.12", "3.12.4"), _ping),
    Check("connect.at-once", "SUBSCRIBE may follow CONNECT without waiting", both("3.1.4"), _at_once),
    Check("connect.unknown-level", "an unknown protocol level is refused", both("3.1.2.2"), _unknown_level),
    Check("connect.empty-id", "an empty client identifier gets one of the broker's", both("3.1.3.1"), _empty_id),
    Check(
        "connect.empty-id-kept", "an empty identifier with a kept session is refused", {4: "3.1.3.1"}, _empty_id_kept
    ),
    Check("connect.id-23", "a client identifier of 23 characters is accepted", every("3.1", "3.1.3.1"), _id_23),
    Check("connect.id-24", "a client identifier of 24 characters is refused", {3: "3.1"}, _id_24),
    Check("connect.takeover", "a second client of the same name ends the first", every("3.1", "3.1.4"), _takeover),
    Check("connect.takeover-told", "the first is told DISCONNECT 0x8e", {5: "3.1.4"}, _takeover_told),
    Check("keepalive.enforced", "a silent client is disconnected, not before its time", both("3.1.2.10"), _enforced),
    Check("keepalive.pings", "a client that pings in time stays", both("3.1.2.10"), _pings_keep),
    Check("keepalive.will", "a silent client's will is published", both("3.1.2.5"), _will_at_timeout),
    Check("keepalive.server", "the keep-alive that the broker asks for holds", {5: "3.2.2.3.14"}, _server_keep_alive),
)
