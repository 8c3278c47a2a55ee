"""The scripted broker as a program: correct without a script, and with one exactly as wrong as it says."""

import socket
import time

import paho.mqtt.client as paho
import pytest

from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import driver
from brokerlab.errors import RunError, UserError
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client
from brokerlab.load.deeds import read_deeds
from brokerlab.load.packets import ConnAck, Connect, PubAck, PubComp, Publish, PubRec, PubRel, SubAck, Subscribe
from brokerlab.load.parser import Parser
from brokerlab.study.problems import RuleError
from brokerlab.study.script import FAULTS, MALFORMED, read_fault, script_from_json
from brokerlab.study.values import BrokerChoice

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"
DELAY_S = 0.3


@pytest.fixture
def start(tmp_path):
    """Starts a scripted broker with these faults, proves it ready and returns its port."""
    started = []

    def start_with(**faults):
        folder, port = tmp_path / str(len(started)), free_port(HOST)
        node = driver("scripted").node(
            BrokerChoice("scripted", "scripted", options=faults), folder=folder, host=HOST, port=port
        )
        process = BrokerProcess(node, folder=folder)
        started.append(process)
        process.start()
        prove_ready(process, HOST, port)
        return port

    start_with.stop = lambda: [process.stop() for process in started]
    yield start_with
    start_with.stop()


def pass_through(port, *, qos, count=20, subscribe="load/#"):
    """What a subscriber gets of messages 1 to `count`, and when each came after the first publication."""
    with Client(HOST, port) as subscriber, Client(HOST, port) as publisher:
        subscriber.subscribe(subscribe, qos)
        began = time.monotonic()
        for number in range(1, count + 1):
            publisher.publish("load/0", str(number).encode(), qos=qos)
        received = []
        while (message := subscriber.receive(timeout_s=DELAY_S + 0.2)) is not None:
            received.append((message, time.monotonic() - began))
    return received


def numbers(received):
    return [int(message.payload) for message, _ in received]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_without_faults_everything_arrives_once_and_in_order(start, qos):
    received = pass_through(start(), qos=qos)

    assert numbers(received) == list(range(1, 21))
    assert {(message.qos, message.dup) for message, _ in received} == {(qos, False)}


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_faults_together_are_exactly_those_of_the_script(start, qos):
    port = start(drop=[7], duplicate=[11], delay_ms={"13": DELAY_S * 1e3}, swap=[[17, 18]])

    received = pass_through(port, qos=qos)

    in_time = [number for number in numbers(received) if number != 13]
    assert in_time == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 11, 12, 14, 15, 16, 18, 17, 19, 20]
    (delayed_s,) = (at_s for message, at_s in received if message.payload == b"13")
    assert delayed_s >= DELAY_S
    assert {message.qos for message, _ in received} == {qos}


def test_every_message_has_a_long_way(start):
    received = pass_through(start(delay_ms=DELAY_S * 1e3), qos=0)

    assert numbers(received) == list(range(1, 21))
    assert min(at_s for _, at_s in received) >= DELAY_S


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_service_takes_its_time_for_each_message_in_turn(start, qos):
    received = pass_through(start(service_ms=20), qos=qos, count=10)

    assert numbers(received) == list(range(1, 11))
    assert all(at_s >= 0.02 * number for number, (_, at_s) in enumerate(received, 1))


@pytest.mark.parametrize("dup_flag", [True, False])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_duplicate_carries_dup_where_the_script_and_mqtt_allow_it(start, qos, dup_flag):
    received = pass_through(start(duplicate=[2], dup_flag=dup_flag), qos=qos, count=3)

    assert numbers(received) == [1, 2, 2, 3]
    first, second = (message for message, _ in received if message.payload == b"2")
    assert (first.dup, second.dup) == (False, dup_flag and qos > 0)
    assert (first.packet_id == second.packet_id) == (qos == 0 or (qos == 1 and dup_flag))


def test_swap_holds_back_what_lies_between(start):
    assert numbers(pass_through(start(swap=[[2, 5]]), qos=1, count=6)) == [1, 5, 3, 4, 2, 6]


def test_hold_lets_those_between_pass(start):
    assert numbers(pass_through(start(hold={"2": 4, "3": 4}), qos=1, count=6)) == [1, 4, 2, 3, 5, 6]


