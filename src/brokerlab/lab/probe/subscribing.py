"""Subscriptions, wildcards, topics, shared subscriptions."""

import contextlib

from brokerlab.lab.probe.check import Check, both, every
from brokerlab.lab.probe.peer import Peer
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import (
    NO_LOCAL,
    SHARED_AVAILABLE,
    SUBSCRIPTION_ID_AVAILABLE,
    Broken,
    Unsupported,
    require,
    value_of,
)
from brokerlab.load.packets import FIRST_FAILURE
from brokerlab.load.properties import SUBSCRIPTION_IDENTIFIER

_SHARED = 20
_LISTEN_S = 0.2
_NO_SUBSCRIPTION = 0x11


def _unsubscribe(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=1)
    answer = subscriber.unsubscribe(topic)
    if room.level == 5:
        require(answer.reason_codes == (0,), f"UNSUBACK says {answer.reason_codes}, not success")
    publisher.publish(topic, b"x", qos=1)
    came = room.settle(publisher, subscriber, qos=1)
    require(not came, "a message came after UNSUBACK")
    return "UNSUBACK, and no message after it"


def _unsubscribe_unknown(room: Room) -> str:
    answer = room.peer("sub").unsubscribe(room.topic("never"))
    if room.level == 5:
        require(answer.reason_codes == (_NO_SUBSCRIPTION,), f"UNSUBACK says {answer.reason_codes}, not 0x11")
    return "UNSUBACK for a filter that was never subscribed"


def _replace(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=2)
    subscriber.subscribe(topic, 0)
    publisher.publish(topic, b"x", qos=1)
    subscriber.one()
    came = room.settle(publisher, subscriber)
    require(len(came) == 1, f"subscribed twice to one filter, one message came {len(came)} times")
    require(came[0].qos == 0, f"subscribed again at QoS 0, delivered at QoS {came[0].qos}")
    return "one copy, at the QoS of the second SUBSCRIBE"


def _overlap(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=0)
    subscriber.subscribe(room.topic("#"), 2)
    publisher.publish(topic, b"x", qos=2)
    subscriber.one()
    qos = [message.qos for message in room.settle(publisher, subscriber, qos=2)]
    require(max(qos) == 2, f"granted 0 and 2, published at 2, delivered at {max(qos)}")
    require(len(qos) <= 2, f"two filters match, and {len(qos)} copies came")
    return f"delivered at the highest QoS granted, {len(qos)} {'copy' if len(qos) == 1 else 'copies'}"


def _stray(room: Room) -> str:
    """With a retained message and a subscriber about, so that there is something to get."""
    publisher, subscriber, topic = room.pair(qos=1)
    room.retain(publisher, topic, b"x")
    other = room.peer("other")
    other.takes_strays = True
    other.listen(_LISTEN_S)
    publisher.publish(topic, b"y", qos=1)
    came = [message.topic for message in room.settle(publisher, other)]
    require(not came, f"a client that subscribed to nothing got {len(came)} messages")
    require(bool(subscriber.messages or subscriber.received(1)), "the subscriber got nothing")
    return "a client that subscribed to nothing got nothing"


def _no_local(room: Room) -> str:
    both_ways, topic = room.peer("both"), room.topic("t")
    both_ways.subscribe(topic, 1 | NO_LOCAL)
    both_ways.publish(topic, b"own", qos=1)
    other = room.peer("other")
    other.publish(topic, b"other", qos=1)
    payloads = [message.payload for message in room.settle(other, both_ways, qos=1)]
    require(payloads == [b"other"], f"{payloads} came, not the other's message alone")
    return "no local: its own message did not come back, the other's did"


def _identified(room: Room) -> str:
    publisher, subscriber = room.peer("pub"), room.peer("sub")
    if value_of(subscriber.connack.properties, SUBSCRIPTION_ID_AVAILABLE) == 0:
        raise Unsupported("CONNACK says that subscription identifiers are not available")
    subscriber.subscribe(room.topic("t"), 1, properties=((SUBSCRIPTION_IDENTIFIER, 7),))
    subscriber.subscribe(room.topic("#"), 1, properties=((SUBSCRIPTION_IDENTIFIER, 300),))
    publisher.publish(room.topic("t"), b"x", qos=1)
    subscriber.one()
    came = room.settle(publisher, subscriber, qos=0)
    found = sorted(value for each in came for number, value in each.properties if number == SUBSCRIPTION_IDENTIFIER)
    require(found == [7, 300], f"two filters with the identifiers 7 and 300 match, the delivery has {found}")
    return f"both identifiers came, in {len(came)} {'copy' if len(came) == 1 else 'copies'}"


