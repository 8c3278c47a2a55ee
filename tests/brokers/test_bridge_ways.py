"""What a bridge does with messages on real brokers: transformers, dead letters, loops, TLS, one connection a message.

X-01 (transformer), X-03 (topics), X-04 (payloads), X-05, X-06 (MQTT 5, user properties), X-07 (TLS, credentials), F-09.
"""

import contextlib
import datetime
import json
import secrets
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest
from bridge_rig import CONFIG, HOST, MOSQUITTO, Bridge, client, mosquitto

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess, owns_listener
from brokerlab.lab import certificates
from brokerlab.lab.certificates import Authority, keep
from brokerlab.load.packets import ConnAck, Connect, Publish, Subscribe
from brokerlab.load.parser import Parser
from brokerlab.load.properties import USER_PROPERTY

SECURED = """\
allow_anonymous false
password_file {folder}/users
listener {port} 127.0.0.1
certfile {folder}/broker.pem
keyfile {folder}/broker.pem
user root
"""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ways")
    with mosquitto(folder / "a") as here, mosquitto(folder / "b") as there, mosquitto(folder / "c") as third:
        yield here, there, third


class Rig:
    """Two brokers, and what is said at the first and heard at the second."""

    def __init__(self, folder, here, there):
        self.folder, self.here, self.there = folder, here, there
        self.topic = f"t{secrets.token_hex(4)}"
        self.name = f"test-{self.topic}"

    def bridge(self, route, *, both=None, more="", protocols=("3.1.1", "3.1.1")):
        content = {"from": "here", "to": "there", "subscribe": f"{self.topic}/#", **route}
        ends = zip(("here", "there"), (self.here, self.there), protocols, strict=True)
        brokers = {name: {"address": f"{HOST}:{each.port}", "protocol": protocol} for name, each, protocol in ends}
        written = {"bridge": 1, "name": self.name, "brokers": brokers, "routes": {"up": content}}
        text = json.dumps(written)[:-1] + more + "}"
        return Bridge(self.folder / self.name, text)

    def passed(self, bridge, *messages, qos=1, extra="+/#"):
        """What arrives of these (topic, payload), and all else below our topic or among the dead."""
        with client(self.there) as subscriber, client(self.here) as publisher:
            for topic_filter in (f"{self.topic}/#", f"dead/{self.topic}", f"new/{self.topic}/#"):
                subscriber.subscribe(topic_filter, qos)
            bridge.start()
            for topic, payload in messages:
                publisher.publish(f"{self.topic}/{topic}", payload, qos=qos)
            return until_quiet(subscriber, len(messages))


def until_quiet(subscriber, count, *, quiet_s=0.3):
    found = []
    while (message := subscriber.receive(timeout_s=10 if len(found) < count else quiet_s)) is not None:
        found.append(message)
    return found


@pytest.fixture
def rig(tmp_path, brokers):
    return Rig(tmp_path, *brokers[:2])


def test_json_is_selected_renamed_and_converted_and_bad_messages_are_dead_letters(rig):
    """X-01: what the transformer cannot take goes to the dead-letter topic, whole and with the reason."""
    steps = [
        {"select": ["v", "at.lat"]},
        {"rename": {"v": "speed"}},
        {"convert": {"speed": {"to": "number", "factor": 3.6, "digits": 1}}},
    ]
    with rig.bridge({"transform": steps, "dead_letters": f"dead/{rig.topic}"}) as bridge:
        found = rig.passed(
            bridge, ("1", b'{"v": "10", "at": {"lat": 1, "lon": 2}, "x": 3}'), ("2", b'{"v": 1}'), ("3", b"\xff{")
        )
        counters = bridge.stop()

    assert json.loads(found[0].payload) == {"at": {"lat": 1}, "speed": 36.0}
    dead = [json.loads(message.payload) for message in found[1:]]
    assert [message.topic for message in found[1:]] == [f"dead/{rig.topic}"] * 2
    assert dead[0] == {
        "reason": "the field at.lat is missing", "route": "up", "topic": f"{rig.topic}/2", "payload": '{"v": 1}'
    }  # fmt: skip
    assert dead[1]["payload_base64"] == "/3s="
    assert (counters[0]["dead"], counters[0]["published"]) == (2, 3)
    told = [line for line in bridge.said().splitlines() if f"goes to dead/{rig.topic}" in line]
    assert len(told) == 1, "the first is told, the others are counted"
    assert "the field at.lat is missing; going on" in told[0]


