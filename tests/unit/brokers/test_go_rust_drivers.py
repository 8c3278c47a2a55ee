"""The brokers in Go and Rust as they are described; nothing is started here."""

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from brokerlab.brokers.base import OPEN, Found, Missing, Security
from brokerlab.brokers.cache import RECEIPT, place_of
from brokerlab.brokers.install.golang import install_go
from brokerlab.brokers.mochi import Mochi
from brokerlab.brokers.registry import DRIVERS
from brokerlab.brokers.source import Crate, GoModule
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

pytestmark = pytest.mark.unit
HOST, PORT = "127.0.0.1", 18831
PASSWORD = 'p4ss: "wörd\\'
BUILT = sorted(name for name, each in DRIVERS.items() if isinstance(each.source, GoModule | Crate))
WITH_USERS = [name for name in (*BUILT, "rumqttd") if DRIVERS[name].abilities.has_credentials]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A cache in which every program is there."""
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path / "cache"))
    for name in BUILT:
        for file in (f"bin/{DRIVERS[name].source.program}", RECEIPT):
            path = place_of(name) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")


def described(name, folder, *, preset="stock", security=OPEN):
    choice = BrokerChoice(name, name, preset=preset)
    return DRIVERS[name].node(choice, folder=folder, host=HOST, port=PORT, security=security)


def config(node):
    """What the first of its files says; YAML and JSON are written as JSON, all else is TOML."""
    name, text = next(iter(node.files.items()))
    return tomllib.loads(text) if name.endswith(".toml") else json.loads(text)


@pytest.fixture
def private(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return folder


@pytest.mark.parametrize("name", BUILT)
def test_a_broker_is_found_in_the_cache_in_the_version_of_its_source(name, installed):
    driver = DRIVERS[name]

    assert driver.find() == Found(
        str(place_of(name) / "bin" / driver.source.program), driver.source.version.removeprefix("v")
    )


@pytest.mark.parametrize("name", BUILT)
def test_a_broker_that_is_not_installed_says_how(name, tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path))

    found = DRIVERS[name].find()

    assert isinstance(found, Missing)
    assert found.hint == f"brokerlab brokers install {name}"
    with pytest.raises(UserError, match="is not installed"):
        described(name, tmp_path / "0")


@pytest.mark.parametrize("name", BUILT)
def test_every_address_in_a_configuration_is_the_asked_one(name, installed, tmp_path):
    text = "".join(described(name, tmp_path / "0").files.values())

    assert f"{HOST}:{PORT}" in text or ('"port": "18831"' in text and f'"host": "{HOST}"' in text)
    assert set(re.findall(r"[\w.]*:(?=\d{4,5}\b)", text)) <= {f"{HOST}:"}


@pytest.mark.parametrize("name", WITH_USERS)
def test_passwords_are_in_private_files_only(name, installed, private, tmp_path):
    node = described(name, tmp_path / "0", security=Security(users={"alice": PASSWORD}, folder=private))

    assert node.secrets
    assert all(path.parent == private for path in node.secrets)
    seen = " ".join((*node.argv, *node.files.values(), *node.env.values()))
    assert PASSWORD not in seen
    assert json.dumps(PASSWORD, ensure_ascii=False) not in seen
    assert "wörd" not in seen


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("fluxmq", ("session", "max_offline_queue_size"), 1_000_000),
        ("gmqtt", ("mqtt", "max_queued_messages"), 1_000_000),
        ("mochi", ("options", "capabilities", "maximum_inflight"), 65_535),
        ("rmqtt", ("listener", "tcp", "external", "max_mqueue_len"), 1_000_000),
        ("rumqttd", ("router", "max_segment_count"), 100),
    ],
)
def test_lossless_raises_the_limit_above_which_the_broker_drops(name, path, value, installed, tmp_path):
    found = config(described(name, tmp_path / "0", preset="lossless"))
    for key in path:
        found = found[key]

    assert found == value


def test_rumqttd_as_a_wheel_has_no_file_unless_it_needs_one(tmp_path, private):
    plain = described("rumqttd", tmp_path / "0", security=Security(folder=private))
    fives = described("rumqttd", tmp_path / "0", security=Security(protocol="5.0"))

    assert plain.files == {}
    assert config(fives)["v5"]["1"]["listen"] == f"{HOST}:{PORT}"
    assert "v4" not in config(fives)


def test_rumqttd_has_no_mqtt_5_over_websocket(tmp_path):
    with pytest.raises(UserError, match="no MQTT 5 over WebSocket"):
        described("rumqttd", tmp_path / "0", security=Security(transport=Transport.WS, protocol="5.0"))


def test_fluxmq_names_every_listener_that_is_on_by_default(installed, tmp_path):
    for transport, protocol, part, slot in (
        (Transport.TCP, "3.1.1", "tcp", "v3"),
        (Transport.TCP, "5.0", "tcp", "v5"),
        (Transport.WSS, "5.0", "websocket", "tls"),
    ):
        security = Security(transport=transport, protocol=protocol, certificate=Path("c"), key=Path("k"))
        server = config(described("fluxmq", tmp_path / "0", security=security))["server"]
        addresses = {
            (kind, name): listener["addr"]
            for kind, listeners in server["mqtt"].items()
            for name, listener in listeners.items()
        }
        assert addresses.pop((part, slot)) == f"{HOST}:{PORT}"
        assert set(addresses.values()) == {""}
        assert (server["admin_api_addr"], server["health_enabled"]) == ("", False)


def test_mochi_permits_what_is_both_read_and_written(installed, private, tmp_path):
    security = Security(users={"alice": PASSWORD}, folder=private, readable=("both", "in"), writable=("both", "out"))

    node = described("mochi", tmp_path / "0", security=security)
    ledger = json.loads(next(iter(node.secrets.values())))

    assert ledger["acl"] == [{"filters": {"#": 0, "both": 3, "in": 1, "out": 2}}]
    all_permitted = described("mochi", tmp_path / "0", security=replace(security, readable=(), writable=()))
    assert "acl" not in json.loads(next(iter(all_permitted.secrets.values())))


def test_mochi_drops_in_two_counters():
    page = '{"messages_dropped": 3, "inflight_dropped": 4, "version": "2.7.9"}'

    assert Mochi().read_page(page)["messages_dropped+inflight_dropped"] == 7


def test_rmqtt_lets_nobody_in_but_its_users(installed, private, tmp_path):
    security = Security(users={"alice": PASSWORD}, folder=private, readable=("a/#",), writable=("b/#",))

    node = described("rmqtt", tmp_path / "0", security=security)
    rules = tomllib.loads(node.secrets[private / "rmqtt-acl.toml"])["rules"]

    assert rules == [
        ["allow", {"user": "alice", "password": PASSWORD}, "connect"],
        ["allow", "all", "subscribe", ["a/#"]],
        ["allow", "all", "publish", ["b/#"]],
    ]
    assert config(node)["plugins"]["dir"] == f"{private}/"
    assert config(node)["listener"]["tcp"]["external"]["allow_anonymous"] is False


class Bench:
    """Takes down the commands that would build a program."""

    def __init__(self, folder):
        self.folder, self.commands = folder, []

    def run(self, command, **_):
        self.commands.append([str(word) for word in command])


def test_a_launcher_of_ours_is_built_in_place_of_a_package(tmp_path):
    source = Mochi.source
    bench = Bench(tmp_path)

    made = install_go(source, bench)

    assert (tmp_path / "main.go").read_text(encoding="utf-8").startswith("// Mochi")
    assert not (tmp_path / "tools.go").exists()
    assert bench.commands[-1][:2] == ["go", "build"]
    assert bench.commands[-1][-1] == "."
    assert made.version == "2.7.9"