@pytest.mark.parametrize("qos", [1, 2])
def test_ignore_neither_acknowledges_nor_delivers_and_the_connection_stays(start, qos):
    port = start(ignore=[1])
    with Client(HOST, port) as subscriber, Client(HOST, port) as publisher:
        subscriber.subscribe("load/#", qos)
        with pytest.raises(RunError, match="sent no PUB"):
            publisher.publish("load/0", b"1", qos=qos, timeout_s=0.3)
        publisher.publish("load/0", b"2", qos=qos)

        assert subscriber.receive(timeout_s=2).payload == b"2"


def test_refusals_count_connections_and_subscriptions(start):
    """The first CONNECT is that of the readiness proof, whose SUBSCRIBE does not count."""
    port = start(refuse_connection={"2": 5}, refuse_subscription=[1])
    with pytest.raises(RunError, match="not authorized"):
        Client(HOST, port)
    with Client(HOST, port) as client:
        with pytest.raises(RunError, match="refused the subscription"):
            client.subscribe("load/0", 0)

        assert client.subscribe("load/0", 1) == 1


CUTS = (0, 1, 3, 5, 11, 12)  # nothing; in the fixed header, length of the topic, topic, identifier; before the payload


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_cut_sends_so_many_bytes_of_the_message_and_closes(start, qos):
    port = start(cut={str(number): count for number, count in enumerate(CUTS, 1)})
    for count in CUTS:
        with socket.create_connection((HOST, port), timeout=5) as raw, Client(HOST, port) as publisher:
            stream = subscribed(raw, qos=qos)
            publisher.publish("load/0", b"1" * 9, qos=qos)

            assert stream.read() == Publish("load/0", b"1" * 9, qos, 1 if qos else None).encode()[:count]


def subscribed(raw, *, qos):
    """What comes over a connection after its subscription was granted."""
    raw.sendall(Connect("raw").encode() + Subscribe(1, (("load/0", qos),)).encode())
    greeting = ConnAck().encode() + SubAck(1, (qos,)).encode()
    stream = raw.makefile("rb")
    assert stream.read(len(greeting)) == greeting
    return stream


def test_malformed_packets_go_to_the_subscribers_before_the_message(start):
    port = start(malformed=[1], malformed_kind="length")
    with socket.create_connection((HOST, port), timeout=5) as raw, Client(HOST, port) as publisher:
        stream = subscribed(raw, qos=1)
        publisher.publish("load/0", b"1", qos=1)
        expected = MALFORMED["length"] + Publish("load/0", b"1", 1, 1).encode()

        assert stream.read(len(expected)) == expected


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_malformed_packets_go_to_the_publisher_before_its_last_answer(start, qos):
    port = start(malformed_answer=[1], malformed_kind="type-15")
    with socket.create_connection((HOST, port), timeout=5) as raw:
        raw.sendall(Connect("raw").encode() + Publish("load/0", b"1", qos, 7 if qos else None).encode())
        if qos == 2:
            raw.sendall(PubRel(7).encode())
        before, behind = {0: (b"", b""), 1: (b"", PubAck(7).encode()), 2: (PubRec(7).encode(), PubComp(7).encode())}[
            qos
        ]
        expected = ConnAck().encode() + before + MALFORMED["type-15"] + behind

        assert raw.makefile("rb").read(len(expected)) == expected


def test_a_grant_may_have_a_reserved_flag(start):
    with socket.create_connection((HOST, start(malformed_grant=[1])), timeout=5) as raw:
        raw.sendall(Connect("raw").encode() + Subscribe(1, (("load/0", 1),)).encode())

        assert raw.makefile("rb").read(9) == ConnAck().encode() + b"\x91\x03\x00\x01\x01"


