"""The null broker on real sockets: it counts, acknowledges and plays as it says."""

import json
import socket
import threading
import tracemalloc
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerlab.lab.certificates import Authority, keep
from brokerlab.load import nullwalk, wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.client import Client, Login
from brokerlab.load.nullbroker import CONTROL_TOPIC, NullBroker, main
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import ConnAck, Connect, PubAck, PubComp, Publish, PubRec, PubRel
from brokerlab.load.playing import WINDOW, Count, Play, Player, Subscription, rest_of
from brokerlab.load.properties import USER_PROPERTY
from brokerlab.load.served import server_context
from brokerlab.load.spec import Entrance
from brokerlab.load.topics import PROOF_PREFIX
from brokerlab.study.values import Transport

pytestmark = pytest.mark.unit
PLAIN = np.frombuffer(nullwalk.PLAIN_PREFIX.encode(), dtype=np.uint8).copy()


@contextmanager
def null_broker(transport=Transport.TCP, context=None):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = NullBroker(listener, transport, context)
        thread = threading.Thread(target=broker.serve)
        thread.start()
        try:
            yield broker, listener.getsockname()[1]
        finally:
            broker.stop()
            thread.join()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publisher_is_acknowledged_and_counted(qos):
    with null_broker() as (broker, port), Client("127.0.0.1", port) as client:
        for _ in range(50):
            client.publish("null/0", b"x" * 20, qos=qos)
        client.publish("null/0", b"", qos=1)  # acknowledged: what came before is read too

    assert broker.count.received == 51
    assert broker.count.received_payload_bytes == 1000
    assert broker.count.released == (50 if qos == 2 else 0)


def test_the_readiness_proof_comes_back_and_is_not_load():
    with null_broker() as (broker, port), Client("127.0.0.1", port) as client:
        client.subscribe(PROOF_PREFIX + "x", 0)
        client.publish(PROOF_PREFIX + "x", b"hello")
        echo = client.receive(timeout_s=10)

    assert echo.payload == b"hello"
    assert broker.count.received == 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_subscriber_is_played_messages_in_order_with_their_identity(qos):
    with null_broker() as (broker, port), Client("127.0.0.1", port) as client:
        client.subscribe("null/#", qos)
        began_ns = now_ns()
        order = {"start_ns": began_ns, "end_ns": began_ns + 60_000_000_000, "payload_bytes": 40}
        client.publish(CONTROL_TOPIC, json.dumps(order).encode())
        messages = [client.receive(timeout_s=10) for _ in range(100)]

    identities = [np.frombuffer(each.payload[8:16], dtype="<u4").tolist() for each in messages]
    assert identities == [[0, seq] for seq in range(100)]
    assert {(each.topic, len(each.payload), each.qos) for each in messages} == {("null/0", 40, qos)}
    assert all(int.from_bytes(each.payload[:8], "little") >= began_ns for each in messages)
    assert broker.count.played >= 100
    assert broker.count.unknown == 0
    if qos:
        assert broker.count.played - broker.count.completed <= WINDOW


def test_who_is_played_messages_may_answer_them_among_its_acknowledgements():
    with null_broker() as (broker, port), Client("127.0.0.1", port) as client:
        client.subscribe("null/+", 2)
        began_ns = now_ns()
        order = {"start_ns": began_ns, "end_ns": began_ns + 60_000_000_000, "payload_bytes": 40}
        client.publish(CONTROL_TOPIC, json.dumps(order).encode())
        for number in range(30):
            message = client.receive(timeout_s=10)
            client.publish("null-echo/0", message.payload, qos=number % 3)
        client.publish("null-echo/0", b"", qos=1)  # acknowledged: what came before is read too

    assert (message.topic, broker.count.received, broker.count.released) == ("null/0", 31, 10)
    assert (broker.count.repeated, broker.count.unknown) == (0, 0)


@pytest.mark.parametrize(("more", "sizes"), [({"payload_bytes": 3}, {3}), ({"mix": [[0, 50.0], [40, 50.0]]}, {0, 40})])
def test_short_payloads_and_several_sizes_are_played(more, sizes):
    with null_broker() as (_broker, port), Client("127.0.0.1", port) as client:
        client.subscribe("null/+", 0)
        began_ns = now_ns()
        order = {"start_ns": began_ns, "end_ns": began_ns + 60_000_000_000, "payload_bytes": 40} | more
        client.publish(CONTROL_TOPIC, json.dumps(order).encode())
        messages = [client.receive(timeout_s=10) for _ in range(300)]

    assert {len(each.payload) for each in messages} == sizes
    if 0 not in sizes:  # the low bytes of the number
        assert [int.from_bytes(each.payload, "little") for each in messages] == list(range(300))