def test_a_function_of_the_users_may_change_drop_and_raise(rig):
    """Also over several workers, each in a process of its own; order per topic stays."""
    (rig.folder / rig.name).mkdir()
    (rig.folder / rig.name / "mine.py").write_text(
        "def halved(message):\n    number = int(message.payload)\n    return None if number % 2 else str(number // 2)\n"
    )
    route = {"transform": [{"python": "mine.halved"}], "workers": 3, "dead_letters": f"dead/{rig.topic}", "qos": 2}
    with rig.bridge(route) as bridge:
        said = [(str(number % 5), str(number).encode()) for number in range(0, 100)]
        found = rig.passed(bridge, *[each for each in said if int(each[1]) % 2 == 0], ("x", b"no number"), qos=2)
        counters = bridge.stop()

    dead = [json.loads(message.payload)["reason"] for message in found if message.topic.startswith("dead/")]
    assert dead == ["mine.halved raised ValueError: invalid literal for int() with base 10: b'no number'"]
    by_topic = {}
    for message in found:
        if not message.topic.startswith("dead/"):
            by_topic.setdefault(message.topic, []).append(int(message.payload))
    assert sorted(number for each in by_topic.values() for number in each) == list(range(50))
    assert all(numbers == sorted(numbers) for numbers in by_topic.values())
    assert counters[0]["dropped"] == 0


def test_a_transformer_that_ends_its_process_stops_the_bridge_and_loses_nothing(rig):
    """The message is still at the source, and a mended transformer passes it."""
    (rig.folder / rig.name).mkdir()
    function = "import os\n\ndef f(message):\n    return os._exit(9) if message.payload == b'bad' else message\n"
    (rig.folder / rig.name / "fatal.py").write_text(function)
    (rig.folder / rig.name / "mended.py").write_text("def f(message):\n    return message\n")
    route = {"transform": [{"python": "fatal.f"}], "workers": 2}
    with rig.bridge(route) as bridge, client(rig.here) as publisher, client(rig.there) as subscriber:
        subscriber.subscribe(f"{rig.topic}/#", 1)
        bridge.start()
        publisher.publish(f"{rig.topic}/x", b"bad", qos=1)
        assert bridge.ended() == 1
        assert "a transformer's process ended by itself, with 9" in bridge.said()
        bridge.path.write_text(bridge.path.read_text().replace("fatal.f", "mended.f"))
        bridge.start()
        assert [message.payload for message in until_quiet(subscriber, 1)] == [b"bad"]


def test_what_the_target_refuses_is_a_dead_letter_with_its_reason(tmp_path, brokers):
    """X-07: topic permissions; MQTT 5.0 says why, and nothing is lost."""
    (tmp_path / "acl").write_text("topic readwrite dead/#\ntopic read #\ntopic readwrite brokerlab-proof/#\n")
    with mosquitto(tmp_path / "b", config=f"{CONFIG}acl_file {tmp_path}/acl\n") as there:
        rig = Rig(tmp_path, brokers[0], there)
        with rig.bridge({"dead_letters": f"dead/{rig.topic}", "qos": 2}, protocols=("5.0", "5.0")) as bridge:
            found = rig.passed(bridge, ("x", b"1"), ("x", b"2"), qos=2)
            counters = bridge.stop()

    dead = [json.loads(message.payload) for message in found]
    assert [each["payload"] for each in dead] == ["1", "2"]
    assert {each["reason"] for each in dead} == {"the target refuses it: not authorized (0x87)"}
    assert (counters[0]["dead"], counters[0]["refused"]) == (2, 0)


@pytest.mark.parametrize("protocols", [("3.1.1", "3.1.1"), ("5.0", "5.0"), ("5.0", "3.1.1")])
def test_both_directions_bring_nothing_back(rig, protocols):
    """F-09: each message arrives once on the other side, and never where it came from, also by a second bridge."""
    with rig.bridge({"both": True, "qos": 1}, protocols=protocols) as bridge, client(rig.here) as here:
        bridge.start()
        with client(rig.there) as there:
            here.subscribe(f"{rig.topic}/#", 1)
            there.subscribe(f"{rig.topic}/#", 1)
            for number in range(20):
                here.publish(f"{rig.topic}/a", b"from here", qos=number % 3)
                there.publish(f"{rig.topic}/a", b"from there", qos=number % 3)
            heard = [sorted(message.payload for message in until_quiet(each, 40)) for each in (here, there)]
        counters = bridge.stop()

    assert heard == [sorted([b"from here", b"from there"] * 20)] * 2
    assert [each["looped"] for each in counters] == [20, 20]


