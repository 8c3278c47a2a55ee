"""A worker of more than a thousand publishers on a real broker: every message is sent, acknowledged and delivered."""

import itertools
import time

import pyarrow.dataset as ds
import pytest
from broker_rig import running

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver
from brokerlab.load.crew import Crew
from brokerlab.load.crowd import FEW_PUBLISHERS
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Behaviour, ClientLife, Qos, Schedule, Workload

pytestmark = pytest.mark.brokers

PUBLISHERS = FEW_PUBLISHERS + 100
RATE_PER_S, SECONDS = 10.0, 1.2
PATIENCE_NS = 30 * 10**9
STAYS = ClientLife()


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Of Mosquitto where it is installed, else of amqtt, which always is."""
    mosquitto = driver("mosquitto")
    is_here = isinstance(mosquitto.find(), Found)
    chosen, preset = (mosquitto, "lossless") if is_here else (driver("amqtt"), "stock")
    with running(chosen, tmp_path_factory.mktemp("broker"), preset=preset) as broker:
        yield broker.port


def rows(folder, kind):
    return ds.dataset(RunDirectory(folder).raw(kind), format="parquet").to_table()


def ran(port, folder, *, qos, life=STAYS):
    """What was sent by publisher, and what the workers said at the end."""
    name = folder.name
    workload = Workload(PUBLISHERS, 1, schedule=Schedule(rate_per_s=RATE_PER_S), qos=Qos(qos), clients=life)
    members = {
        "publishers/0": tuple(Client(number, f"{name}p{number}", f"{name}/{number}") for number in range(PUBLISHERS)),
        "subscribers/0": (Client(0, f"{name}s", f"{name}/#"),),
    }
    specs = [
        WorkerSpec(node, index, "127.0.0.1", port, clients, workload, 1.0, 1, folder)
        for index, (node, clients) in enumerate(members.items())
    ]
    with Crew(specs) as crew:
        crew.connect(timeout_s=30)
        crew.subscribe(timeout_s=30)
        start_ns = time.monotonic_ns() + 500_000_000
        end_ns = start_ns + int(SECONDS * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + PATIENCE_NS)
        crew.drain({"subscribers/0": sum(sent.values())}, deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        return sent, *crew.stop().values()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_message_of_a_crowd_is_sent_once_in_order_and_accounted_for(port, tmp_path, qos):
    sent, publishing, subscribing = ran(port, tmp_path, qos=qos)

    each = round(RATE_PER_S * SECONDS)
    assert sent == dict.fromkeys(range(PUBLISHERS), each)
    assert (publishing.messages, publishing.unsent, publishing.closed_by_broker) == (PUBLISHERS * each, 0, ())
    assert sum(count for _, count in publishing.lag_buckets) == PUBLISHERS * each
    published = rows(tmp_path, "publications").to_pylist()
    assert all((row["acked_ns"] is not None) == (qos > 0) for row in published)
    assert all(row["intended_ns"] <= row["sent_ns"] for row in published)
    assert {(row["publisher"], row["topic"]) for row in published} == {
        (number, f"{tmp_path.name}/{number}") for number in range(PUBLISHERS)
    }
    by_publisher = {}
    for row in published:
        by_publisher.setdefault(row["publisher"], []).append(row)
    for own in by_publisher.values():
        assert [row["seq"] for row in own] == list(range(each))
        assert all(one["sent_ns"] <= two["sent_ns"] for one, two in itertools.pairwise(own))
    due = {(row["publisher"], row["seq"]): row["intended_ns"] for row in published}
    delivered = rows(tmp_path, "deliveries").to_pylist()
    assert subscribing.messages == len(delivered) == len(due)
    assert {(row["publisher"], row["seq"]): row["intended_ns"] for row in delivered} == due


def test_crowd_whose_connections_come_and_go_sends_everything_once(port, tmp_path):
    life = ClientLife(Behaviour.CHURN, lifetime_s=0.5, keep_alive_s=3)
    sent, publishing, _ = ran(port, tmp_path, qos=0, life=life)

    each = round(RATE_PER_S * SECONDS)
    published = [(row["publisher"], row["seq"]) for row in rows(tmp_path, "publications").to_pylist()]
    assert sent == dict.fromkeys(range(PUBLISHERS), each)
    assert sorted(published) == [(number, seq) for number in range(PUBLISHERS) for seq in range(each)]
    assert (publishing.unsent, publishing.closed_by_broker) == (0, ())
    ended = [row["client"] for row in rows(tmp_path, "sessions").to_pylist() if row["event"] == "disconnect"]
    assert len(ended) >= 2 * PUBLISHERS
    delivered = [(row["publisher"], row["seq"]) for row in rows(tmp_path, "deliveries").to_pylist()]
    assert sorted(delivered) == sorted(published)