@contextmanager
def everywhere(folder, transport, protocol):
    """A null broker of this transport, with what lets a client in."""
    if not transport.is_encrypted:
        with null_broker(transport) as (broker, port):
            yield broker, port, Login(Entrance(transport), protocol=protocol)
        return
    authority = Authority()
    certificate, key = authority.broker("127.0.0.1")
    context = server_context(keep(folder, "broker.pem", certificate), keep(folder, "broker.key", key))
    login = Login(Entrance(transport, keep(folder, "authority.pem", authority.pem)), protocol=protocol)
    with null_broker(transport, context) as (broker, port):
        yield broker, port, login


@pytest.mark.parametrize("protocol", ["3.1", "3.1.1", "5.0"])
@pytest.mark.parametrize("transport", list(Transport))
def test_every_transport_and_version_is_counted_and_played_to(tmp_path, transport, protocol):
    with everywhere(tmp_path, transport, protocol) as (broker, port, login):
        with Client("127.0.0.1", port, login=login) as client:
            for qos in (0, 1, 2):
                client.publish("null/0", b"x" * 300_000, qos=qos)
        with Client("127.0.0.1", port, login=login) as client:
            client.subscribe("null/#", 1)
            began_ns = now_ns()
            order = {"start_ns": began_ns, "end_ns": began_ns + 60_000_000_000, "payload_bytes": 40}
            client.publish(CONTROL_TOPIC, json.dumps(order).encode())
            messages = [client.receive(timeout_s=10) for _ in range(2_000)]

    assert (broker.count.received, broker.count.received_payload_bytes) == (3, 900_000)
    assert [int.from_bytes(each.payload[12:16], "little") for each in messages] == list(range(2_000))
    assert broker.count.unknown == 0


