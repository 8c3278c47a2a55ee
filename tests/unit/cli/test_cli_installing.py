"""`brokerlab brokers install` and `remove`: what they say to wrong input, before anything is done."""

import os

import pytest

from brokerlab.cli import main

pytestmark = pytest.mark.unit


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "brokers"


@pytest.fixture
def brokers(monkeypatch, capsys):
    """The command in this process; hands back its exit code and what it said."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["brokerlab", "brokers", *arguments])
        return main._exit_code(), *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["install", "moskitto"], ["there is no driver 'moskitto'", "did you mean mosquitto?"]),
        (["install", "mosquitto@2.1.3"], ["there is no driver 'mosquitto@2.1.3'", "did you mean mosquitto@2.1.2?"]),
        (["install", "nats", "amqtt"], ["nats comes with brokerlab: make setup", "amqtt comes with brokerlab"]),
        (["install", "emqx"], ["emqx cannot be installed by brokerlab; what to do: ", "docker pull emqx"]),
        (["install"], ["say which brokers, or --all"]),
        (["install", "--all", "gmqtt"], ["say which brokers, or --all"]),
        (["remove"], ["say which brokers"]),
        (["remove", "mosquitto"], ["not ours to remove", "sudo apt-get remove mosquitto"]),
        (["remove", "nats"], ["was not installed by `brokerlab brokers install`"]),
    ],
)
def test_wrong_input_is_one_message(brokers, cache, arguments, said):
    code, _, told = brokers(*arguments)

    assert code == 64
    assert all(text in told for text in said), told
    assert not cache.exists() or not list(cache.iterdir())


def test_a_registry_that_cannot_be_reached_is_one_message_and_leaves_nothing(brokers, cache, tmp_path, monkeypatch):
    go = tmp_path / "programs" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho 'cannot reach the registry' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")

    code, out, told = brokers("install", "gmqtt")

    assert code == 1
    assert "gmqtt: Go, " in out
    assert "cannot reach the registry" in told
    assert "brokerlab: not installed: gmqtt" in told
    assert list(cache.iterdir()) == []
