"""Retained messages."""

from collections.abc import Callable

from brokerlab.lab.probe.check import Check, Sections, both
from brokerlab.lab.probe.peer import Peer
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import (
    RETAIN_AS_PUBLISHED,
    RETAIN_AVAILABLE,
    RETAIN_IF_NEW,
    RETAIN_NEVER,
    Unsupported,
    require,
    value_of,
)
from brokerlab.load.packets import Publish


def _publisher(room: Room) -> Peer:
    publisher = room.peer("pub")
    if value_of(publisher.connack.properties, RETAIN_AVAILABLE) == 0:
        raise Unsupported("CONNACK says that retained messages are not available")
    return publisher


def _stored(room: Room, publisher: Peer, topic_filter: str, *, qos: int = 1) -> list[Publish]:
    """What a new subscription gets."""
    subscriber = room.peer("late")
    subscriber.subscribe(topic_filter, qos)
    return room.settle(publisher, subscriber, qos=min(qos & 3, 1))


def _kept(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    room.retain(publisher, topic, b"kept")
    came = _stored(room, publisher, topic)
    require([message.payload for message in came] == [b"kept"], f"a new subscription got {len(came)} messages, not 1")
    require(came[0].retain, "the stored message came without RETAIN")
    return "a new subscription gets it, with RETAIN"


def _replaced(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    for payload in (b"old", b"new"):
        room.retain(publisher, topic, payload)
    payloads = [message.payload for message in _stored(room, publisher, topic)]
    require(payloads == [b"new"], f"a new subscription got {payloads}, not the last one")
    return "only the last one is kept"


def _cleared(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    live = room.peer("live")
    live.subscribe(topic, 1)
    room.retain(publisher, topic, b"kept")
    room.retain(publisher, topic, b"")
    came = _stored(room, publisher, topic)
    require(not came, "an empty payload did not clear the retained message")
    heard = [message.payload for message in live.received(2)]
    require(heard == [b"kept", b""], f"an existing subscription got {heard}, not the message and the empty one")
    return "cleared by the empty payload, which live subscribers get as a message"


def _live(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    live = room.peer("live")
    live.subscribe(topic, 1)
    room.retain(publisher, topic, b"x")
    require(not live.one().retain, "a live delivery to an existing subscription carries RETAIN")
    return "an existing subscription gets it without RETAIN"


def _at_lower_qos(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    room.retain(publisher, topic, b"x", qos=1)
    qos = [[message.qos for message in _stored(room, publisher, topic, qos=asked)] for asked in (0, 1, 2)]
    require(qos == [[0], [1], [1]], f"kept at QoS 1, subscribed at 0, 1 and 2, delivered at {qos}")
    return "kept at QoS 1, subscribed at 0, 1, 2: delivered at 0, 1, 1"


def _again(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    room.retain(publisher, topic, b"x")
    subscriber = room.peer("sub")
    for _ in range(2):
        subscriber.subscribe(topic, 1)
    came = room.settle(publisher, subscriber, qos=1)
    require(len(came) == 2, f"subscribed twice, and the retained message came {len(came)} times")
    return "a repeated SUBSCRIBE gets it again"


def _by_wildcard(room: Room) -> str:
    publisher = _publisher(room)
    for name in ("a", "b"):
        room.retain(publisher, room.topic(name, "t"), name.encode())
    payloads = sorted(message.payload for message in _stored(room, publisher, room.topic("+", "t")))
    require(payloads == [b"a", b"b"], f"a wildcard got {payloads}, not both retained messages")
    return "a wildcard gets every retained message that it matches"


def _not_by_others(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    room.retain(publisher, topic, b"kept")
    publisher.publish(topic, b"passing", qos=1)
    payloads = [message.payload for message in _stored(room, publisher, topic)]
    require(payloads == [b"kept"], f"a new subscription got {payloads}, not what was retained")
    return "a message without RETAIN leaves it alone"


def _if_new(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    room.retain(publisher, topic, b"x")
    subscriber = room.peer("sub")
    subscriber.subscribe(topic, 1 | RETAIN_IF_NEW)
    first = len(room.settle(publisher, subscriber, qos=1))
    subscriber.subscribe(topic, 1 | RETAIN_IF_NEW)
    both_times = len(room.settle(publisher, subscriber, qos=1))
    require((first, both_times) == (1, 1), f"it came {first} times with a new and {both_times - first} with an old one")
    return "retain handling 1: sent to the new subscription, not to the repeated one"


def _never(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    room.retain(publisher, topic, b"x")
    came = _stored(room, publisher, topic, qos=1 | RETAIN_NEVER)
    require(not came, "it was sent although retain handling is 2")
    return "retain handling 2: not sent"


def _as_published(room: Room) -> str:
    publisher, topic = _publisher(room), room.topic("t")
    live = room.peer("live")
    live.subscribe(topic, 1 | RETAIN_AS_PUBLISHED)
    room.retain(publisher, topic, b"x")
    publisher.publish(topic, b"y", qos=1)
    flags = [message.retain for message in live.received(2)]
    require(flags == [True, False], f"published with and without RETAIN, delivered with {flags}")
    return "retain as published: RETAIN came as it was sent"


def _check(name: str, title: str, sections: Sections, run: Callable[[Room], str]) -> Check:
    """Alone: amqtt sends retained messages to clients that did not ask for them, and breaks down over many."""
    return Check(name, title, sections, run, is_alone=True)


CHECKS = (
    _check("retained.kept", "a new subscription gets the retained message, with RETAIN", both("3.3.1.3"), _kept),
    _check("retained.replaced", "a newer one replaces it", both("3.3.1.3"), _replaced),
    _check("retained.cleared", "an empty payload clears it", both("3.3.1.3"), _cleared),
    _check("retained.live", "a live delivery has no RETAIN", both("3.3.1.3"), _live),
    _check("retained.qos", "delivered at the lower of its QoS and that granted", both("3.8.4"), _at_lower_qos),
    _check("retained.again", "a repeated SUBSCRIBE gets it again", both("3.8.4"), _again),
    _check("retained.wildcard", "a wildcard gets all that match", both("3.3.1.3"), _by_wildcard),
    _check("retained.others", "a message without RETAIN leaves it alone", both("3.3.1.3"), _not_by_others),
    _check("retained.handling-1", "retain handling 1: only to a new subscription", {5: "3.8.3.1"}, _if_new),
    _check("retained.handling-2", "retain handling 2: never", {5: "3.8.3.1"}, _never),
    _check("retained.as-published", "retain as published", {5: "3.8.3.1"}, _as_published),
)
