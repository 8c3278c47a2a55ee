"""Wills."""

import time

from brokerlab.lab.probe.check import Check, both, every
from brokerlab.lab.probe.peer import Peer
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import WILL_DELAY, require
from brokerlab.load.packets import Will
from brokerlab.load.properties import USER_PROPERTY

_DELAY_S = 2
_EARLY_S = 1  # many brokers count whole seconds
_WITH_WILL = 0x04


def _watched(room: Room, *, qos: int = 0) -> tuple[Peer, str]:
    watcher, topic = room.peer("watcher"), room.topic("will")
    watcher.subscribe(topic, qos)
    return watcher, topic


def _abrupt(room: Room) -> str:
    watcher, topic = _watched(room)
    room.peer("mortal", will=Will(topic, b"gone")).abort()
    require(watcher.one().payload == b"gone", "the will's payload is not what was given")
    return "closed without DISCONNECT: the will came"


def _farewell(room: Room) -> str:
    watcher, topic = _watched(room)
    room.peer("mortal", will=Will(topic, b"gone")).disconnect()
    came = room.settle(room.peer("pub"), watcher)
    require(not came, "the will came although the client said DISCONNECT")
    return "DISCONNECT: no will"


def _at_qos(room: Room) -> str:
    watcher, topic = _watched(room, qos=2)
    for qos in (0, 1, 2):
        room.peer(f"mortal{qos}", will=Will(topic, bytes((qos,)), qos)).abort()
        require(len(watcher.received(qos + 1)) > qos, f"the will at QoS {qos} did not come")
    wrong = [f"given at {m.payload[0]}, delivered at {m.qos}" for m in watcher.messages if m.qos != m.payload[0]]
    require(not wrong, "; ".join(wrong))
    return "wills at QoS 0, 1, 2 came at 0, 1, 2"


def _retained(room: Room) -> str:
    watcher, topic = _watched(room)
    room.peer("mortal", will=Will(topic, b"gone", 1, retain=True)).abort()
    watcher.one()
    late = room.peer("late")
    late.subscribe(topic, 1)
    message = late.one()
    require(message.retain, "the stored will came without RETAIN")
    return "a will with RETAIN is kept for later subscribers"


def _protocol_error(room: Room) -> str:
    watcher, topic = _watched(room)
    mortal = room.peer("mortal", will=Will(topic, b"gone"))
    mortal.send_bytes(b"\xf7\x00" if room.level == 4 else b"\x00\x00")
    require(mortal.is_ended(), "a packet type that does not exist did not end the connection")
    require(bool(watcher.received(1)), "the broker closed the connection and did not publish the will")
    return "closed by the broker: the will came"


def _delayed(room: Room) -> str:
    watcher, topic = _watched(room)
    will = Will(topic, b"gone", properties=((WILL_DELAY, _DELAY_S),))
    mortal = room.peer("mortal", client_id=room.client_id(), clean=False, will=will)
    began = time.monotonic()
    mortal.abort()
    require(bool(watcher.received(1, within_s=room.patience_s + _DELAY_S)), "the delayed will did not come")
    after_s = time.monotonic() - began
    require(after_s >= _DELAY_S - _EARLY_S, f"the will came after {after_s:.2f} s, its delay is {_DELAY_S} s")
    return f"delay {_DELAY_S} s: the will came after {after_s:.2f} s"


def _taken_back(room: Room) -> str:
    watcher, topic = _watched(room)
    name, will = room.client_id(), Will(topic, b"gone", properties=((WILL_DELAY, _DELAY_S),))
    room.peer("mortal", client_id=name, clean=False, will=will).abort()
    room.peer("back", client_id=name, clean=False)
    room.pause(_DELAY_S + 1.2)
    came = room.settle(room.peer("pub"), watcher)
    require(not came, "the will came although its client was back before the delay was over")
    return "back before the delay was over: no will"


def _on_request(room: Room) -> str:
    watcher, topic = _watched(room)
    room.peer("mortal", will=Will(topic, b"gone")).disconnect(_WITH_WILL)
    require(bool(watcher.received(1)), "DISCONNECT 0x04 asks for the will, and none came")
    return "DISCONNECT 0x04: the will came"


def _with_properties(room: Room) -> str:
    watcher, topic = _watched(room)
    pair = (USER_PROPERTY, ("probe", "will"))
    room.peer("mortal", will=Will(topic, b"gone", properties=(pair,))).abort()
    require(pair in watcher.one().properties, "the will came without its user property")
    return "the will's user property came with it"


CHECKS = (
    Check("will.abrupt", "published when the connection ends without DISCONNECT", every("3.1", "3.1.2.5"), _abrupt),
    Check("will.farewell", "not published after DISCONNECT", both("3.14.4"), _farewell),
    Check("will.qos", "published at its QoS", both("3.1.2.6"), _at_qos),
    Check("will.retained", "kept if it says RETAIN", both("3.1.2.7"), _retained, is_alone=True),
    Check("will.error", "published when the broker closes for a protocol error", both("3.1.2.5"), _protocol_error),
    Check("will.delay", "not published before its delay is over", {5: "3.1.3.2.2"}, _delayed),
    Check("will.back", "not published when its client is back in time", {5: "3.1.3.2.2"}, _taken_back),
    Check("will.requested", "published after DISCONNECT 0x04", {5: "3.14.2.1"}, _on_request),
    Check("will.properties", "comes with its user properties", {5: "3.1.3.2.8"}, _with_properties),
)
