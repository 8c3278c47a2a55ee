"""How clients get into real brokers: every transport that a driver claims, names, certificates, who is kept out."""

import secrets
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from broker_rig import HOST

from brokerlab.brokers.base import Departure, Missing
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import DRIVERS
from brokerlab.errors import RunError, UserError
from brokerlab.lab.access import open_access
from brokerlab.lab.certificates import Authority, keep
from brokerlab.lab.clients import clients_of, worker_specs
from brokerlab.lab.crossing import Door
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client, Login, NotAdmittedError
from brokerlab.load.spec import Entrance
from brokerlab.load.topics import PROOF_PREFIX
from brokerlab.study.plan import Cell, PlannedRun
from brokerlab.study.secret import Secret
from brokerlab.study.values import BrokerChoice, Certificates, Credentials, Transport, Workload

pytestmark = pytest.mark.brokers
LONG_BYTES = 200_000
PASSWORD = "correct horse battery staple"


def workload_for(driver, transport):
    """As much as the driver claims, all at once."""
    abilities = driver.abilities
    return Workload(
        transport=transport,
        certificates=Certificates.EACH
        if abilities.has_client_certificates and transport.is_encrypted
        else Certificates.NONE,
        credentials=Credentials("device-{client}", Secret(PASSWORD)) if abilities.has_credentials else None,
    )


def node_for(driver, folder, access):
    choice = BrokerChoice(driver.name, driver.name)
    return driver.node(choice, folder=folder, host=HOST, port=free_port(HOST), security=access.security)


@pytest.mark.parametrize("transport", list(Transport))
def test_driver_serves_the_transports_that_it_claims_and_refuses_the_others(driver, transport, tmp_path):
    workload = workload_for(driver, transport)
    clients = clients_of(workload, seed=1)
    folder = tmp_path / "0"
    with open_access(workload, clients, host=HOST) as access:
        if transport not in driver.abilities.transports:
            with pytest.raises(UserError, match=f"no transport '{transport}'"):
                node_for(driver, folder, access)
            return
        node = node_for(driver, folder, access)
        private = access.security.folder
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private.iterdir())
        with BrokerProcess(node, folder=folder) as process:
            prove_ready(process, node.host, node.port, login=access.login)
            everybody = logins(access, clients)
            exchange(node, *everybody, qos=driver.abilities.qos, payload_bytes=payload_bytes(driver, transport))
            if workload.credentials:
                departs = driver.abilities.departs
                hangs_up = Departure.HANGS_UP_ON_WS in departs and transport.is_framed
                closes = Departure.CLOSES_INSTEAD_OF_REFUSING in departs or hangs_up
                said = "closed the connection" if closes else r"CONNACK return code [45]"
                with pytest.raises(RunError, match=said):
                    Client(HOST, node.port, login=replace(everybody[0], password=b"wrong"))
            if workload.certificates is Certificates.EACH:
                with pytest.raises(RunError):
                    Client(HOST, node.port, login=replace(everybody[0], certificate=None))
    assert not private.exists()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept
    assert b"PRIVATE KEY" not in kept


def logins(access, clients):
    known = [access.clients.get(each.name, each) for each in (*clients.publishers, *clients.subscribers)]
    return [
        replace(access.login, user=each.user, password=each.password, certificate=each.certificate) for each in known
    ]


