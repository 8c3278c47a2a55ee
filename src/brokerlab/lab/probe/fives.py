"""What only MQTT 5.0 has: topic aliases, properties that are passed on, expiry, reason codes."""

from brokerlab.lab.probe.check import Check
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import (
    CONTENT_TYPE,
    PAYLOAD_FORMAT,
    Broken,
    Unsupported,
    require,
    value_of,
)
from brokerlab.load.packets import FIRST_FAILURE, Disconnect, PubAck, Publish
from brokerlab.load.properties import (
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    RESPONSE_TOPIC,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    USER_PROPERTY,
    Properties,
    number_of,
)

_NOBODY = 0x10
_ALIASES = 3


def _passed_on(room: Room, properties: Properties) -> Properties:
    publisher, subscriber, topic = room.pair(qos=1)
    publisher.publish(topic, b"x", qos=1, properties=properties)
    return subscriber.one().properties


def _user(room: Room) -> str:
    sent: Properties = tuple((USER_PROPERTY, pair) for pair in (("b", "1"), ("a", "2"), ("b", "3")))
    found = tuple(each for each in _passed_on(room, sent) if each[0] == USER_PROPERTY)
    require(found == sent, f"{[value for _, value in sent]} was sent and {[value for _, value in found]} came")
    return "three pairs, one name twice, came in their order"


def _request(room: Room) -> str:
    sent: Properties = (
        (PAYLOAD_FORMAT, 1),
        (CONTENT_TYPE, "text/plain"),
        (RESPONSE_TOPIC, room.topic("answer")),
        (CORRELATION_DATA, b"\x00\x01\xff"),
    )
    found = _passed_on(room, sent)
    lost = [f"{number:#04x}" for number, value in sent if value_of(found, number) != value]
    require(not lost, f"the properties {', '.join(lost)} were lost or changed")
    return "response topic, correlation data, content type and payload format came unchanged"


def _alias_in(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=1)
    if not number_of(publisher.connack.properties, TOPIC_ALIAS_MAXIMUM):
        raise Unsupported("CONNACK says that topic aliases are not taken")
    alias: Properties = ((TOPIC_ALIAS, 1),)
    publisher.publish(topic, b"1", qos=1, properties=alias)
    publisher.publish("", b"2", qos=1, properties=alias)
    publisher.publish(room.topic("other"), b"3", qos=1, properties=alias)
    publisher.publish("", b"4", qos=1, properties=alias)
    came = [(each.topic, each.payload) for each in room.settle(publisher, subscriber, qos=1)]
    require(came == [(topic, b"1"), (topic, b"2")], f"{[payload for _, payload in came]} came, not 1 and 2")
    return "set, used, set again to another topic: all as meant"


def _alias_out(room: Room) -> str:
    topic, publisher = room.topic("t"), room.peer("pub")
    subscriber = room.peer("sub", properties=((TOPIC_ALIAS_MAXIMUM, _ALIASES),))
    subscriber.subscribe(room.topic("#"), 1)
    topics = [topic, topic, *(room.topic(str(each)) for each in range(2 * _ALIASES)), topic]
    for each in topics:
        publisher.publish(each, each.encode(), qos=1)
    known: dict[int, str] = {}
    for message in subscriber.received(len(topics)):
        number = number_of(message.properties, TOPIC_ALIAS)
        if number is not None:
            require(1 <= number <= _ALIASES, f"the alias {number} was used, the client takes {_ALIASES}")
            if message.topic:
                known[number] = message.topic
        meant = message.topic or known.get(number or 0, "")
        require(meant == message.payload.decode(), "a delivery's alias does not stand for its topic")
    require(len(subscriber.messages) == len(topics), f"{len(subscriber.messages)} of {len(topics)} messages came")
    if not known:
        raise Unsupported("the broker uses no aliases of its own, which it may leave out")
    return f"{len(known)} aliases used, each for its topic"


def _alias_unasked(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=1)
    for _ in range(3):
        publisher.publish(topic, b"x", qos=1)
    used = [each for each in subscriber.received(3) if number_of(each.properties, TOPIC_ALIAS) is not None]
    require(not used, "an alias was sent to a client that takes none")
    return "no alias to a client that takes none"


