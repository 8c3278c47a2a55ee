"""The probe on real brokers: what is known of each comes out of it, and nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
from broker_rig import HOST, running

from brokerlab.brokers.base import Found
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import driver
from brokerlab.lab.access import open_access
from brokerlab.lab.clients import clients_of
from brokerlab.lab.probe.checks import CHECKS, chosen
from brokerlab.lab.probe.room import PREFIX
from brokerlab.lab.probe.runner import probe
from brokerlab.lab.probe.target import opened
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client
from brokerlab.study.secret import Secret
from brokerlab.study.values import BrokerChoice, Credentials, Transport, Workload

pytestmark = pytest.mark.brokers
KIB = 1 << 10
AS_TEXT = {"capture_output": True, "text": True, "timeout": 120}

# Deviations of Mosquitto 2.0.11 itself; the packets that prove each are in the finding.
OF_MOSQUITTO_2_0_11 = {
    ("connect.id-24", "3.1"),  # takes more than 23 characters
    ("connect.takeover-told", "5.0"),  # closes the first connection without a word
    ("qos.2-many", "3.1.1"),  # acknowledges all of a hundred, delivers twenty
    ("subscribe.overlap", "3.1.1"),  # one copy, at the QoS of whichever filter it meets first
    ("share.retained", "5.0"),
    ("limit.client-window", "5.0"),  # three messages unanswered where the client allows two
    ("malformed.ping-flags", "3.1.1"),
    ("malformed.ping-flags", "5.0"),
    ("malformed.dup-0", "3.1.1"),
    ("malformed.dup-0", "5.0"),
}


def found_with(name, only, *, patience_s=5.0):
    """id and protocol -> finding, of one broker."""
    if not isinstance(driver(name).find(), Found):
        pytest.skip(f"{name} is not installed")
    with opened(name, largest_bytes=2048 * KIB) as target:
        findings = probe(replace(target.place, patience_s=patience_s), chosen(only))
    return {(finding.check.id, finding.protocol): finding for finding in findings}


def ids(findings, result):
    return {key for key, finding in findings.items() if finding.result == result}


def command(*arguments):
    return [sys.executable, "-m", "brokerlab.cli.main", "brokers", "probe", *arguments]


def test_mosquitto_keeps_everything_but_its_own_deviations(tmp_path):
    """All checks, through the program, as a user has it."""
    found = driver("mosquitto").find()
    if not isinstance(found, Found):
        pytest.skip("mosquitto is not installed")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command("mosquitto", "--json", "--largest", "64 KiB"),
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    said = json.loads(done.stdout)
    broken = {(each["id"], each["protocol"]) for each in said["findings"] if each["result"] == "broken"}

    assert done.returncode == (1 if broken else 0), done.stderr
    assert said["protocols"] == ["3.1", "3.1.1", "5.0"]
    assert len({each["id"] for each in said["findings"]}) == len(CHECKS) + 1  # connect.still
    assert said["counts"]["unknown"] == 0, [each for each in said["findings"] if each["result"] == "unknown"]
    assert all(each["evidence"] and each["section"] and each["reason"] for each in said["findings"])
    if found.version == "2.0.11":
        assert broken == OF_MOSQUITTO_2_0_11, [each for each in said["findings"] if each["result"] == "broken"]
    assert f"probe: {len(CHECKS) + 1} checks on mosquitto" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_amqtt_raises_the_qos_and_does_not_take_over():
    found = found_with("amqtt", ["qos", "connect.takeover", "subscribe.stray", "malformed.type-0"], patience_s=2.5)

    assert ids(found, "broken") >= {
        ("qos.lower", "3.1.1"),
        ("connect.takeover", "3.1.1"),
        ("subscribe.stray", "3.1.1"),
        ("malformed.type-0", "3.1.1"),
    }
    assert "published at 0, granted 1, delivered at 1" in found["qos.lower", "3.1.1"].reason
    assert "sub< PUBLISH q1" in found["qos.lower", "3.1.1"].evidence
    assert ids(found, "kept") >= {("qos.0", "3.1.1"), ("qos.1-out", "3.1.1"), ("qos.2-in", "3.1.1")}
    assert ids(found, "not supported") >= {("connect.accepted", "5.0"), ("connect.accepted", "3.1")}


def test_rumqttd_raises_the_qos_and_ends_at_20_kib():
    found = found_with("rumqttd", ["qos", "share", "order", "payload.largest"], patience_s=2.5)

    assert ids(found, "broken") >= {("qos.lower", "3.1.1"), ("qos.dup", "3.1.1"), ("share.names", "3.1.1")}
    assert "published at 0, granted 1, delivered at 1" in found["qos.lower", "3.1.1"].reason
    assert ids(found, "kept") >= {("qos.2-in", "3.1.1"), ("order.qos-1", "3.1.1"), ("share.once", "3.1.1")}
    assert found["payload.largest", "3.1.1"].reason.startswith("payloads up to 20,")


def test_nats_has_no_shared_subscriptions_and_ends_at_1_mib():
    only = ["qos", "share", "retained", "payload.largest", "topic.space", "malformed.filter-plus"]
    found = found_with("nats", only)

    assert ids(found, "broken") == {("malformed.filter-plus", "3.1.1")}
    assert ids(found, "not supported") >= {
        ("share.once", "3.1.1"),
        ("topic.space", "3.1.1"),
        ("connect.accepted", "5.0"),
    }
    assert "payloads up to 1,0" in found["payload.largest", "3.1.1"].reason
    assert ("retained.cleared", "3.1.1") in ids(found, "kept")


def test_nothing_is_left_in_somebodys_broker(tmp_path):
    if not isinstance(driver("mosquitto").find(), Found):
        pytest.skip("mosquitto is not installed")
    with running(driver("mosquitto"), tmp_path / "0") as broker:
        address = f"{HOST}:{broker.port}"
        only = ["session.present", "session.again", "retained.kept", "will.retained"]
        done = subprocess.run(
            command(address, *(word for each in only for word in ("--only", each))),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        with Client(HOST, broker.port) as client:
            client.subscribe(PREFIX + "#", 0)
            client.subscribe("$SYS/broker/clients/disconnected", 0)
            left, ends = [], time.monotonic() + 2.5  # the counter is up to 1 s old, and so is its first value here
            while (left_s := ends - time.monotonic()) > 0:
                left.append(client.receive(timeout_s=left_s))
        assert broker.process.is_alive()

    assert done.returncode == 0, done.stdout
    assert f"{address}: 12 kept, 0 broken" in done.stdout
    messages = [message for message in left if message is not None]
    assert {message.topic for message in messages} == {"$SYS/broker/clients/disconnected"}
    assert int(messages[-1].payload) == 0


def test_an_interrupted_probe_leaves_nothing(tmp_path):
    if not isinstance(driver("mosquitto").find(), Found):
        pytest.skip("mosquitto is not installed")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command("mosquitto"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job, as a test run may be, ignores SIGINT and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - safe between fork and exec
    ) as program:
        assert program.stderr.readline().startswith("probe: ")
        children = psutil.Process(program.pid).children(recursive=True)
        assert [child.name() for child in children] == ["mosquitto"]
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)

    assert program.returncode == 130, said
    assert not any(child.is_running() for child in children)
    assert list(tmp_path.iterdir()) == []


def test_somebodys_broker_is_probed_inside_tls_with_a_user(tmp_path):
    """A Mosquitto that lets nobody else in stands for it."""
    broker = driver("mosquitto")
    if not isinstance(broker.find(), Found):
        pytest.skip("mosquitto is not installed")
    workload = Workload(transport=Transport.TLS, credentials=Credentials("probe", Secret("open sesame")))
    with open_access(workload, clients_of(workload, seed=1), host=HOST) as access:
        choice = BrokerChoice("mosquitto", "mosquitto", "lossless")  # as shipped it breaks qos.2-many
        node = broker.node(choice, folder=tmp_path / "0", host=HOST, port=free_port(HOST), security=access.security)
        with BrokerProcess(node, folder=tmp_path / "0") as process:
            prove_ready(process, HOST, node.port, login=access.login)
            arguments = command(f"{HOST}:{node.port}", "--only", "qos", "--json", "--tls", "--user", "probe")
            trusted = [*arguments, "--authority", str(access.login.entrance.authority)]
            right, wrong = (os.environ | {"BROKERLAB_PASSWORD": word} for word in ("open sesame", "wrong"))
            done = subprocess.run(trusted, env=right, check=False, **AS_TEXT)
            stranger = subprocess.run(arguments, env=right, check=False, **AS_TEXT)
            refused = subprocess.run(trusted, env=wrong, check=False, **AS_TEXT)

    counts = json.loads(done.stdout)["counts"]
    assert counts["kept"] > 10
    assert counts["broken"] == counts["unknown"] == 0
    assert stranger.returncode == 64
    assert "does not get through TLS" in stranger.stderr
    assert refused.returncode == 64
    assert "does not let us in" in refused.stderr
    assert "open sesame" not in done.stdout + done.stderr
