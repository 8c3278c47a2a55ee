"""The driver of somebody's broker: what it takes for an address, and what it refuses. Nothing is contacted."""

import pytest

from brokerlab.brokers.base import Endpoint, Missing
from brokerlab.brokers.elsewhere import known_brokers
from brokerlab.brokers.endpoints import PUBLIC
from brokerlab.brokers.registry import driver
from brokerlab.errors import UserError
from brokerlab.lab.certificates import Authority, keep
from brokerlab.lab.remote import check_reachable, prefixed
from brokerlab.study.address import read_address, written_address
from brokerlab.study.plan import Cell
from brokerlab.study.topics import filters_of, topic_matches, topic_of
from brokerlab.study.values import BrokerChoice, ClientLife, Topics, Transport, Workload

pytestmark = pytest.mark.unit


def endpoint(transport=Transport.TCP, *, preset="stock", **options):
    return driver("remote").endpoint(BrokerChoice("cloud", "remote", preset=preset, options=options), transport)


def test_address_with_nothing_else_is_enough():
    assert endpoint(address="mqtt.example.org:1884") == Endpoint("mqtt.example.org", 1884)


def test_everything_that_can_be_said(tmp_path):
    keep(tmp_path, "ca.pem", Authority().pem)
    said = endpoint(
        address="[2001:db8::1]:8883",
        prefix="/my/own/",
        user="alice",
        password="env:PASSWORD",
        authority=str(tmp_path / "ca.pem"),
        path="/ws",
    )

    assert (said.host, said.port, said.prefix, said.path) == ("2001:db8::1", 8883, "my/own/", "/ws")
    assert (said.user, said.password, said.authority) == ("alice", "env:PASSWORD", tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the option address"),
        ({"address": "mqtt.example.org"}, "is no address"),
        ({"address": "mqtt.example.org:0"}, "is no address"),
        ({"address": "2001:db8::1:1883"}, "is no address"),
        ({"address": 1883}, "is no address"),
        ({"address": "mqtt..example.org:1883"}, "is no address: no host is called 'mqtt..example.org'"),
        ({"address": f"{'m' * 64}.example.org:1883"}, "is no address: no host is called"),
        ({"address": "h:1", "password": "env:X"}, "needs the option user"),
        ({"address": "h:1", "user": "u", "password": "in the clear"}, "must be env:NAME"),
        ({"address": "h:1", "prefix": "my/+"}, "without wildcards"),
        ({"address": "h:1", "authority": "/no/such/file"}, "/no/such/file"),
        ({"address": "h:1", "user": 7}, "option user must be a text"),
        ({"adress": "h:1"}, "no option 'adress'"),
        ({"preset": "ioticos.org"}, "needs the option prefix"),
        ({"preset": "mqtt.fluux.io", "transport": Transport.WSS}, "no transport wss"),
    ],
)
def test_what_cannot_be_is_refused_with_the_name_of_the_broker(options, said):
    with pytest.raises(UserError, match=f"^broker cloud: .*{said}"):
        endpoint(**options)


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\x30\x82\x01\x0a\x02"])
def test_authority_that_holds_no_certificate_is_refused(tmp_path, content):
    (tmp_path / "ca.pem").write_bytes(content)

    with pytest.raises(UserError, match=r"^broker cloud: .*authority holds no certificate \(PEM\).*ca.pem"):
        endpoint(Transport.TLS, address="h:1", authority=str(tmp_path / "ca.pem"))


@pytest.mark.parametrize(
    ("address", "addresses", "is_possible"),
    [
        ("127.0.0.1:1883", ("127.0.0.2",), True),
        ("localhost:1883", ("127.0.0.2",), True),
        ("192.0.2.1:1883", ("192.0.2.7",), True),
        ("192.0.2.1:1883", (), True),
        ("192.0.2.1:1883", ("192.0.2.7", "127.0.0.2"), False),
        ("mqtt.example.org:1883", ("127.0.0.1",), False),
        ("[2001:db8::1]:1883", ("127.0.0.1",), False),
        ("[::1]:1883", ("127.0.0.1",), False),
        ("[::1]:1883", (), True),
    ],
)
def test_nobody_goes_from_loopback_to_somebody_s_broker(address, addresses, is_possible):
    workload = Workload(clients=ClientLife(addresses=addresses))
    cell = Cell("c", (), BrokerChoice("cloud", "remote", options={"address": address}), workload)
    if is_possible:
        check_reachable(cell)
        return

    with pytest.raises(UserError, match=r"^broker cloud: .*clients.addresses has 127.0.0.[12], .*from which nobody"):
        check_reachable(cell)


def test_public_brokers_of_the_paper_are_presets():
    assert set(PUBLIC) < set(driver("remote").abilities.presets)
    assert endpoint(Transport.WSS, preset="test.mosquitto.org") == Endpoint("test.mosquitto.org", 8081)
    assert endpoint(preset="ioticos.org", prefix="abc", user="u") == Endpoint(
        "ioticos.org", 1883, prefix="abc/", user="u"
    )


def test_address_is_written_as_it_is_read():
    for text in ("192.0.2.1:1883", "[2001:db8::1]:1883"):
        assert written_address(*read_address(text)) == text


@pytest.mark.parametrize(
    "topics",
    [Topics(), Topics("a/{publisher}", ("a/+", "b/#")), Topics(depth=5), Topics(length_bytes=60), Topics(count=3)],
)
def test_prefix_changes_nothing_behind_it(topics):
    below = prefixed(topics, "my/own/")

    assert topic_of(below, 1) == f"my/own/{topic_of(topics, 1)}"
    filters = filters_of(topics, 0, publishers=2)
    assert filters_of(below, 0, publishers=2) == tuple(f"my/own/{each}" for each in filters)
    assert any(topic_matches(each, topic_of(below, 1)) for each in filters_of(below, 0, publishers=2))


@pytest.mark.parametrize("broker", list(known_brokers()), ids=lambda each: each.name)
def test_broker_that_nobody_installs_from_here_says_what_to_do(broker, tmp_path):
    found = broker.find()

    assert isinstance(found, Missing)
    assert "the driver remote" in found.hint
    with pytest.raises(UserError, match=f"{broker.name} cannot be started here") as caught:
        broker.node(BrokerChoice("b", broker.name), folder=tmp_path, host="127.0.0.1", port=1883)
    assert caught.value.hint == found.hint
