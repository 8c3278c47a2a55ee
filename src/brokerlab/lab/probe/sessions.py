"""Sessions that outlive their connection: what is kept, what is sent again, and when it ends."""

from brokerlab.lab.probe.check import Check, both
from brokerlab.lab.probe.peer import Peer
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import require
from brokerlab.load.packets import PubComp, Publish, PubRec, PubRel
from brokerlab.load.properties import SESSION_EXPIRY

_QUEUED = 10
_FIXED_ID = 4711


def _left(room: Room, *, qos: int = 2) -> tuple[str, str]:
    """The name of a client that subscribed, keeps its session and went; and its topic."""
    name, topic = room.client_id(), room.topic("t")
    subscriber = room.peer("sub", client_id=name, clean=False)
    require(not subscriber.connack.session_present, "a session that never was is said to be present")
    room.require_granted(subscriber.subscribe(topic, qos), qos)
    subscriber.disconnect()
    return name, topic


def _present(room: Room) -> str:
    name, _ = _left(room, qos=0)
    back = room.peer("back", client_id=name, clean=False)
    require(back.connack.session_present, "the kept session is not said to be present")
    return "session present: 0 the first time, 1 the second"


def _subscriptions(room: Room) -> str:
    name, topic = _left(room, qos=1)
    back = room.peer("back", client_id=name, clean=False)
    room.peer("pub").publish(topic, b"x", qos=1)
    back.one()
    return "the subscription holds without a new SUBSCRIBE"


def _queue(room: Room, qos: int) -> str:
    name, topic = _left(room, qos=qos)
    publisher = room.peer("pub")
    for number in range(_QUEUED):
        publisher.publish(topic, bytes((number,)), qos=qos)
    back = room.peer("back", client_id=name, clean=False)
    got = [message.payload[0] for message in back.received(_QUEUED)]
    require(len(got) >= _QUEUED, f"{len(got)} of {_QUEUED} messages that were published meanwhile came")
    require(got == list(range(_QUEUED)), f"came in the order {', '.join(map(str, got))}")
    wrong = sorted({message.qos for message in back.messages} - {qos})
    require(not wrong, f"queued at QoS {qos}, delivered at {wrong}")
    return f"{_QUEUED} messages came in order at QoS {qos}"


def _cleaned(room: Room) -> str:
    name, topic = _left(room, qos=1)
    publisher = room.peer("pub")
    publisher.publish(topic, b"queued", qos=1)
    clean = room.peer("clean", client_id=name)
    require(not clean.connack.session_present, "a clean session is said to be present")
    publisher.publish(topic, b"live", qos=1)
    came = room.settle(publisher, clean, qos=1)
    require(not came, f"a clean session got {[message.payload for message in came]} of the old one")
    return "session present 0, no subscription, nothing queued"


def _gone_after_clean(room: Room) -> str:
    name, topic = room.client_id(), room.topic("t")
    first = room.peer("clean", client_id=name)
    first.subscribe(topic, 1)
    first.disconnect()
    publisher = room.peer("pub")
    publisher.publish(topic, b"x", qos=1)
    back = room.peer("back", client_id=name, clean=False)
    require(not back.connack.session_present, "a clean session is said to be present after its end")
    came = room.settle(publisher, back, qos=1)
    require(not came, "a clean session was kept")
    return "a clean session ends with its connection"


def _unanswered(room: Room, *, qos: int) -> tuple[str, Peer, Publish]:
    """A client that got one message, did not answer, and lost its connection."""
    name, topic = _left(room, qos=qos)
    first = room.peer("sub", client_id=name, clean=False, acknowledges=False)
    publisher = room.peer("pub")
    publisher.publish(topic, b"x", qos=qos)
    message = first.one()
    require(message.qos == qos, f"published and granted at QoS {qos}, delivered at QoS {message.qos}")
    return name, first, message


