"""The load engine through every broker, at each QoS that its driver claims: the ledger is complete."""

import time

import pyarrow.dataset as ds
import pytest
from broker_rig import HOST, LOGINS, expected_qos, new_topic

from brokerlab.load.client import Login
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Qos, Schedule, Workload

pytestmark = pytest.mark.brokers
RATE_PER_S, SECONDS = 200, 1
IN_FLIGHT = 10  # Mosquitto loses at QoS 2 what a publisher that was held up sends at once, from 20 on
PATIENCE_NS = 30 * 10**9


def specs(port, folder, workload):
    topic = new_topic()
    login = LOGINS.get(port, Login())
    own = {"user": login.user, "password": login.password}
    members = {
        "publishers/0": Client(0, f"p{topic[-8:]}", topic, **own),
        "subscribers/0": Client(0, f"s{topic[-8:]}", topic, **own),
    }
    return [
        WorkerSpec(
            node=node, index=index, host=HOST, port=port, clients=(client,), workload=workload,
            fan_out=1.0, seed=1, run=folder,
        )
        for index, (node, client) in enumerate(members.items())
    ]  # fmt: skip


def rows(folder, kind):
    return ds.dataset(RunDirectory(folder).raw(kind), format="parquet").to_table().to_pylist()


@pytest.mark.parametrize("qos", list(Qos))
def test_every_message_of_a_load_stands_in_the_ledger_once(broker, tmp_path, qos):
    if qos not in broker.driver.abilities.qos:
        pytest.skip(f"{broker.driver.name} has no QoS {qos}")
    workload = Workload(schedule=Schedule(rate_per_s=float(RATE_PER_S), inflight=IN_FLIGHT if qos else None), qos=qos)
    with Crew(specs(broker.port, tmp_path, workload)) as crew:
        crew.connect(timeout_s=20)
        granted = crew.subscribe(timeout_s=20)
        start_ns = time.monotonic_ns() + 50_000_000
        crew.go(Go(start_ns, start_ns, start_ns + SECONDS * 10**9))
        sent = crew.sent(deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        crew.drain({"subscribers/0": sent[0]}, deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        crew.stop()

    every = list(range(RATE_PER_S * SECONDS))
    publications, deliveries = rows(tmp_path, "publications"), rows(tmp_path, "deliveries")
    assert granted[0].qos == qos
    assert sorted(row["seq"] for row in publications) == every
    assert sorted(row["seq"] for row in deliveries) == every
    assert all(row["sent_ns"] is not None for row in publications)
    assert all((row["acked_ns"] is not None) == (qos > 0) for row in publications)
    expected = expected_qos(broker.driver.abilities, published=qos, subscribed=qos)
    assert {row["qos"] for row in deliveries} == {expected}
