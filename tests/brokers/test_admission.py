"""Who is let in, where no driver makes a difference: strange certificates, brokers out of reach, what workers know."""

from dataclasses import replace
from pathlib import Path

import pytest
from broker_rig import HOST
from test_access import node_for

from brokerlab.brokers.base import Missing
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import DRIVERS
from brokerlab.errors import RunError
from brokerlab.lab.access import open_access
from brokerlab.lab.certificates import Authority, keep
from brokerlab.lab.clients import clients_of, worker_specs
from brokerlab.lab.crossing import Door
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client, Login, NotAdmittedError
from brokerlab.load.spec import Entrance
from brokerlab.study.plan import Cell, PlannedRun
from brokerlab.study.secret import Secret
from brokerlab.study.values import BrokerChoice, Certificates, Credentials, Transport, Workload

pytestmark = pytest.mark.brokers
PASSWORD = "correct horse battery staple"


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