def test_a_circle_of_bridges_ends_where_it_began(tmp_path, brokers):
    """F-09: three brokers in a ring of MQTT 5.0; the marks in the messages stop them."""
    topic = f"t{secrets.token_hex(4)}"
    content = {
        "bridge": 1,
        "name": f"ring-{topic}",
        "brokers": {
            f"b{number}": {"address": f"{HOST}:{each.port}", "protocol": "5.0"} for number, each in enumerate(brokers)
        },
        "routes": {
            f"r{number}": {"from": f"b{number}", "to": f"b{(number + 1) % 3}", "subscribe": f"{topic}/#"}
            for number in range(3)
        },
    }
    with Bridge(tmp_path / "ring", json.dumps(content)) as bridge, client(brokers[0]) as first:
        bridge.start()
        with client(brokers[2]) as last:
            first.subscribe(f"{topic}/#", 1)
            last.subscribe(f"{topic}/#", 1)
            first.publish(f"{topic}/x", b"round", qos=1)
            assert len(until_quiet(last, 1)) == 1
            assert len(until_quiet(first, 1)) == 1
        assert [each["looped"] for each in bridge.stop()] == [0, 0, 1]


def test_two_bridges_of_one_way_are_flagged_where_no_mark_can_stop_them(rig):
    """F-09: a double `both` bridge of MQTT 3.1.1, by two processes that know nothing of each other."""
    with rig.bridge({"both": True}) as first, client(rig.here) as publisher:
        rig.name += "-2"
        with rig.bridge({"both": True}) as second:
            first.start()
            second.start()
            publisher.publish(f"{rig.topic}/x", b"round and round", qos=1)
            first.wait_for("if bridges make a circle, protocol 5.0 at its brokers stops it")
            assert sum(each["suspected"] for each in first.stop()) >= 1


def test_two_bridges_of_one_way_end_with_protocol_5(rig):
    with rig.bridge({"both": True}, protocols=("5.0", "5.0")) as first, client(rig.here) as here:
        rig.name += "-2"
        with rig.bridge({"both": True}, protocols=("5.0", "5.0")) as second, client(rig.there) as there:
            first.start()
            second.start()
            here.subscribe(f"{rig.topic}/#", 1)
            there.subscribe(f"{rig.topic}/#", 1)
            here.publish(f"{rig.topic}/x", b"once", qos=1)
            assert len(until_quiet(there, 2)) == 2
            assert len(until_quiet(here, 1)) == 1


def test_a_circle_that_nothing_would_stop_is_refused(tmp_path):
    brokers = {name: {"address": f"{HOST}:{1880 + number}"} for number, name in enumerate("abc")}
    routes = {a + b: {"from": a, "to": b, "subscribe": "t/#"} for a, b in ("ab", "bc", "ca")}
    bridge = Bridge(tmp_path / "ring", json.dumps({"bridge": 1, "brokers": brokers, "routes": routes}))
    bridge.start(joins=False)

    assert bridge.ended() == 64
    assert "an endless loop: ab -> bc -> ca; with protocol 5.0" in bridge.said()


def test_one_connection_for_each_message_as_in_paper_004(rig):
    """X-05: the target sees a connection a message; nothing is lost by it, at any QoS."""
    with rig.bridge({"connections": "per message", "qos": 2}) as bridge:
        found = rig.passed(bridge, *[("x", b"%d" % number) for number in range(9)], qos=2)
        bridge.stop()

    assert [int(message.payload) for message in found] == list(range(9))


def test_topics_are_rewritten_and_long_payloads_and_retained_ones_pass(rig):
    """X-03, X-04: the largest payload of paper 004 (125,528 B)."""
    topics = {
        f"{rig.topic}/+/t": f"new/{rig.topic}/{{1}}",
        f"{rig.topic}/deep/#": f"new/{rig.topic}/d/{{#}}",
        f"{rig.topic}/bare/#": "{#}",
    }
    with rig.bridge({"topics": topics, "dead_letters": f"dead/{rig.topic}"}) as bridge, client(rig.here) as publisher:
        publisher.publish(f"{rig.topic}/kept", b"kept", qos=1, retain=True)
        found = rig.passed(
            bridge, ("7/t", bytes(125_528)), ("deep/a/b", b""), ("bare", b"no topic left"), ("other", b"?")
        )
        counters = bridge.stop()

    names = {message.topic: len(message.payload) for message in found}
    dead = next(json.loads(message.payload) for message in found if message.topic == f"dead/{rig.topic}")
    assert names.pop(f"dead/{rig.topic}")
    assert dead["reason"] == "it has no topic that can be published to: ''"
    assert names == {f"new/{rig.topic}/7": 125_528, f"new/{rig.topic}/d/a/b": 0, f"{rig.topic}/other": 1,
                     f"{rig.topic}/kept": 4}  # fmt: skip
    with client(rig.there) as late:
        late.subscribe(f"{rig.topic}/kept", 1)
        assert late.receive(timeout_s=5).retain
    assert counters[0]["received_bytes"] == 125_528 + 18