@contextmanager
def at_most_more(count):
    """Python's own memory, NumPy's included, grows by so many bytes or less."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < count
    finally:
        tracemalloc.stop()


def test_half_messages_of_many_publishers_take_no_memory_for_their_payloads():
    packet = Publish("null/0", b"x" * 500_000, 1, 7).encode(4)
    with null_broker() as (broker, port), ExitStack() as stack, at_most_more(6_000_000):
        witness = stack.enter_context(Client("127.0.0.1", port))
        publishers = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(30)]
        for each in publishers:
            each.sendall(Connect("").encode(4))
        for begin in (0, 200_000, 400_000):
            for each in publishers:
                each.sendall(packet[begin : begin + 200_000])
            for _ in range(3):  # when these are acknowledged it has read what came before
                witness.publish("null/1", b"", qos=1)
        answers = ConnAck().encode(4) + PubAck(7).encode()
        assert all(each.makefile("rb").read(len(answers)) == answers for each in publishers)

    assert (broker.count.received, broker.count.received_payload_bytes) == (39, 15_000_000)


def test_many_subscribers_share_a_long_payload():
    class Full:
        def send(self, data):
            raise BlockingIOError

    play, count = Play(0, 2**62, payload_bytes=1 << 20), Count()
    with at_most_more(30 << 20):
        rest = rest_of(play, players=200)
        players = [Player(Subscription("a/#", 1, 4), Outbox(Full()), play, players=200, rest=rest) for _ in range(200)]
        for each in players:
            each.fill(1, count)

    assert count.played >= len(players) == 200


def test_a_long_message_is_whole():
    with null_broker() as (broker, port), Client("127.0.0.1", port) as client:
        client.subscribe("null/#", 1)
        began_ns = now_ns()
        order = {"start_ns": began_ns, "end_ns": began_ns + 60_000_000_000, "payload_bytes": 300_000}
        client.publish(CONTROL_TOPIC, json.dumps(order).encode())
        messages = [client.receive(timeout_s=10) for _ in range(3)]

    assert [int.from_bytes(each.payload[12:16], "little") for each in messages] == [0, 1, 2]
    assert {len(each.payload) for each in messages} == {300_000}
    assert broker.count.unknown == 0


def test_a_message_of_mqtt_5_is_played_with_the_properties_of_the_order():
    with null_broker() as (_, port), Client("127.0.0.1", port, protocol="5.0") as client:
        client.subscribe("null/0", 0)
        began_ns = now_ns()
        block = bytes([USER_PROPERTY]) + b"\0\1a\0\2bc"
        order = {"start_ns": began_ns, "end_ns": began_ns + 60_000_000_000, "properties": block.hex()}
        client.publish(CONTROL_TOPIC, json.dumps(order).encode())
        message = client.receive(timeout_s=10)

    assert message.properties == ((USER_PROPERTY, ("a", "bc")),)
    assert len(message.payload) == 64


@pytest.mark.parametrize("said", [[], ["x"], ["1", "sctp"], ["1", "tls"], ["1", "wss", "no-such-file", "b"]])
def test_a_null_broker_that_is_told_too_little_says_what_it_needs(said, capsys):
    assert main(said) == 64
    assert "usage: python -m brokerlab.load.nullbroker PORT" in capsys.readouterr().err


def test_bytes_that_are_not_mqtt_end_the_connection_and_not_the_broker():
    with null_broker() as (broker, port):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
            stranger.sendall(b"\xff\xff\xff\xff\xff\xff")
            assert stranger.recv(1) == b""
        with Client("127.0.0.1", port) as client:
            client.publish("null/0", b"still here", qos=1)

    assert broker.count.received == 1


publications = st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=200), st.integers(1, 60)), max_size=30)


@given(publications, st.integers(1, 64), st.sampled_from([4, 5]), st.integers(0, 30))
def test_the_walk_answers_as_the_plain_packets_would_however_the_stream_is_cut(sent, cut, level, properties):
    said = ((USER_PROPERTY, ("name", "value")),) * properties if level == 5 else ()
    packets = [Publish("a/b", payload, qos, number if qos else None, properties=said) for qos, payload, number in sent]
    packets = [part for each in packets for part in ([each, PubRel(each.packet_id)] if each.qos == 2 else [each])]
    stream = b"".join(each.encode(level) for each in packets)
    held, counts = np.zeros(65_536, dtype=np.uint8), np.zeros(4, dtype=np.int64)
    answers, rest, skipped = b"", b"", 0
    for begin in range(0, len(stream), cut):
        data = np.frombuffer(rest + b"?" * skipped + stream[begin : begin + cut], dtype=np.uint8).copy()
        at, why = 0, wire.FULL
        acks = np.empty(8, dtype=np.uint8)  # small, so that it fills up
        while why == wire.FULL:
            at, used, why = nullwalk.walk_publications(data, data.size, at, level, PLAIN, held, acks, counts)
            answers += acks[:used].tobytes()
        assert why == wire.NEED_MORE
        looked_at = nullwalk.looked_at(data, data.size, at, level, PLAIN)
        rest, skipped = data[at : at + looked_at].tobytes(), data.size - at - looked_at

    plain = {Publish: lambda each: [b"", PubAck, PubRec][each.qos], PubRel: lambda _: PubComp}
    kinds = [(plain[type(each)](each), each.packet_id) for each in packets]
    assert answers == b"".join(kind(number).encode() for kind, number in kinds if kind)
    assert (rest, skipped) == (b"", 0)
    assert counts[nullwalk.MESSAGES] == len(sent)
    assert counts[nullwalk.PAYLOAD_BYTES] == sum(len(payload) for _, payload, _ in sent)


def test_an_acknowledgement_of_nothing_is_counted_apart():
    in_flight, counts = np.zeros(65_536, dtype=np.uint8), np.zeros(2, dtype=np.int64)
    in_flight[[1, 2]] = 1
    stream = b"".join(each.encode() for each in (PubRec(2), PubAck(1), PubComp(2), PubAck(9)))
    out = np.empty(64, dtype=np.uint8)

    data = np.frombuffer(stream, dtype=np.uint8).copy()
    at, used, why = nullwalk.walk_completions(data, data.size, 0, in_flight, out, counts)

    assert (at, out[:used].tobytes(), why) == (len(stream), PubRel(2).encode(), wire.NEED_MORE)
    assert counts.tolist() == [2, 1]
    assert not in_flight.any()
