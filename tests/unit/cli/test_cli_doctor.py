import json
import subprocess

import pytest
from cli_program import Program

from brokerlab.cli import programs
from brokerlab.cli.checkup import State
from brokerlab.cli.doctor import doctor
from brokerlab.cli.privileges import PREFIX

pytestmark = pytest.mark.unit

LOOKED_AT = {
    *("Python", "Java", "Spark", "browser", "cores", "memory", "swap", "other work", "CPU steal", "clock"),
    *("open files", "ports", "connections", "root", "network namespaces", "netem", "TUN", "limits on a broker"),
    *(f"broker {name}" for name in ("amqtt", "mosquitto", "nats", "rumqttd")),
    "other brokers",
}


def test_doctor_says_what_follows_from_every_limit(brokerlab: Program) -> None:
    done = brokerlab("doctor", "--json")
    answer = json.loads(done.stdout)
    checks = {check["name"]: check for check in answer["checks"]}

    assert done.returncode == (0 if answer["can_run_demo"] else 1)
    assert set(checks) == LOOKED_AT
    assert {check["state"] for check in checks.values()} <= set(State)
    for check in checks.values():
        is_explained = bool(check["follows"] and check["lift"])
        assert is_explained == (check["state"] != "ok"), check


def test_doctor_for_people_is_plain_text(brokerlab: Program) -> None:
    done = brokerlab("doctor")

    assert "The demo can" in done.stdout
    assert "\x1b" not in done.stdout


def test_doctor_leaves_no_namespace(brokerlab: Program) -> None:
    brokerlab("doctor")
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout

    assert PREFIX not in listed


def test_without_java_the_demo_cannot_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(programs, "find_java", lambda: None)

    assert doctor() == 1
    said = capsys.readouterr().out
    assert "The demo cannot run here without Java." in said
    assert "openjdk-17-jre-headless" in said
