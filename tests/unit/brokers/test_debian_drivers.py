"""What the drivers of Debian's brokers write, and how programs of a newer Debian are run."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from brokerlab.brokers.base import Found, Missing, Security
from brokerlab.brokers.mosquitto import Mosquitto
from brokerlab.brokers.nats import Nats
from brokerlab.brokers.rabbitmq import RabbitMQ, routing_keys
from brokerlab.brokers.suite import by_loader, find_in_suite, version_in, with_usr
from brokerlab.study.values import BrokerChoice, Transport

pytestmark = pytest.mark.unit
PASSWORD = "correct horse"
STATUS = """\
Package: mosquitto-clients
Version: 9.9-1

Package: mosquitto
Status: install ok installed
Depends: libc6
Version: 1:2.1.2-3+b1
Description: a broker
 Version: 7

Package: base
Version: 12
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A newer Debian with one broker in the cache."""
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path))
    place = tmp_path / "brokers/mosquitto@2.1.2"
    loader = place / "root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.touch()
    (place / "root/var/lib/dpkg").mkdir(parents=True)
    (place / "root/var/lib/dpkg/status").write_text(STATUS)
    (place / "installed.json").write_text("{}")
    return place / "root"


@pytest.mark.parametrize(("package", "version"), [("mosquitto", "2.1.2"), ("base", "12"), ("mosq", None)])
def test_version_is_that_of_the_package_without_what_debian_adds(root, package, version):
    assert version_in(root, package) == version


def test_root_with_another_version_is_not_used(root):
    found = find_in_suite("mosquitto@2.1.2", "mosquitto", "usr/sbin/mosquitto", "2.1.3")

    assert isinstance(found, Missing)
    assert "holds mosquitto 2.1.2" in found.reason


def test_program_runs_by_the_loader_of_its_own_root(root):
    libraries = root / "usr/lib/x86_64-linux-gnu"

    node = Mosquitto("2.1.2").node(
        BrokerChoice("m", "mosquitto@2.1.2"), folder=Path("/run/0"), host="127.0.0.1", port=1883
    )

    assert node.argv == (
        str(libraries / "ld-linux-x86-64.so.2"),
        "--library-path",
        str(libraries),
        str(root / "usr/sbin/mosquitto"),
        "-c",
        "/run/0/mosquitto.conf",
    )


def test_program_that_starts_others_sees_the_usr_of_its_root(root):
    found = Found(str(root / "usr/bin/server"), "1")

    assert with_usr(found, "-x")[-3:] == (str(root / "usr"), "/usr/bin/server", "-x")
    assert by_loader(found, "-x")[-2:] == (str(root / "usr/bin/server"), "-x")


@pytest.mark.parametrize(
    ("filters", "allowed", "forbidden"),
    [
        (("a/b",), ["a.b"], ["a.c", "a", "xa.b", "a.b.c", "axb"]),
        (("a/+/c",), ["a.b.c", "a..c", "a.*.c"], ["a.b.b.c", "a.c"]),
        (("a/#",), ["a", "a.b", "a.b.c", "a.#"], ["ab", "b.a"]),
        (("#",), ["", "a.b"], []),
        (("a.b/c", "d"), ["a/b.c", "d"], ["a.b.c"]),
        ((), [], ["", "a"]),
    ],
)
def test_rabbitmq_allows_what_the_filters_match(filters, allowed, forbidden):
    """With dots for slashes, and the other way round, as RabbitMQ calls topics."""
    pattern = re.compile(routing_keys(filters))

    assert [key for key in allowed if not pattern.search(key)] == []
    assert [key for key in forbidden if pattern.search(key)] == []


def described(driver, tmp_path, **security):
    if isinstance(found := driver.find(), Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    return driver.node(
        BrokerChoice("b", driver.name),
        folder=tmp_path / "0",
        host="127.0.0.1",
        port=1883,
        security=Security(folder=tmp_path / "private", users={"alice": PASSWORD}, **security),
    )


@pytest.mark.parametrize("driver", [Mosquitto(), Nats(), RabbitMQ()], ids=lambda each: each.name)
@pytest.mark.parametrize("transport", list(Transport))
def test_no_secret_is_shown(driver, transport, tmp_path):
    node = described(driver, tmp_path, transport=transport, readable=("a/#",))

    assert PASSWORD not in "\n".join([*node.argv, *node.files.values(), *node.env.values()])
    assert all(path.is_relative_to(tmp_path / "private") for path in node.secrets)


def test_rabbitmq_is_told_a_salted_hash(tmp_path):
    (text,) = described(RabbitMQ(), tmp_path).secrets.values()
    (user,) = json.loads(text)["users"]
    told = base64.b64decode(user["password_hash"])

    assert user["name"] == "alice"
    assert told[4:] == hashlib.sha256(told[:4] + PASSWORD.encode()).digest()


def test_nats_subjects_include_the_parent_of_all_levels(tmp_path):
    (text,) = described(Nats(), tmp_path, readable=("a/+/#",), writable=("b",)).secrets.values()

    assert 'subscribe: ["a.*", "a.*.>", "$MQTT.sub.>"' in text
    assert 'publish: ["b"]' in text


def test_mosquitto_lets_everybody_read_its_counters(tmp_path):
    node = described(Mosquitto(), tmp_path, readable=("a/#",), writable=("b",))

    assert node.files["topics.acl"] == "pattern read a/#\npattern read $SYS/#\npattern write b\n"