def test_user_properties_pass_with_the_mark_of_where_they_were(rig):
    """X-06."""
    own = ((USER_PROPERTY, ("unique_message_id", "ab" * 32)), (USER_PROPERTY, ("order", "7")))
    with rig.bridge({}, protocols=("5.0", "5.0")) as bridge:
        bridge.start()
        with speaking(rig.there.port) as (listen, hear), speaking(rig.here.port) as (say, _):
            listen(Subscribe(1, ((f"{rig.topic}/#", 0),)))
            hear()
            say(Publish(f"{rig.topic}/x", b"1", properties=own))
            message = hear()
        bridge.stop()

    assert message.properties == (*own, (USER_PROPERTY, ("brokerlab-bridge", f"{HOST}:{rig.here.port}")))


class speaking:  # noqa: N801 - is used as a function
    """A bare MQTT 5.0 client, which sees properties."""

    def __init__(self, port):
        self._socket, self._parser, self._packets = socket.create_connection((HOST, port), 10), Parser(5), []

    def __enter__(self):
        self.say(Connect(f"bare-{secrets.token_hex(4)}"))
        assert isinstance(self.hear(), ConnAck)
        return self.say, self.hear

    def say(self, packet):
        self._socket.sendall(packet.encode(5))

    def hear(self):
        while not self._packets:
            self._packets += self._parser.feed(self._socket.recv(65_536))
        return self._packets.pop(0)

    def __exit__(self, *_):
        self._socket.close()


def test_counters_are_told_as_a_page_and_a_file(rig):
    port = free_port(HOST)
    metrics = f', "metrics": {{"port": {port}, "file": "counters.prom", "every": "100 ms"}}'
    with rig.bridge({}, more=metrics) as bridge:
        rig.passed(bridge, ("x", b"1"), ("x", b"2"))
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=5) as page:
            text = page.read().decode()
        bridge.stop()

    assert 'brokerlab_bridge_published_total{route="up"} 2' in text
    assert (bridge.path.parent / "counters.prom").read_text() == text.replace("in_flight 1", "in_flight 0")


# -- who is not let in --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def secured_broker(folder):
    """A broker with TLS and one user; its certificate and users lie in the folder already."""
    port = free_port(HOST)
    config = SECURED.format(port=port, folder=folder)
    node = Node((MOSQUITTO, "-c", "mosquitto.conf"), HOST, port, {"mosquitto.conf": config})
    with BrokerProcess(node, folder=folder / "broker") as process:
        deadline = time.monotonic() + 20
        while not owns_listener(process, HOST, port):
            assert time.monotonic() < deadline, process.log_tail()
            time.sleep(0.01)
        yield port


def make_papers(folder, authority):
    keep(folder, "broker.pem", *authority.broker(HOST))
    keep(folder, "authority.pem", authority.pem)
    keep(folder, "users").write_text("lab:right\n")
    subprocess.run([shutil.which("mosquitto_passwd"), "-U", folder / "users"], check=True)


@pytest.mark.parametrize(
    ("is_expired", "password", "reason"),
    [
        (False, "right", ""),
        (True, "right", "the broker's certificate is refused: certificate has expired"),
        (False, "wrong", "it refuses us: not authorized (CONNACK 5)"),
    ],
)
def test_tls_and_credentials_let_in_or_are_told_once_and_clearly(rig, monkeypatch, is_expired, password, reason):
    """X-07: who is not let in passes nothing on, and the messages stay where they are; exit code 64."""
    authority = Authority()
    if is_expired:
        monkeypatch.setattr(certificates, "_AFTER", datetime.timedelta(hours=-1))
    make_papers(rig.folder, authority)
    with secured_broker(rig.folder) as port:
        secure = {
            "address": f"{HOST}:{port}", "transport": "tls", "authority": "../authority.pem", "user": "lab",
            "password": "env:OF_LAB",
        }  # fmt: skip
        content = {
            "bridge": 1,
            "name": rig.name,
            "brokers": {"here": {"address": f"{HOST}:{rig.here.port}"}, "secure": secure},
            "routes": {"up": {"from": "secure", "to": "here", "subscribe": f"{rig.topic}/#", "both": True}},
        }
        with Bridge(rig.folder / "b", json.dumps(content), OF_LAB=password) as bridge:
            bridge.start(joins=not reason)
            if reason:
                assert bridge.ended() == 64
                assert f"secure ({HOST}:{port}): {reason}" in bridge.said()
                assert bridge.said().count("secure") == 1
            else:
                with client(rig.here) as publisher:
                    publisher.publish(f"{rig.topic}/x", b"in", qos=1)
                assert sum(each["acknowledged"] for each in bridge.stop()) == 1