def test_each_answer_can_be_slow(start):
    port = start(connack_ms=50, suback_ms=60, answer_ms=70, pubcomp_ms=80)
    with socket.create_connection((HOST, port), timeout=5) as raw:
        stream = raw.makefile("rb")
        for question, answer, least_ms in (
            (Connect("raw"), ConnAck(), 50), (Subscribe(1, (("load/1", 2),)), SubAck(1, (2,)), 60),
            (Publish("load/0", b"", 1, 7), PubAck(7), 70), (Publish("load/0", b"", 2, 8), PubRec(8), 70),
            (PubRel(8), PubComp(8), 80),
        ):  # fmt: skip
            asked = time.monotonic()
            raw.sendall(question.encode())

            assert stream.read(len(answer.encode())) == answer.encode()
            assert time.monotonic() - asked >= least_ms / 1e3


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_it_notes_what_it_did_with_each_message_and_when(start, tmp_path, qos):
    port = start(drop=[2], delay_ms={"3": DELAY_S * 1e3}, answer_ms=20)
    began_ns = time.monotonic_ns()
    with Client(HOST, port, client_id="s") as subscriber, Client(HOST, port, client_id="p") as publisher:
        subscriber.subscribe("load/0", qos)
        for number in (1, 2, 3):
            publisher.publish("load/0", b"%d" % number, qos=qos)
        received = [subscriber.receive(timeout_s=5).payload for _ in range(2)]
        received_ns = time.monotonic_ns()
    start.stop()

    assert received == [b"1", b"3"]
    deeds = {
        (deed.name, deed.number, deed.client): deed.at_ns
        for deed in read_deeds(tmp_path / "0" / "deeds.csv")
        if deed.number or deed.client in ("s", "p")
    }
    answers = {("answered", number, "p") for number in (1, 2, 3)} | {("heard", number, "s") for number in (1, 3)}
    assert set(deeds) == (answers if qos else {("taken", 1, "s"), ("taken", 3, "s")}) | {
        ("came", 1, "p"), ("came", 2, "p"), ("came", 3, "p"), ("sent", 1, "s"), ("sent", 3, "s"),
        ("gone", None, "s"), ("gone", None, "p"),
    }  # fmt: skip
    assert deeds["sent", 3, "s"] - deeds["came", 3, "p"] >= DELAY_S * 1e9
    assert began_ns < deeds["came", 1, "p"] <= deeds["sent", 1, "s"] <= deeds["sent", 3, "s"] <= received_ns
    there = "heard" if qos else "taken"
    assert deeds[there, 3, "s"] >= deeds["sent", 3, "s"]
    if qos:
        assert deeds["answered", 1, "p"] - deeds["came", 1, "p"] >= 20e6


@pytest.mark.parametrize(("asked", "at_most", "granted"), [(2, 1, 1), (2, 0, 0), (1, 2, 1)])
def test_grants_and_delivers_no_more_than_the_script_allows(start, asked, at_most, granted):
    port = start(grant_qos=at_most)
    with Client(HOST, port) as client:
        assert client.subscribe("load/#", asked) == granted
        client.publish("load/0", qos=2)

        assert client.receive(timeout_s=2).qos == granted


@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_is_delivered_but_its_publisher_waits_in_vain(start, qos):
    port = start(unacknowledged=[1])
    with Client(HOST, port) as subscriber, Client(HOST, port) as publisher:
        subscriber.subscribe("load/#", qos)
        with pytest.raises(RunError, match=f"sent no {'PUBACK' if qos == 1 else 'PUBREC'} in 0.3 s"):
            publisher.publish("load/0", b"1", qos=qos, timeout_s=0.3)

        assert subscriber.receive(timeout_s=2).payload == b"1"


@pytest.mark.parametrize("qos", [1, 2])
def test_reject_closes_the_publisher_and_delivers_nothing(start, qos):
    port = start(reject=[1])
    with Client(HOST, port) as subscriber, Client(HOST, port) as publisher:
        subscriber.subscribe("load/#", qos)
        with pytest.raises(RunError, match="closed the connection"):
            publisher.publish("load/0", qos=qos)

        assert subscriber.receive(timeout_s=0.3) is None


def test_qos_2_sent_again_before_its_release_is_one_message(start):
    port = start()
    message = Publish("load/0", b"1", 2, 7)
    with Client(HOST, port) as subscriber, socket.create_connection((HOST, port), timeout=5) as raw:
        subscriber.subscribe("load/#", 2)
        raw.sendall(Connect("raw").encode() + message.encode() * 2)
        parser, answers = Parser(), []
        while len(answers) < 3:
            answers += parser.feed(raw.recv(4096))

        assert answers == [ConnAck(), PubRec(7), PubRec(7)]
        assert subscriber.receive(timeout_s=2).payload == b"1"
        assert subscriber.receive(timeout_s=0.3) is None


