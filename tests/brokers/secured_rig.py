"""A Mosquitto that speaks one transport, with names and certificates, and whole casts of workers that get into it."""

import contextlib
import time
from dataclasses import dataclass, replace

import pyarrow.dataset as ds
from broker_rig import HOST

from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import driver
from brokerlab.lab.access import open_access
from brokerlab.lab.cast import cast_of, specs_of
from brokerlab.lab.clients import clients_of
from brokerlab.lab.crossing import Door
from brokerlab.lab.proof import prove_ready
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Go
from brokerlab.record.directory import RunDirectory
from brokerlab.study.plan import Cell, PlannedRun
from brokerlab.study.replay import measure_s
from brokerlab.study.secret import Secret
from brokerlab.study.values import BrokerChoice, Certificates, Credentials, Phases, Roles

PASSWORD = "xyzzy-is-secret"
PATIENCE_NS = 30 * 10**9


def over(workload, transport):
    """The workload with a name for each client, and inside TLS with a certificate too."""
    return replace(
        workload,
        transport=transport,
        certificates=Certificates.EACH if transport.is_encrypted else Certificates.NONE,
        credentials=Credentials("device-{client}", Secret(PASSWORD)),
    )


@contextlib.contextmanager
def entered(workload, folder, *, preset="stock"):
    """(access, process) of a Mosquitto with the transport of the workload, for all that come in as its clients do."""
    choice, port = BrokerChoice("m", "mosquitto", preset=preset), free_port(HOST)
    with open_access(workload, clients_of(workload, seed=1), host=HOST) as access:
        node = driver("mosquitto").node(choice, folder=folder, host=HOST, port=port, security=access.security)
        with BrokerProcess(node, folder=folder) as process:
            prove_ready(process, node.host, node.port, login=access.login)
            yield access, process


def rows_of(folder, kind):
    raw = RunDirectory(folder).raw(kind)
    return ds.dataset(raw, format="parquet").to_table().to_pylist() if raw.exists() else []


@dataclass(frozen=True)
class Made:
    """What a cast of workers said and left behind, and what it was told."""

    sent: dict
    stopped: dict
    orders: list
    folder: object

    def rows(self, kind):
        return rows_of(self.folder, kind)


def make(entrance, workload, folder, *, seconds=0.4, rates=(None,), seed=1):
    """Every part of the workload, as the lab casts it; one order for each rate, and all that was sent must come."""
    access, process = entrance
    workload = over(workload, access.security.transport)
    clients = clients_of(workload, seed=seed)
    cast = cast_of(workload, clients, seed=seed)
    run = PlannedRun(Cell("c", (), BrokerChoice("m", "mosquitto"), workload), 1, 1, seed)
    specs = access.admitted(specs_of(run, cast, doors=[Door(0, process.node.host, process.node.port)], folder=folder))
    if workload.payload.replay is not None:
        seconds = measure_s(workload, Phases())
    orders, before = [], {}
    with Crew(specs) as crew:
        crew.connect(timeout_s=20)
        crew.subscribe(timeout_s=20)
        for number, rate_per_s in enumerate(rates):
            start_ns = time.monotonic_ns() + 50_000_000
            orders.append(Go(start_ns, start_ns, start_ns + int(seconds * 1e9), number, rate_per_s))
            crew.go(orders[-1])
            sent = crew.sent(deadline_ns=orders[-1].end_ns + PATIENCE_NS)
            assert sent is not None
            news = {publisher: count - before.get(publisher, 0) for publisher, count in sent.items()}
            assert crew.drain(cast.expected(news), deadline_ns=time.monotonic_ns() + PATIENCE_NS)
            before = sent
        stopped = crew.stop()
    assert not [said for each in stopped.values() for said in each.closed_by_broker]
    return Made(sent, stopped, orders, folder)


def check_ledger(made, workload):
    """Everything that was sent was acknowledged, and came once to each subscriber that it is for."""
    published, probes = made.rows("publications"), made.rows("probe_publications")
    probing = {row["publisher"] for row in probes}
    load = {publisher: count for publisher, count in made.sent.items() if publisher not in probing}
    every = sorted((publisher, seq) for publisher, count in load.items() for seq in range(count))
    assert sorted((row["publisher"], row["seq"]) for row in published) == every
    assert all((row["acked_ns"] is not None) == (workload.qos > 0) for row in published)
    assert all(row["sent_ns"] >= row["intended_ns"] for row in published)
    is_shared = workload.role is Roles.ONE_WAY  # else everybody hears of its own messages alone
    hears = {publisher: range(workload.subscribers) if is_shared else [publisher] for publisher in load}
    seen = [(row["subscriber"], row["publisher"], row["seq"]) for row in made.rows("deliveries")]
    assert sorted(seen) == sorted((each, *message) for message in every for each in hears[message[0]])
    assert [row["seq"] for row in made.rows("probe_deliveries")] == [row["seq"] for row in probes]