def _matched(room: Room, topic_filter: str, topics: dict[str, bool]) -> str:
    """Publishes on every topic and holds what came against what should."""
    publisher, subscriber, _ = room.pair(qos=1, topic_filter=topic_filter)
    for topic in topics:
        publisher.publish(topic, b"x", qos=1)
    came = {message.topic for message in room.settle(publisher, subscriber, qos=1)}
    short = {topic: topic.replace(room.base, "~") for topic in topics}
    missing = [short[topic] for topic, matches in topics.items() if matches and topic not in came]
    wrong = [short[topic] for topic, matches in topics.items() if not matches and topic in came]
    shown = topic_filter.replace(room.base, "~")
    require(not missing, f"{shown} did not get {', '.join(missing)}")
    require(not wrong, f"{shown} got {', '.join(wrong)}")
    return f"{shown} got {', '.join(short[topic] for topic in topics if topics[topic])} and nothing else"


def _plus(room: Room) -> str:
    base = room.topic()
    topics = {f"{base}/a/z": True, f"{base}/b/z": True, f"{base}/a/b/z": False, f"{base}/z": False, f"{base}/a": False}
    return _matched(room, f"{base}/+/z", topics)


def _plus_at_end(room: Room) -> str:
    base = room.topic()
    return _matched(room, f"{base}/+", {f"{base}/a": True, base: False, f"{base}/a/b": False})


def _empty_level(room: Room) -> str:
    base = room.topic()
    return _matched(room, f"{base}/+/z", {f"{base}//z": True, f"{base}/z": False})


def _hash(room: Room) -> str:
    base = room.topic()
    return _matched(room, f"{base}/#", {f"{base}/a": True, f"{base}/a/b/c": True, f"{base}x": False})


def _hash_parent(room: Room) -> str:
    base = room.topic("p")
    return _matched(room, f"{base}/#", {base: True})


def _exact(room: Room) -> str:
    base = room.topic()
    topics = {f"{base}/A": True, f"{base}/a": False, f"{base}/A/b": False, f"/{base}/A": False}
    return _matched(room, f"{base}/A", topics)


def _dollar(room: Room) -> str:
    rest = room.topic("t")
    own, publisher = room.peer("own"), room.peer("pub")
    with contextlib.suppress(Broken):  # a broker may keep such topics from its clients, in whatever way
        own.ask(f"$brokerlab/{rest}", 1)
    filters = [f"+/{rest}"] + (["#"] if room.place.is_ours else [])  # nobody else's broker is asked for everything
    subscribers = [room.peer(f"wild{place}") for place in range(len(filters))]
    for subscriber, topic_filter in zip(subscribers, filters, strict=True):
        subscriber.subscribe(topic_filter, 0)
    publisher.publish(f"$brokerlab/{rest}", b"x")
    publisher.listen(_LISTEN_S)
    publisher = room.peer("pub2")  # the other one may be closed, or not be listened to any more
    for subscriber, topic_filter in zip(subscribers, filters, strict=True):
        came = [message.topic for message in room.settle(publisher, subscriber)]
        require(
            f"$brokerlab/{rest}" not in came, f"{topic_filter.replace(room.base, '~')} got a topic that begins with $"
        )
    routed = "was delivered where it was named" if own.messages else "is taken from clients, but not delivered"
    return f"no leading wildcard got it; a topic that begins with $ {routed}"


def _unchanged(room: Room, topic: str) -> None:
    """A message on this topic arrives on this topic."""
    publisher, subscriber = room.peer("pub"), room.peer("sub")
    if (code := subscriber.ask(topic, 1)) >= FIRST_FAILURE:
        raise Unsupported(f"such a topic was refused with {code:#04x}")
    publisher.publish(topic, b"x", qos=1)
    require(subscriber.one().topic == topic, "the topic came changed")


def _utf8(room: Room) -> str:
    _unchanged(room, room.topic("größe", "温度", "🌡"))
    return "letters of two, three and four bytes came unchanged"


def _space(room: Room) -> str:
    _unchanged(room, room.topic("a b", "c.d", "e*f"))
    return "a space, a full stop and an asterisk are letters like others"


def _long_topic(room: Room) -> str:
    topic = room.topic("x" * 1000)
    _unchanged(room, topic)
    return f"a topic of {len(topic)} bytes came unchanged"


def _group(room: Room, topic: str) -> str:
    return f"$share/{room.base.split('/')[1]}/{topic}"


def _share(room: Room, names: tuple[str, ...]) -> tuple[Peer, list[Peer], str]:
    publisher, topic = room.peer("pub"), room.topic("t")
    if value_of(publisher.connack.properties, SHARED_AVAILABLE) == 0:
        raise Unsupported("CONNACK says that shared subscriptions are not available")
    members = [room.peer(name) for name in names]
    for member in members:
        code = member.ask(_group(room, topic), 1)
        if code >= FIRST_FAILURE:
            raise Unsupported(f"$share was refused with {code:#04x}")
    return publisher, members, topic


