"""The load over TLS and WebSocket, through real workers and Mosquitto: every message accounted for, no secret kept."""

import time
from dataclasses import replace

import pyarrow.dataset as ds
import pytest
from broker_rig import HOST

from brokerlab.brokers.base import Missing
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.cli.studies import _facts
from brokerlab.errors import RunError
from brokerlab.lab.access import open_access
from brokerlab.lab.clients import clients_of, worker_specs
from brokerlab.lab.crossing import Door
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.run import make_run
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Go
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import read_manifest
from brokerlab.study.file import read_study
from brokerlab.study.plan import Cell, PlannedRun, make_plan, plan_json
from brokerlab.study.secret import Secret
from brokerlab.study.values import (
    Arrivals,
    BrokerChoice,
    Certificates,
    Credentials,
    Qos,
    Schedule,
    Topics,
    Transport,
    Workload,
)
from brokerlab.study.written import study_yaml
from open_guards import OPEN_TEXT

pytestmark = pytest.mark.brokers
PASSWORD = "xyzzy-is-secret"
BURST = 300  # Mosquitto queues 1,000 messages for a subscriber that acknowledges more slowly
CHOICE = BrokerChoice("m", "mosquitto")


@pytest.fixture(autouse=True)
def mosquitto():
    if isinstance(found := driver("mosquitto").find(), Missing):
        pytest.skip(found.reason)
    return driver("mosquitto")


def workload_over(transport, *, qos=0):
    return Workload(
        publishers=2,
        subscribers=2,
        topics=Topics("t/{publisher}", "t/#"),
        # Mosquitto 2.0.11 loses QoS 2 messages of a publisher with more than 20 in flight, on every transport.
        schedule=Schedule(Arrivals.BURST, rate_per_s=2 * BURST, burst=BURST, inflight=20 if qos == 2 else None),
        qos=Qos(qos),
        transport=transport,
        certificates=Certificates.EACH if transport.is_encrypted else Certificates.NONE,
        credentials=Credentials("device-{client}", Secret(PASSWORD)),
    )


@pytest.fixture(scope="module", params=[Transport.TLS, Transport.WS, Transport.WSS])
def entered(request, tmp_path_factory):
    """(access, node) of a Mosquitto with one transport, names and certificates."""
    workload, folder = workload_over(request.param), tmp_path_factory.mktemp(request.param) / "0"
    with open_access(workload, clients_of(workload, seed=1), host=HOST) as access:
        port = free_port(HOST)
        node = driver("mosquitto").node(CHOICE, folder=folder, host=HOST, port=port, security=access.security)
        with BrokerProcess(node, folder=folder) as process:
            prove_ready(process, node.host, node.port, login=access.login)
            yield access, node


def specs_for(entered, folder, *, qos):
    access, node = entered
    workload = workload_over(access.security.transport, qos=qos)
    run = PlannedRun(Cell("c", (), CHOICE, workload), 1, 1, 1)
    clients = clients_of(workload, seed=1)
    return access.admitted(worker_specs(run, clients, doors=[Door(0, node.host, node.port)], folder=folder))


def rows_of(folder, kind):
    return ds.dataset(RunDirectory(folder).raw(kind), format="parquet").to_table().to_pylist()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_message_arrives_inside_every_transport(entered, qos, tmp_path):
    with Crew(specs_for(entered, tmp_path, qos=qos)) as crew:
        crew.connect(timeout_s=20)
        granted = crew.subscribe(timeout_s=20)
        start_ns = time.monotonic_ns() + 50_000_000
        end_ns = start_ns + 500_000_000
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + 20 * 10**9)
        expected = 2 * sum(sent.values())
        is_drained = crew.drain({"subscribers/0": expected}, deadline_ns=time.monotonic_ns() + 20 * 10**9)
        stopped = crew.stop()

    assert is_drained
    assert {each.codes for each in granted.values()} == {(qos,)}
    assert sent == {0: BURST, 1: BURST}
    assert not any(each.closed_by_broker for each in stopped.values())
    publications, deliveries = rows_of(tmp_path, "publications"), rows_of(tmp_path, "deliveries")
    assert all(row["sent_ns"] >= row["intended_ns"] for row in publications)
    assert all(row["acked_ns"] is not None for row in publications) or qos == 0
    every = {(subscriber, publisher, seq) for subscriber in (0, 1) for publisher in (0, 1) for seq in range(BURST)}
    seen = [(row["subscriber"], row["publisher"], row["seq"]) for row in deliveries]
    assert len(seen) == len(every)
    assert set(seen) == every
    assert all(row["resolution_ns"] >= 0 for row in deliveries)
    check_sessions(rows_of(tmp_path, "sessions"), entered[0].security.transport)