def test_second_client_of_a_name_ends_the_first(start):
    port = start()
    with Client(HOST, port, client_id="same") as first, Client(HOST, port, client_id="same") as second:
        with pytest.raises(RunError, match="closed the connection"):
            first.receive(timeout_s=2)
        second.subscribe("load/0", 1)
        second.publish("load/0", b"still here", qos=1)

        assert second.receive(timeout_s=2).payload == b"still here"


def test_malformed_bytes_close_the_connection(start):
    with socket.create_connection((HOST, start()), timeout=5) as raw:
        raw.sendall(b"\xf0\x00")

        assert raw.recv(1) == b""


def test_publish_before_connect_closes_the_connection(start):
    with socket.create_connection((HOST, start()), timeout=5) as raw:
        raw.sendall(Publish("a").encode())

        assert raw.recv(1) == b""


def test_filter_that_is_none_is_refused(start):
    with Client(HOST, start()) as client, pytest.raises(RunError, match="refused the subscription"):
        client.subscribe("a/#/b", 0)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_foreign_client_gets_everything_through_it(start, qos):
    """paho knows nothing of our packets: what it sends and takes is MQTT."""
    port, received = start(), []
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=f"paho-{qos}")
    client.on_message = lambda _client, _data, message: received.append((message.qos, message.payload))
    client.on_connect = lambda *_: client.subscribe("load/+", qos)
    client.on_subscribe = lambda *_: [client.publish("load/1", str(number), qos=qos) for number in range(20)]
    client.connect(HOST, port)
    deadline = time.monotonic() + 5
    while len(received) < 20 and time.monotonic() < deadline:
        client.loop(0.05)
    client.disconnect()

    assert received == [(qos, str(number).encode()) for number in range(20)]


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ({"dorp": [1]}, "dorp: no such fault; did you mean drop"),
        ({"drop": 7}, "drop: 7 is not a list"),
        ({"drop": [0]}, "0 is not an arrival number"),
        ({"duplicate": [True]}, "True is not an arrival number"),
        ({"dup_flag": 1}, "neither true nor false"),
        ({"delay_ms": [13]}, "is not a number of milliseconds"),
        ({"delay_ms": {"13": -1}}, "-1 is not a number of milliseconds"),
        ({"stall_ms": {"13": float("inf")}}, "inf is not a number of milliseconds"),
        ({"answer_ms": "30"}, "'30' is not a number of milliseconds"),
        ({"connack_ms": -1}, "connack_ms: -1 is not a number of milliseconds"),
        ({"malformed_kind": "typ-0"}, "malformed_kind: unknown malformed packet; did you mean type-0"),
        ({"malformed_answer": 1}, "malformed_answer: 1 is not a list"),
        ({"service_ms": -1}, "-1 is not a number of milliseconds"),
        ({"hold": {"5": 5}}, "5 cannot wait for 5"),
        ({"hold": {"5": 6, "6": 7}}, "5 cannot wait for 6"),
        ({"cut": {"1": -1}}, "-1 is not a number of bytes"),
        ({"cut_answer": {"1": 4}}, "4 is not 0 to 3 of an answer's 4 bytes"),
        ({"refuse_connection": {"1": 0}}, "0 is not a refusal of CONNACK"),
        ({"refuse_subscription": 1}, "1 is not a list"),
        ({"delay_ms": {"x": 1}}, "'x' is not an arrival number"),
        ({"swap": [[1, 2, 3]]}, "not a list of pairs"),
        ({"swap": [[1, 3], [2, 4]]}, "may not overlap"),
        ({"swap": [[2, 2]]}, "no pair"),
        ({"swap": [["a", 2]]}, "'a' is not an arrival number"),
        ({"grant_qos": 3}, "3 is not a QoS"),
        ({"grant_qos": True}, "True is not a QoS"),
    ],
)
def test_script_with_a_mistake_is_refused(faults, reason):
    with pytest.raises(UserError, match=reason):
        script_from_json(faults)


def test_every_fault_has_a_reader():
    for name in FAULTS:
        with pytest.raises(RuleError):
            read_fault(name, "seven")


def test_broker_with_a_mistake_in_its_script_says_so_and_is_gone(start):
    with pytest.raises(RunError, match="drop: 7 is not a list"):
        start(drop=7)