def _alias_too_high(room: Room) -> str:
    publisher = room.peer("pub")
    highest = number_of(publisher.connack.properties, TOPIC_ALIAS_MAXIMUM) or 0
    if highest == 0xFFFF:
        raise Unsupported("the broker takes all aliases that there are")
    publisher.send(Publish(room.topic("t"), b"x", 1, 1, properties=((TOPIC_ALIAS, highest + 1),)))
    publisher.received_answer()
    refused = any(getattr(each, "reason_code", 0) >= FIRST_FAILURE for each in publisher.answers)
    require(not any(isinstance(each, PubAck) and not refused for each in publisher.answers),
            f"the alias {highest + 1} was taken, the broker's maximum is {highest}")  # fmt: skip
    require(refused or publisher.is_ended(), "neither refused nor closed")
    codes = [f"{each.reason_code:#04x}" for each in publisher.answers if isinstance(each, Disconnect | PubAck)]
    return f"alias {highest + 1} above the maximum: refused with {codes[0]}" if codes else "the connection was closed"


def _expires(room: Room) -> str:
    name, topic = room.client_id(), room.topic("t")
    first = room.peer("sub", client_id=name, clean=False)
    first.subscribe(topic, 1)
    first.disconnect()
    publisher = room.peer("pub")
    publisher.publish(topic, b"short", qos=1, properties=((MESSAGE_EXPIRY, 1),))
    publisher.publish(topic, b"long", qos=1, properties=((MESSAGE_EXPIRY, 60),))
    room.pause(2.3)
    back = room.peer("back", client_id=name, clean=False)
    payloads = [message.payload for message in room.settle(publisher, back, qos=1)]
    require(b"long" in payloads, "the message with an expiry of 60 s did not come")
    require(payloads == [b"long"], "a message of 1 s was delivered after 2.3 s")
    left_s = number_of(back.messages[0].properties, MESSAGE_EXPIRY)
    if left_s is None:
        raise Broken("the delivery does not say how long the message is still valid")
    require(left_s < 60, f"60 s were given, 2.3 s passed, and the delivery says {left_s} s")
    return f"1 s: gone after 2.3 s; 60 s: delivered with {left_s} s left"


def _retained_expires(room: Room) -> str:
    publisher, topic = room.peer("pub"), room.topic("t")
    room.retain(publisher, topic, b"short", properties=((MESSAGE_EXPIRY, 1),))
    room.pause(2.3)
    late = room.peer("late")
    late.subscribe(topic, 1)
    require(not room.settle(publisher, late, qos=1), "a retained message of 1 s was delivered after 2.3 s")
    return "a retained message of 1 s is gone after 2.3 s"


def _no_subscribers(room: Room) -> str:
    publisher = room.peer("pub")
    code = publisher.publish(room.topic("nobody"), b"x", qos=1)
    if code == 0:
        raise Unsupported("PUBACK 0x00 for a message that nobody subscribed to, which a broker may")
    require(code == _NOBODY, f"PUBACK says {code:#04x} for a message that nobody subscribed to")
    return "PUBACK 0x10, no matching subscribers"


def _some_subscribers(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=1)
    code = publisher.publish(topic, b"x", qos=1)
    subscriber.one()
    require(code == 0, f"PUBACK says {code:#04x} for a message that was delivered")
    return "PUBACK 0x00 for a message with a subscriber"


CHECKS = (
    Check("alias.in", "a publisher's topic aliases stand for their topics", {5: "3.3.2.3.4"}, _alias_in),
    Check("alias.out", "the broker's topic aliases stand for their topics", {5: "3.3.2.3.4"}, _alias_out),
    Check("alias.unasked", "no alias to a client that takes none", {5: "3.1.2.11.5"}, _alias_unasked),
    Check("alias.too-high", "an alias above the broker's maximum is refused", {5: "3.3.2.3.4"}, _alias_too_high),
    Check("property.user", "user properties are passed on in order", {5: "3.3.2.3.7"}, _user),
    Check("property.request", "request and response properties are passed on", {5: "3.3.2.3.5"}, _request),
    Check("property.expiry", "messages expire, and say what is left", {5: "3.3.2.3.3"}, _expires),
    Check("property.retained-expiry", "retained messages expire", {5: "3.3.2.3.3"}, _retained_expires),
    Check("reason.no-subscribers", "PUBACK says that nobody subscribed", {5: "3.4.2.1"}, _no_subscribers),
    Check("reason.subscribers", "PUBACK says success where somebody did", {5: "3.4.2.1"}, _some_subscribers),
)
