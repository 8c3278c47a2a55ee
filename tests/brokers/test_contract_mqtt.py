"""What every broker does with messages, as far as its driver claims; and that what its driver names is really not kept.

An unnamed departure from MQTT fails here, and so does a named one that is not there.
"""

import contextlib
import socket

import pytest
from broker_rig import HOST, LOGINS, Client, expected_qos, new_topic, received_until_quiet

from brokerlab.brokers.base import Departure
from brokerlab.errors import RunError
from brokerlab.load.client import Login
from brokerlab.load.packets import LEVELS, ConnAck, Connect, SubAck, Subscribe
from brokerlab.load.parser import Parser
from brokerlab.study.values import Qos

pytestmark = pytest.mark.brokers
MESSAGES = 20
ROUNDS = 10  # Artemis disorders each of them, another broker perhaps one


def sent_and_received(broker, qos):
    """(the QoS granted, the messages received) of a round."""
    topic = new_topic()
    with Client(HOST, broker.port) as subscriber, Client(HOST, broker.port) as publisher:
        granted = subscriber.subscribe(topic, qos)
        for number in range(MESSAGES):
            publisher.publish(topic, str(number).encode(), qos=qos)
        return granted, received_until_quiet(subscriber, expected=MESSAGES)


@pytest.mark.parametrize("qos", list(Qos))
def test_messages_arrive_once_with_the_qos_that_is_claimed(broker, qos, record_property):
    if qos not in broker.driver.abilities.qos:
        outcome = tried(broker, qos)
        record_property(f"QoS {qos}", " / ".join(outcome))
        assert outcome != (f"granted {qos}", "handshake complete", f"delivered at {qos}"), "more than is claimed"
        return
    granted, messages = sent_and_received(broker, qos)

    assert granted == qos
    assert sorted(int(message.payload) for message in messages) == list(range(MESSAGES))
    expected = expected_qos(broker.driver.abilities, published=qos, subscribed=qos)
    assert {message.qos for message in messages} == {expected}
    assert not any(message.dup or message.retain for message in messages)


def tried(broker, qos):
    """What a broker makes of a QoS that it is not said to have: of the subscription, the publication, the delivery."""
    topic = new_topic()
    with Client(HOST, broker.port) as subscriber, Client(HOST, broker.port) as publisher:
        try:
            subscription = f"granted {subscriber.subscribe(topic, qos)}"
        except RunError as problem:
            return ("not subscribed: " + problem.message, "", "")
        try:
            publisher.publish(topic, b"x", qos=qos)
            publication = "handshake complete"
        except RunError as problem:
            publication = "not published: " + problem.message
        try:
            message = subscriber.receive(timeout_s=1)
        except RunError as problem:
            return (subscription, publication, "not delivered: " + problem.message)
        return (subscription, publication, f"delivered at {message.qos}" if message else "not delivered")


DISORDERS = {Qos.AT_MOST_ONCE: Departure.DISORDERS, Qos.AT_LEAST_ONCE: Departure.DISORDERS_QOS_1}


@pytest.mark.parametrize("qos", list(Qos))
def test_order_is_kept_unless_the_driver_says_otherwise(broker, qos):
    if qos not in broker.driver.abilities.qos:
        pytest.skip(f"{broker.driver.name} has no QoS {qos}")
    is_named = DISORDERS.get(qos) in broker.departs
    if not is_named and set(DISORDERS.values()) & set(broker.departs):
        pytest.skip(f"{broker.driver.name} at times disorders QoS {qos} too")
    for _ in range(ROUNDS if is_named else 2):
        _, messages = sent_and_received(broker, qos)
        numbers = [int(message.payload) for message in messages]
        if is_named and numbers != sorted(numbers):
            return
        assert is_named or numbers == list(range(MESSAGES))
    assert not is_named, f"{DISORDERS[qos]}: not seen in {ROUNDS} rounds"


def test_qos_of_a_delivery_is_the_lower_of_the_two_unless_the_driver_says_otherwise(broker):
    claimed = broker.driver.abilities.qos
    seen, expected = {}, {}
    for subscribed in claimed:
        topic = new_topic()
        with Client(HOST, broker.port) as subscriber, Client(HOST, broker.port) as publisher:
            assert subscriber.subscribe(topic, subscribed) == subscribed
            for published in claimed:
                publisher.publish(topic, str(int(published)).encode(), qos=published)
            for message in received_until_quiet(subscriber, expected=len(claimed)):
                seen[int(message.payload), int(subscribed)] = message.qos
        for published in claimed:
            expected[int(published), int(subscribed)] = expected_qos(
                broker.driver.abilities, published=published, subscribed=subscribed
            )

    assert seen == expected


