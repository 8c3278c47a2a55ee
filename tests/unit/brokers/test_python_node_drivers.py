"""What the drivers of amqtt, HBMQTT, Aedes and Mosca describe; the contract suite starts it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import brokerlab.brokers
from brokerlab.brokers.base import Found, Missing, Security
from brokerlab.brokers.cache import RECEIPT
from brokerlab.brokers.registry import driver
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

pytestmark = pytest.mark.unit
HOST, PORT = "127.0.0.1", 18830
USERS = {"alice": "hush-hush", "bob": "in the clear"}
OURS = Path(brokerlab.brokers.__file__).parent

everybody = pytest.mark.parametrize("name", ["aedes", "amqtt", "hbmqtt", "mosca"])
installable = pytest.mark.parametrize("name", ["aedes", "hbmqtt", "mosca"])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache where all are installed, as far as a driver looks."""
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("brokerlab.brokers.node_packages.find_program", lambda name: f"/usr/bin/{name}")
    for name in ("aedes", "hbmqtt", "mosca"):
        place = tmp_path / "cache" / "brokers" / name
        place.mkdir(parents=True)
        (place / RECEIPT).write_text("{}")
    return tmp_path / "cache" / "brokers"


def described(name, tmp_path, *, preset="stock", **security):
    private = tmp_path / "private"
    asked = Security(folder=private, **security)
    return driver(name).node(
        BrokerChoice(name, name, preset=preset), folder=tmp_path / "0", host=HOST, port=PORT, security=asked
    )


def settings(node):
    (text,) = node.files.values()
    return json.loads(text)


@installable
def test_broker_that_is_not_installed_is_missing_with_the_command_that_gets_it(name, cache, tmp_path):
    assert isinstance(driver(name).find(), Found)
    shutil.rmtree(cache / name)

    found = driver(name).find()

    assert isinstance(found, Missing)
    assert found.hint == f"brokerlab brokers install {name}"
    with pytest.raises(UserError, match="not installed"):
        described(name, tmp_path)


@everybody
def test_passwords_are_in_the_private_folder_alone(name, tmp_path):
    node = described(name, tmp_path, users=USERS)

    assert all(path.is_relative_to(tmp_path / "private") for path in node.secrets)
    shown = " ".join([*node.argv, *node.files.values(), *node.env.values(), repr(node)])
    assert not any(password in shown for password in USERS.values())
    if name != "hbmqtt":  # which hashes them itself, at its start
        kept = "".join(map(str, node.secrets.values()))
        assert not any(password in kept for password in USERS.values())


@everybody
def test_every_preset_says_something_else(name, tmp_path):
    presets = driver(name).abilities.presets

    assert len({str(described(name, tmp_path, preset=each).files) for each in presets}) == len(presets)


@pytest.mark.parametrize("name", ["aedes", "mosca"])
def test_node_server_is_told_its_transport_and_who_may_do_what(name, tmp_path):
    said = settings(
        described(
            name,
            tmp_path,
            transport=Transport.WSS,
            certificate=Path("/c.pem"),
            key=Path("/k.pem"),
            authority=Path("/a.pem"),
            readable=("in/#",),
            writable=("out/#",),
        )
    )

    assert (said["isFramed"], said["certificate"], said["key"], said["authority"]) == (
        True,
        "/c.pem",
        "/k.pem",
        "/a.pem",
    )
    assert (said["readable"], said["writable"], said["users"]) == (["in/#"], ["out/#"], None)


def test_amqtt_has_its_own_plugins_until_more_is_asked(tmp_path):
    assert any("Logger" in name for name in settings(described("amqtt", tmp_path))["plugins"])
    tuned = settings(described("amqtt", tmp_path, preset="tuned"))["plugins"]
    assert not any("Logger" in name for name in tuned)
    limited = settings(described("amqtt", tmp_path, users=USERS, readable=("in/#",), writable=()))["plugins"]
    assert limited["amqtt.plugins.topic_checking.TopicAccessControlListPlugin"] == {
        "acl": {"alice": ["in/#"], "bob": ["in/#"]},
        "publish_acl": {"alice": [], "bob": []},
    }


PERMISSIONS = [
    ("a/#", "a/b/c", True),
    ("a/#", "a", True),
    ("a/#", "b", False),
    ("#", "#", True),
    ("a/+", "a/b", True),
    ("a/+", "a/b/c", False),
    ("a/+", "a/#", False),
    ("a/+", "a/+", True),
    ("a/b", "a/+", False),
    ("a/b/c", "a/b", False),
]


def test_permission_covers_all_that_is_asked():
    if (node := shutil.which("node")) is None:
        pytest.skip("Node.js is not here: apt-get install nodejs")
    asked = [[["x", allowed], topic] for allowed, topic, _ in PERMISSIONS]
    program = f"""
        const access = require({json.dumps(str(OURS / "node_access.cjs"))})
        console.log(JSON.stringify({json.dumps(asked)}.map(each => access.isAllowed(...each))))
    """

    said = subprocess.run((node, "-e", program), capture_output=True, text=True, check=True, timeout=30)

    assert json.loads(said.stdout) == [is_allowed for *_, is_allowed in PERMISSIONS]