def _sent_again(room: Room) -> str:
    name, first, message = _unanswered(room, qos=1)
    first.abort()
    again = room.peer("back", client_id=name, clean=False).one()
    require(again.packet_id == message.packet_id, f"sent again as #{again.packet_id}, it was #{message.packet_id}")
    require(again.dup, "sent again without DUP")
    return "the same identifier again, with DUP"


def _pubrel_again(room: Room) -> str:
    name, first, message = _unanswered(room, qos=2)
    packet_id = message.packet_id or 0
    first.send(PubRec(packet_id))
    first.answer(PubRel, packet_id=packet_id)
    first.abort()
    back = room.peer("back", client_id=name, clean=False, acknowledges=False)
    back.answer(PubRel, packet_id=packet_id)
    require(not back.messages, "the message was sent again after its PUBREC")
    back.send(PubComp(packet_id))
    back.ping()
    return "PUBREL again with the same identifier, the message not"


def _half_published(room: Room) -> str:
    _, subscriber, topic = room.pair(qos=2)
    name = room.client_id()
    publisher = room.peer("pub", client_id=name, clean=False)
    publisher.send(Publish(topic, b"x", 2, _FIXED_ID))
    publisher.answer(PubRec, packet_id=_FIXED_ID)
    publisher.abort()
    back = room.peer("back", client_id=name, clean=False)
    back.send(Publish(topic, b"x", 2, _FIXED_ID, dup=True))
    back.answer(PubRec, packet_id=_FIXED_ID)
    back.send(PubRel(_FIXED_ID))
    back.answer(PubComp, packet_id=_FIXED_ID)
    subscriber.one()
    came = room.settle(back, subscriber, qos=2)
    require(len(came) == 1, f"a publication that went on after a new connection was delivered {len(came)} times")
    return "PUBLISH again after a new connection, one delivery"


def _expires(room: Room) -> str:
    name, topic = room.client_id(), room.topic("t")
    first = room.peer("sub", client_id=name, clean=False, properties=((SESSION_EXPIRY, 1),))
    first.subscribe(topic, 1)
    first.disconnect()
    room.pause(3.2)
    back = room.peer("back", client_id=name, clean=False)
    require(not back.connack.session_present, "a session of 1 s is still there after 3.2 s")
    return "a session of 1 s is gone after 3.2 s"


def _expires_at_once(room: Room) -> str:
    name = room.client_id()
    first = room.peer("sub", client_id=name, clean=False, properties=((SESSION_EXPIRY, 0),))
    first.subscribe(room.topic("t"), 1)
    first.disconnect()
    back = room.peer("back", client_id=name, clean=False)
    require(not back.connack.session_present, "a session without an expiry interval outlived its connection")
    return "without an expiry interval the session ends with its connection"


CHECKS = (
    Check("session.present", "a kept session is said to be present", both("3.2.2.2", "3.2.2.1.1"), _present),
    Check("session.subscriptions", "subscriptions are kept", both("3.1.2.4", "4.1"), _subscriptions),
    Check("session.queue-1", "QoS 1: what came meanwhile is delivered in order", both("3.1.2.4", "4.5"),
          lambda room: _queue(room, 1)),
    Check("session.queue-2", "QoS 2: what came meanwhile is delivered in order", both("3.1.2.4", "4.5"),
          lambda room: _queue(room, 2)),
    Check("session.clean", "a clean start ends the old session", both("3.1.2.4"), _cleaned),
    Check("session.clean-ends", "a clean session is not kept", both("3.1.2.4", "3.1.2.11.2"), _gone_after_clean),
    Check("session.again", "QoS 1: what was not answered is sent again, with DUP", both("4.4"), _sent_again),
    Check("session.pubrel", "QoS 2: PUBREL is sent again", both("4.4"), _pubrel_again),
    Check("session.half", "QoS 2: a publication survives a new connection once", both("4.3.3"), _half_published),
    Check("session.expires", "a session ends after its expiry interval", {5: "3.1.2.11.2"}, _expires),
    Check("session.expires-0", "without an expiry interval it ends at once", {5: "3.1.2.11.2"}, _expires_at_once),
)  # fmt: skip
