"""What a load asks of MQTT 5.0, through real workers and a real Mosquitto: on the wire, and nothing is lost."""

import threading
import time

import pyarrow.dataset as ds
import pytest
from broker_rig import running
from overheard import ANSWERED, ASKED, overheard

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver
from brokerlab.lab.cast import cast_of, specs_of
from brokerlab.lab.clients import clients_of
from brokerlab.lab.crossing import Door
from brokerlab.load.client import Client as Speaker
from brokerlab.load.content import LARGE_BYTES
from brokerlab.load.crew import Crew
from brokerlab.load.packets import ConnAck, Connect, Publish
from brokerlab.load.properties import (
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    RECEIVE_MAXIMUM,
    RESPONSE_TOPIC,
    SESSION_EXPIRY,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    USER_PROPERTY,
    number_of,
)
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.plan import Cell, PlannedRun
from brokerlab.study.values import (
    Behaviour,
    BrokerChoice,
    ClientLife,
    Echo,
    Qos,
    Roles,
    Schedule,
    SessionKind,
    Topics,
    Workload,
)

pytestmark = pytest.mark.brokers

TOPICS, TAKES = 12, 5


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    mosquitto = driver("mosquitto")
    if not isinstance(mosquitto.find(), Found):
        pytest.skip("Mosquitto is not installed: no other broker here has all of MQTT 5.0")
    with running(mosquitto, tmp_path_factory.mktemp("broker"), preset="lossless") as broker:
        yield broker.port


def run(workload, port, folder, *, seconds):
    """Who sent and who got what, by number; all that passed the wire is the relay's to tell."""
    planned = PlannedRun(Cell("cell", (), BrokerChoice("m", "mosquitto"), workload), 1, 1, seed=time.monotonic_ns())
    cast = cast_of(workload, clients_of(workload, seed=planned.seed), seed=planned.seed)
    specs = specs_of(planned, cast, doors=[Door(0, "127.0.0.1", port)], folder=folder)
    with Crew(specs) as crew:
        crew.connect(timeout_s=10)
        crew.subscribe(timeout_s=10)
        start_ns = time.monotonic_ns() + 50_000_000
        end_ns = start_ns + int(seconds * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + 30 * 10**9)
        assert crew.drain(cast.expected(sent), deadline_ns=time.monotonic_ns() + 30 * 10**9)
        stopped = crew.stop()
    assert all(not each.closed_by_broker for each in stopped.values())
    published, delivered = rows(folder, "publications"), rows(folder, "deliveries")
    assert all(row["acked_ns"] for row in published)
    return identities(published), identities(delivered)


def rows(folder, kind):
    return ds.dataset(RunDirectory(folder).raw(kind), format="parquet").to_table().to_pylist()


def identities(found):
    return sorted((row["publisher"], row["seq"]) for row in found)


def identity(packet):
    return int.from_bytes(packet.payload[8:12], "little"), int.from_bytes(packet.payload[12:16], "little")


def properties_of(packet):
    """User properties by name, the others by their number."""
    user = dict(value for identifier, value in packet.properties if identifier == USER_PROPERTY)
    return user | {identifier: value for identifier, value in packet.properties if identifier != USER_PROPERTY}


def told_topics(connection):
    """Of each message that was sent over it: identity, topic, and alias; a topic that was not told is a KeyError."""
    aliases, found = {}, []
    for packet in connection.of(ASKED, Publish):
        alias = number_of(packet.properties, TOPIC_ALIAS)
        if alias and packet.topic:
            aliases[alias] = packet.topic
        found.append((identity(packet), packet.topic or aliases[alias], alias))
    return found


def test_everything_at_once_over_connections_that_break_off(port, tmp_path):
    """Storms and sessions that last: each connection is told its aliases anew, and what it sends again is resolved.

    That the broker keeps to the receive maximum is not asserted: Mosquitto 2.0.11 does until a backlog is acknowledged.
    """
    asked = Mqtt5(
        user_properties=2, metadata=True, topic_alias=True, expiry_s=60, receive_maximum=TAKES,
        subscription_identifiers=True, response_topic=True, session_expiry_s=600,
    )  # fmt: skip
    workload = Workload(
        publishers=2, subscribers=1, payload_bytes=100, qos=Qos(1), protocol="5.0", mqtt5=asked,
        schedule=Schedule(rate_per_s=100), topics=Topics("five/{publisher}/{topic}", "five/#", count=TOPICS),
        clients=ClientLife(Behaviour.STORM, every_s=0.4, session=SessionKind.PERSISTENT),
    )  # fmt: skip

    with overheard(port) as (door, connections):
        published, delivered = run(workload, door, tmp_path, seconds=1.0)

    assert len(published) == 200
    assert sorted(set(delivered)) == published
    hearing = [each for each in connections if "s" in each.client_id[-2:]]
    sending = [each for each in connections if "p" in each.client_id[-2:]]
    for connection in connections:
        (connect,), (connack,) = connection.of(ASKED, Connect), connection.of(ANSWERED, ConnAck)
        assert connect.properties == ((SESSION_EXPIRY, 600), (RECEIVE_MAXIMUM, TAKES))
        assert connack.session_present == (connection in sending[2:])
    assert len(sending) > 2
    assert_aliases(sending)
    assert_arrived_with_everything(hearing)