def check_sessions(sessions, transport):
    events = [row["event"] for row in sessions]
    handshakes = {
        Transport.TLS: {"tls": 4, "websocket": 0},
        Transport.WS: {"tls": 0, "websocket": 4},
        Transport.WSS: {"tls": 4, "websocket": 4},
    }
    assert {name: events.count(name) for name in ("tls", "websocket")} == handshakes[transport]
    assert all(row["latency_ns"] > 0 for row in sessions if row["event"] in ("tls", "websocket"))
    agreed = [event for event in events if event.startswith("tls: TLSv1.")]
    assert len(agreed) == (2 if transport.is_encrypted else 0)  # once for each worker


def test_wrong_password_is_said_with_the_code_of_the_broker(entered, tmp_path):
    specs = [
        replace(spec, clients=tuple(replace(client, password=b"wrong") for client in spec.clients))
        for spec in specs_for(entered, tmp_path, qos=0)
    ]

    with Crew(specs) as crew, pytest.raises(RunError, match=r"refused the connection: .*not authorized \(code 0x05\)"):
        crew.connect(timeout_s=20)


def test_client_without_its_certificate_is_kept_out(entered, tmp_path):
    access, _ = entered
    if not access.security.transport.is_encrypted:
        pytest.skip("certificates are shown inside TLS")
    specs = [
        replace(spec, clients=tuple(replace(client, certificate=None) for client in spec.clients))
        for spec in specs_for(entered, tmp_path, qos=0)
    ]

    with Crew(specs) as crew, pytest.raises(RunError, match=r"certificate|closed|reset|handshake"):
        crew.connect(timeout_s=20)


class Nobody:
    def __getattr__(self, _name):
        return lambda *_: None


STUDY = (
    """\
brokerlab: 1
study: secured
goals: {{question: Does it arrive?}}
system: {{brokers: {{m: {{driver: mosquitto}}}}}}
metrics: [latency]
scenario:
  workload:
    schedule: {{rate: 200/s}}
    clients: {{idle: 1}}
    qos: 1
    transport: wss
    certificates: each
    credentials: {credentials}
deploy: {{repetitions: 1, phases: {{warmup: 0 s, measure: 0.5 s, drain: 20 s}}}}
"""
    + OPEN_TEXT
)


@pytest.mark.parametrize("credentials", ["{file: users.csv}", "{user: one, password: env:TEST_SECRET}", "plain"])
def test_run_directory_holds_no_secret(tmp_path, monkeypatch, credentials):
    """Users from a file, one password from the environment, one from the study itself."""
    monkeypatch.setenv("TEST_SECRET", PASSWORD)
    (tmp_path / "users.csv").write_text(f"user,password\nanna,{PASSWORD}-1\n\nbert,env:TEST_SECRET\ncarl,c\n")
    file, out = tmp_path / "study.yaml", tmp_path / "out"
    plain = f'{{user: "d-{{client}}", password: "{PASSWORD}"}}'
    file.write_text(STUDY.format(credentials=plain if credentials == "plain" else credentials))
    facts = {name: _facts(each, each.find()) for name, each in DRIVERS.items()}
    study = read_study(file, drivers=facts)
    plan = make_plan(study, missing={})

    verdict = make_run(plan.runs[0], study, RunDirectory(out / "run"), watcher=Nobody())

    assert verdict.value == "valid", verdict.reasons
    (out / "study.yaml").write_text(study_yaml(study))
    (out / "plan.json").write_text(plan_json(plan, study))
    kept = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept
    assert b"PRIVATE KEY" not in kept
    assert b"$7$" not in kept
    assert read_study(out / "study.yaml", drivers=facts) == study
    manifest = read_manifest(out / "run" / "manifest.json")
    users = 1 if "one" in credentials else 3
    assert manifest["access"] == {"transport": "wss", "certificates": "each", "users": users}
    assert len(rows_of(out / "run", "deliveries")) == 100
