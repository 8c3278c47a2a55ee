"""How clients get into real brokers: every transport that a driver claims, names, certificates, who is kept out."""

import secrets
import stat
from dataclasses import replace

import pytest
from broker_rig import HOST

from brokerlab.brokers.base import Departure
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError, UserError
from brokerlab.lab.access import open_access
from brokerlab.lab.clients import clients_of
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client
from brokerlab.load.topics import PROOF_PREFIX
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
