"""What the drivers describe; the contract suite starts it."""

import json
import os
import pwd
import stat

import pytest

from brokerlab.brokers import mosquitto, nats
from brokerlab.brokers.base import Counts, CountsOnPage, Found, Missing
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.brokers.source import Elsewhere
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice

pytestmark = pytest.mark.unit
HOST, PORT = "127.0.0.1", 18830

# Those that describe a node of ours: test_remote_driver.py has the others.
drivers = pytest.mark.parametrize(
    "name", sorted(name for name, each in DRIVERS.items() if not isinstance(each.source, Elsewhere))
)


def choice(name, **more):
    return BrokerChoice(name, name, **more)


def described(name, tmp_path):
    if isinstance(found := driver(name).find(), Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    return driver(name).node(choice(name), folder=tmp_path / "0", host=HOST, port=PORT)


def test_unknown_driver_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match="no driver 'mosquito'") as caught:
        driver("mosquito")

    assert "did you mean mosquitto?" in caught.value.hint


@drivers
def test_driver_has_its_name_and_the_stock_preset(name):
    assert driver(name).name == name
    assert "stock" in driver(name).abilities.presets


@drivers
def test_unknown_option_is_refused(name, tmp_path):
    with pytest.raises(UserError, match=f"driver {name} has no option 'dorp'"):
        driver(name).node(choice(name, options={"dorp": 1}), folder=tmp_path, host=HOST, port=PORT)


@drivers
def test_unknown_preset_is_refused(name, tmp_path):
    with pytest.raises(UserError, match=f"driver {name} has no preset 'stok'") as caught:
        driver(name).node(choice(name, preset="stok"), folder=tmp_path, host=HOST, port=PORT)

    assert "did you mean stock?" in caught.value.hint


@drivers
def test_description_starts_nothing_and_writes_nothing(name, tmp_path):
    node = described(name, tmp_path)

    assert (node.host, node.port) == (HOST, PORT)
    assert list(tmp_path.iterdir()) == []


@drivers
def test_configuration_names_the_address_and_no_other(name, tmp_path):
    node = described(name, tmp_path)

    text = "\n".join([*node.argv, *node.files.values()])
    assert HOST in text
    assert str(PORT) in text
    assert "0.0.0.0" not in text


def test_mosquitto_keeps_its_user(tmp_path):
    config = described("mosquitto", tmp_path).files["mosquitto.conf"]

    assert f"user {pwd.getpwuid(os.geteuid()).pw_name}\n" in config


@pytest.mark.parametrize("name", [name for name in DRIVERS if isinstance(driver(name), Counts)])
def test_counters_have_names_of_their_own_and_a_page_has_an_address(name, tmp_path):
    broker = driver(name)
    names = [counter.name for counter in broker.counters()]

    assert names
    assert len(set(names)) == len(names)
    if isinstance(broker, CountsOnPage) and not isinstance(broker.find(), Missing):
        assert described(name, tmp_path).page.startswith(f"http://{HOST}:")


def test_scripted_writes_its_faults(tmp_path):
    node = driver("scripted").node(
        choice("scripted", options={"drop": [7], "delay_ms": {13: 50}}), folder=tmp_path, host=HOST, port=PORT
    )

    assert json.loads(node.files["script.json"])["faults"] == {"drop": [7], "delay_ms": {"13": 50}}


def program_that_says(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nats-server: v2.15.1", Found),
        ("nats-server: v2.10.0", Found),
        ("nats-server: v2.9.10", Missing),
        ("something else", Missing),
    ],
)
def test_nats_without_qos_2_is_not_used(text, found, tmp_path, monkeypatch):
    program_that_says(tmp_path, "nats-server", text)
    monkeypatch.setattr(nats, "scripts_of_this_python", lambda: tmp_path)

    assert isinstance(driver("nats").find(), found)


def test_broker_that_is_not_here_is_refused_with_a_hint(tmp_path, monkeypatch):
    monkeypatch.setattr(mosquitto, "_SYSTEM_PROGRAMS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert driver("mosquitto").find() == Missing(
        "the program mosquitto is not here", "brokerlab brokers install mosquitto"
    )
    with pytest.raises(UserError, match="the program mosquitto is not here"):
        driver("mosquitto").node(choice("mosquitto"), folder=tmp_path, host=HOST, port=PORT)