def payload_bytes(driver, transport):
    """Inside TLS longer than a record, where the broker takes that; elsewhere short: Mosquitto drags over WebSocket."""
    limit = driver.abilities.payload_limit_bytes or LONG_BYTES
    return min(LONG_BYTES, limit * 9 // 10) if transport is Transport.TLS else 1_000


def exchange(node, publisher, subscriber, *, qos, payload_bytes):
    topic, payload = f"access/{secrets.token_hex(4)}", secrets.token_bytes(payload_bytes)
    with Client(HOST, node.port, login=subscriber) as receiving, Client(HOST, node.port, login=publisher) as sending:
        receiving.subscribe(topic, max(qos))
        for each in qos:
            sending.publish(topic, payload, qos=each)
        got = [receiving.receive(timeout_s=10) for _ in qos]

    assert [message is not None and message.payload == payload for message in got] == [True] * len(qos)


def test_permissions_are_kept_where_the_driver_claims_them(driver, tmp_path):
    """Both may be read and written, one only read, one only written: by subscription and by publication."""
    if not driver.abilities.has_permissions:
        pytest.skip(f"{driver.name} has no permissions")
    workload = Workload(credentials=Credentials("device-{client}", Secret(PASSWORD)))
    clients = clients_of(workload, seed=1)
    proof = f"{PROOF_PREFIX}#"
    with open_access(workload, clients, host=HOST) as access:
        security = replace(access.security, readable=("both/#", "in/#", proof), writable=("both/#", "out/#", proof))
        node = node_for(driver, tmp_path / "0", replace(access, security=security))
        with BrokerProcess(node, folder=tmp_path / "0") as process:
            prove_ready(process, node.host, node.port, login=access.login)
            publisher, subscriber = logins(access, clients)
            arrived = {each: arrives(node, publisher, subscriber, f"{each}/x") for each in ("both", "in", "out")}

    assert arrived == {"both": True, "in": False, "out": False}


def arrives(node, publisher, subscriber, topic):
    """Whether a message gets through; a broker may refuse, close or say nothing."""
    try:
        with (
            Client(HOST, node.port, login=subscriber) as receiving,
            Client(HOST, node.port, login=publisher) as sending,
        ):
            receiving.subscribe(topic, 1)
            sending.publish(topic, b"x", qos=1)
            return receiving.receive(timeout_s=1.5) is not None
    except RunError:
        return False


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A Mosquitto whose certificate another authority signed, and one for another host; and the one that we trust."""
    driver = DRIVERS["mosquitto"]
    if isinstance(found := driver.find(), Missing):
        pytest.skip(found.reason)
    folder = tmp_path_factory.mktemp("strange")
    ours, theirs = Authority(), Authority("somebody else's")
    trusted = keep(folder, "ours.pem", ours.pem)
    ports = {}
    with open_access(Workload(transport=Transport.TLS), clients_of(Workload(), seed=1), host=HOST) as access:
        started = []
        for name, (certificate, key) in {"authority": theirs.broker(HOST), "host": ours.broker("elsewhere")}.items():
            security = replace(
                access.security,
                certificate=keep(folder, f"{name}.pem", certificate),
                key=keep(folder, f"{name}.key", key),
            )
            node = node_for(driver, folder / name, replace(access, security=security))
            process = BrokerProcess(node, folder=folder / name)
            process.start()
            started.append(process)
            ports[name] = process
        try:
            yield ports, Login(Entrance(Transport.TLS, authority=trusted))
        finally:
            for process in started:
                process.stop()


@pytest.mark.parametrize(
    ("name", "said"),
    [("authority", "unable to get local issuer certificate|self-signed"), ("host", "IP address mismatch")],
)
def test_certificate_that_does_not_match_is_found_before_the_first_message(strange, name, said):
    """At once, and not after the deadline: trying again would not help."""
    processes, login = strange
    process = processes[name]

    with pytest.raises(NotAdmittedError, match=f"the broker's certificate is refused: .*({said})"):
        prove_ready(process, HOST, process.node.port, login=login, deadline_s=60)


def test_broker_that_cannot_be_reached_is_said_so():
    port = free_port(HOST)

    with pytest.raises(RunError, match=f"{HOST}:{port}: connecting failed: .*refused"):
        Client(HOST, port, login=Login(Entrance(Transport.TLS)))


def test_workers_get_names_and_certificates_but_show_none(tmp_path):
    workload = Workload(
        transport=Transport.WSS, certificates=Certificates.EACH, credentials=Credentials("u{client}", Secret(PASSWORD))
    )
    clients = clients_of(workload, seed=1)
    run = PlannedRun(Cell("c", (), BrokerChoice("b", "mosquitto"), workload), 1, 1, 1)
    with open_access(workload, clients, host=HOST) as access:
        specs = access.admitted(worker_specs(run, clients, doors=[Door(0, HOST, 1)], folder=tmp_path))

        assert [spec.entrance.transport for spec in specs] == [Transport.WSS] * 2
        assert [client.user for spec in specs for client in spec.clients] == ["u0", "u1"]
        files = {client.certificate for spec in specs for client in spec.clients}
        assert len(files) == 2
        assert all(Path(file).exists() for file in files)
        assert PASSWORD not in repr(specs) + repr(access)