def _shared(room: Room) -> str:
    publisher, members, topic = _share(room, ("one", "two"))
    for number in range(_SHARED):
        publisher.publish(topic, bytes((number,)), qos=1)
    each = [[message.payload[0] for message in room.settle(publisher, member, qos=1)] for member in members]
    got = sorted(number for numbers in each for number in numbers)
    if not got and room.level < 5:
        raise Unsupported("$share was granted as if it were a topic; nothing was delivered")
    copies = len(got) / max(len(set(got)), 1)
    require(got == list(range(_SHARED)), f"{len(set(got))} of {_SHARED} messages came, {copies:g} times each")
    return f"{_SHARED} messages, each to one of two: {len(each[0])} and {len(each[1])}"


def _shared_beside(room: Room) -> str:
    publisher, (member,), topic = _share(room, ("member",))
    publisher.publish(topic, b"1", qos=1)
    if not room.settle(publisher, member, qos=1) and room.level < 5:
        raise Unsupported("$share was granted as if it were a topic; nothing was delivered")
    plain = room.peer("plain")
    plain.subscribe(topic, 1)
    publisher.publish(topic, b"2", qos=1)
    counts = [len(room.settle(publisher, peer, qos=1)) for peer in (member, plain)]
    require(counts == [2, 1], f"the group got {counts[0]} of 2, the subscriber beside it {counts[1]} of 1 messages")
    return "the group gets it once, a subscriber beside it as well"


def _shared_names(room: Room) -> str:
    publisher, (one,), topic = _share(room, ("one",))
    two, other = room.peer("two"), room.topic("other")
    two.ask(_group(room, other), 1)
    for number in range(_SHARED):
        publisher.publish(topic if number % 2 else other, b"x", qos=1)
    came = [[message.topic for message in room.settle(publisher, peer, qos=1)] for peer in (one, two)]
    got, counts = [set(topics) for topics in came], [len(topics) for topics in came]
    if not any(counts) and room.level < 5:
        raise Unsupported("$share was granted as if it were a topic; nothing was delivered")
    require(got == [{topic}, {other}], "a member got messages of the other filter, or none of its own")
    require(counts == [_SHARED // 2] * 2, f"{counts} messages came, not {_SHARED // 2} to each group")
    return f"{_SHARED // 2} messages to each of two groups of the same name"


def _shared_retained(room: Room) -> str:
    publisher, (member,), topic = _share(room, ("member",))
    room.retain(publisher, topic, b"x")
    late = room.peer("late")
    late.ask(_group(room, topic), 1)
    came = room.settle(publisher, late, qos=1)
    if came and not came[0].retain:
        raise Broken("a message came twice to one group")
    require(not came, "a new member of a group got the retained message")
    member.listen(0)
    return "a new member gets no retained message"


CHECKS = (
    Check("subscribe.unsubscribe", "no message after UNSUBACK", every("3.10", "3.10.4"), _unsubscribe),
    Check("subscribe.unsubscribe-unknown", "UNSUBACK also for what was not subscribed", both("3.10.4", "3.11.3"),
          _unsubscribe_unknown),
    Check("subscribe.replace", "a second SUBSCRIBE of a filter replaces the first", both("3.8.4"), _replace),
    Check("subscribe.overlap", "overlapping filters: the highest QoS granted", both("3.3.5", "3.3.4"), _overlap),
    Check("subscribe.stray", "no message without a subscription", both("3.3.5", "3.3.4"), _stray, is_alone=True),
    Check("subscribe.no-local", "no local: not one's own messages", {5: "3.8.3.1"}, _no_local),
    Check("subscribe.identifier", "a delivery has the identifiers of its subscriptions", {5: "3.3.4"}, _identified),
    Check("wildcard.plus", "+ matches one level", both("4.7.1.3"), _plus),
    Check("wildcard.plus-end", "+ at the end does not match its parent", both("4.7.1.3"), _plus_at_end),
    Check("wildcard.empty-level", "+ matches an empty level", both("4.7.1.3"), _empty_level),
    Check("wildcard.hash", "# matches all levels below", both("4.7.1.2"), _hash),
    Check("wildcard.hash-parent", "# matches its parent", both("4.7.1.2"), _hash_parent),
    Check("wildcard.exact", "topics are compared letter by letter", both("4.7.3"), _exact),
    Check("wildcard.dollar", "no leading wildcard matches a topic that begins with $", both("4.7.2"), _dollar,
          is_alone=True),
    Check("topic.utf8", "topics are UTF-8", both("1.5.3", "1.5.4"), _utf8),
    Check("topic.space", "topics may hold spaces and signs", both("4.7.3"), _space),
    Check("topic.long", "topics may be long", both("4.7.3"), _long_topic),
    Check("share.once", "each message to one of a group", both("4.8.2 of 5.0", "4.8.2"), _shared),
    Check("share.beside", "a group takes nothing from others", both("4.8.2 of 5.0", "4.8.2"), _shared_beside),
    Check("share.names", "one name with two filters is two groups", both("4.8.2 of 5.0", "4.8.2"), _shared_names),
    Check("share.retained", "no retained message for a new member", {5: "4.8.2"}, _shared_retained, is_alone=True),
)  # fmt: skip