def assert_aliases(sending):
    most = number_of(sending[0].of(ANSWERED, ConnAck)[0].properties, TOPIC_ALIAS_MAXIMUM)
    assert most
    for (publisher, seq), topic, alias in [each for connection in sending for each in told_topics(connection)]:
        assert topic == f"five/{publisher}/{seq % TOPICS}"
        assert alias == (seq % TOPICS + 1 if seq % TOPICS < most else None)
    for connection in sending[2:]:  # those after the first storm
        topics = [packet.topic for packet in connection.of(ASKED, Publish)]
        assert not topics or topics[0]
    assert any(not packet.topic for connection in sending[2:] for packet in connection.of(ASKED, Publish))


def assert_arrived_with_everything(hearing):
    (connection,) = hearing
    for packet in connection.of(ANSWERED, Publish):
        publisher, seq = identity(packet)
        found = properties_of(packet)
        assert int(found["order"]) == int.from_bytes(found[CORRELATION_DATA], "little") == seq
        assert len(set(found["unique_message_id"])) > 1
        assert float(found["publisher_send_time"]) / 1000 == pytest.approx(time.time(), abs=300)
        assert sorted(name[0] for name in found if isinstance(name, str)) == sorted("pp" + "upo")
        assert found[RESPONSE_TOPIC] == f"brokerlab-echo/{publisher}"
        assert 0 < found[MESSAGE_EXPIRY] <= 60
        assert found[SUBSCRIPTION_IDENTIFIER] == 1


@pytest.mark.parametrize("role", [Roles.LOOP, Roles.ECHO])
def test_who_hears_while_publishing_has_room_for_user_properties(port, tmp_path, role):
    """2.6 MB of them in each message, beside a payload of 16 B."""
    workload = Workload(
        publishers=1, subscribers=1, payload_bytes=16, qos=Qos(1), protocol="5.0", role=role,
        schedule=Schedule(rate_per_s=10), mqtt5=Mqtt5(user_properties=40, property_bytes=65_000),
    )  # fmt: skip

    published, delivered = run(workload, port, tmp_path, seconds=0.5)

    assert len(published) == 5
    assert delivered == published


@pytest.mark.parametrize("size", [3 << 20, 5 << 20])
def test_a_message_that_is_longer_than_any_of_ours_ends_no_connection(port, tmp_path, size):
    """Somebody else's, on the topic of a client that hears over the connection on which it publishes."""
    workload = Workload(
        publishers=1, subscribers=1, payload_bytes=16, qos=Qos(1), protocol="5.0", role=Roles.LOOP,
        topics=Topics("loud/{publisher}"), schedule=Schedule(rate_per_s=20),
    )  # fmt: skip

    is_over = threading.Event()

    def shout():
        """Now and then: nobody knows here when the client has subscribed."""
        with Speaker("127.0.0.1", port) as client:
            while not is_over.wait(0.5):
                client.publish("loud/0", bytes(size), qos=1)

    shouting = threading.Thread(target=shout)
    shouting.start()
    try:
        published, delivered = run(workload, port, tmp_path, seconds=3)
    finally:
        is_over.set()
        shouting.join()

    assert len(published) == 60
    assert {each for each in delivered if each in published} == set(published)
    assert size in {row["payload_bytes"] for row in rows(tmp_path, "deliveries")}


def test_large_requests_are_answered_where_they_say_with_their_own_number(port, tmp_path):
    """Role echo, payloads above 64 KiB, a topic that is told once."""
    workload = Workload(
        publishers=2, subscribers=1, payload_bytes=LARGE_BYTES + 1, qos=Qos(1), protocol="5.0", role=Roles.ECHO,
        echo=Echo(Qos(1)), schedule=Schedule(rate_per_s=20), topics=Topics("asks/{publisher}", "#"),
        mqtt5=Mqtt5(metadata=True, topic_alias=True, response_topic=True),
    )  # fmt: skip

    with overheard(port) as (door, connections):
        published, delivered = run(workload, door, tmp_path, seconds=0.5)

    assert len(published) == 20
    assert delivered == published
    requests = [packet for each in connections if "p" in each.client_id[-2:] for packet in each.of(ASKED, Publish)]
    assert [packet.topic for packet in requests if packet.topic] == ["asks/0", "asks/1"]
    answers = [packet for each in connections if "s" in each.client_id[-2:] for packet in each.of(ANSWERED, Publish)]
    for packet in (*requests, *answers):
        assert int.from_bytes(properties_of(packet)[CORRELATION_DATA], "little") == identity(packet)[1]
    assert {packet.topic for packet in answers} == {"brokerlab-echo/0", "brokerlab-echo/1"}
    assert sorted(int(properties_of(packet)["order"]) for packet in requests) == sorted([*range(10)] * 2)


def test_a_message_that_nobody_hears_is_acknowledged_with_that_reason(port, tmp_path):
    workload = Workload(
        qos=Qos(1), protocol="5.0", schedule=Schedule(rate_per_s=40), topics=Topics("alone/{publisher}")
    )
    spec = WorkerSpec(
        "publishers/0", 0, "127.0.0.1", port, (Client(0, "alone", "alone/0"),), workload, 1.0, 1, tmp_path
    )  # fmt: skip

    with Crew([spec]) as crew:
        crew.connect(timeout_s=10)
        start_ns = time.monotonic_ns() + 50_000_000
        crew.go(Go(start_ns, start_ns, start_ns + 250_000_000))
        crew.sent(deadline_ns=start_ns + 20 * 10**9)
        assert crew.settled(deadline_ns=start_ns + 30 * 10**9)
        (stopped,) = crew.stop().values()

    published = rows(tmp_path, "publications")
    assert [row["reason_code"] for row in published] == [0x10] * 10
    assert all(row["acked_ns"] >= row["sent_ns"] for row in published)
    assert stopped.acknowledgements["refused"] == 0