@pytest.mark.parametrize("protocol", sorted(LEVELS))
def test_broker_speaks_the_versions_that_it_claims_and_no_other(broker, broker_for, protocol):
    topic, abilities = new_topic(), broker.driver.abilities
    if protocol not in abilities.protocols:
        with pytest.raises(RunError):
            Client(HOST, broker.port, protocol=protocol)
        return
    port = broker_for(protocol).port
    with Client(HOST, port, protocol=protocol) as subscriber, Client(HOST, port, protocol=protocol) as publisher:
        for qos in abilities.qos:
            assert subscriber.subscribe(f"{topic}/{qos}", qos) == qos
            publisher.publish(f"{topic}/{qos}", b"x", qos=qos)
        messages = received_until_quiet(subscriber, expected=len(abilities.qos))

    assert sorted((message.topic, message.qos) for message in messages) == [
        (f"{topic}/{qos}", expected_qos(abilities, published=qos, subscribed=qos)) for qos in abilities.qos
    ]


@pytest.mark.parametrize("level", ["+", "#"])
def test_wildcard_gets_what_it_matches_and_nothing_else(broker, level):
    base = new_topic()
    with Client(HOST, broker.port) as subscriber, Client(HOST, broker.port) as publisher:
        subscriber.subscribe(f"{base}/{level}", 1)
        for topic in (f"{base}/a", f"{base}x/a", f"{base}/a/b", f"{base}/c"):
            publisher.publish(topic, qos=1)
        has_all = level == "#" or Departure.WIDENS_PLUS in broker.departs
        expected = [f"{base}/a", f"{base}/a/b", f"{base}/c"] if has_all else [f"{base}/a", f"{base}/c"]
        messages = received_until_quiet(subscriber, expected=len(expected))

    assert sorted(message.topic for message in messages) == expected


def test_every_subscriber_gets_every_message(broker):
    topic = new_topic()
    with Client(HOST, broker.port) as one, Client(HOST, broker.port) as two, Client(HOST, broker.port) as publisher:
        for subscriber in (one, two):
            subscriber.subscribe(topic, 1)
        for number in range(3):
            publisher.publish(topic, str(number).encode(), qos=1)
        both = [received_until_quiet(subscriber, expected=3) for subscriber in (one, two)]

    assert [sorted(message.payload for message in messages) for messages in both] == [[b"0", b"1", b"2"]] * 2


def test_shared_subscriptions_are_as_claimed(broker):
    """Each message goes to one member of the group; a broker without them takes $share for the name of a topic."""
    topic, is_claimed = new_topic(), broker.driver.abilities.has_shared_subscriptions
    with Client(HOST, broker.port) as one, Client(HOST, broker.port) as two, Client(HOST, broker.port) as publisher:
        members = [member for member in (one, two) if is_granted(member, f"$share/group/{topic}")]
        for number in range(MESSAGES):
            publisher.publish(topic, str(number).encode(), qos=1)
        messages = []
        for member in members:
            with contextlib.suppress(*() if is_claimed else (RunError,)):
                messages += received_until_quiet(member, expected=1 if is_claimed else 0)

    expected = range(MESSAGES) if is_claimed else ()
    assert sorted(int(message.payload) for message in messages) == list(expected)


def is_granted(member, topic_filter):
    try:
        member.subscribe(topic_filter, 1)
    except RunError:
        return False
    return True


def test_subscription_before_the_connack_is_granted_unless_the_driver_says_otherwise(broker):
    """A client may send more before it has the CONNACK (MQTT 3.1.1 section 3.1.4)."""
    login = LOGINS.get(broker.port, Login())
    connect = Connect(f"quick-{new_topic()[-8:]}", 60, username=login.user, password=login.password)
    at_once = connect.encode() + Subscribe(1, ((new_topic(), 1),)).encode()
    parser, answers = Parser(), []
    with socket.create_connection((HOST, broker.port), timeout=5) as connection:
        connection.sendall(at_once)
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            while len(answers) < 2 and (data := connection.recv(1024)):
                answers += parser.feed(data)

    is_granted_at_once = [type(answer) for answer in answers] == [ConnAck, SubAck]
    assert is_granted_at_once == (Departure.CLOSES_AT_SUBSCRIBE not in broker.departs)


def test_retained_messages_are_as_claimed(broker):
    """Not always at once: in one run of many NATS had none for a subscription right behind the acknowledgement."""
    topic, kept = new_topic(), 0 if Departure.NO_RETAINED in broker.departs else 1
    with Client(HOST, broker.port) as publisher:
        for number in range(3):
            publisher.publish(topic, str(number).encode(), qos=1, retain=True)
        for _ in range(3):
            with Client(HOST, broker.port) as subscriber:
                subscriber.subscribe(topic, 1)
                messages = received_until_quiet(subscriber, expected=kept)
            if len(messages) >= kept:
                break
        publisher.publish(topic, b"", qos=1, retain=True)

    has_flag = Departure.NO_RETAIN_FLAG not in broker.departs
    expected = [(b"2", has_flag)] * kept
    assert [(message.payload, message.retain) for message in messages] == expected
