"""Workers that are told to go several times, on a real broker: what they say belongs to the last order alone."""

import time

import pyarrow.dataset as ds
import pytest
from broker_rig import running

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Arrivals, Behaviour, ClientLife, Qos, Schedule, Workload

pytestmark = pytest.mark.brokers

SEARCH = Schedule(Arrivals.SEARCH, p99_ms=10.0, from_per_s=1.0, to_per_s=2.0)
PATIENCE_NS = 20 * 10**9
STAYS = ClientLife()
PER_MESSAGE = ClientLife(Behaviour.PER_MESSAGE)


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Of Mosquitto where it is installed, else of amqtt, which always is."""
    mosquitto = driver("mosquitto")
    chosen = mosquitto if isinstance(mosquitto.find(), Found) else driver("amqtt")
    with running(chosen, tmp_path_factory.mktemp("broker")) as broker:
        yield broker.port


def crew(port, folder, qos, life=STAYS):
    members = {"publishers/0": Client(0, f"orders-p{qos}", "o"), "subscribers/0": Client(0, f"orders-s{qos}", "o")}
    return Crew(
        [
            WorkerSpec(
                node=node, index=index, host="127.0.0.1", port=port, clients=(client,),
                workload=Workload(schedule=SEARCH, qos=Qos(qos), clients=life), fan_out=1.0, seed=1, run=folder,
            )
            for index, (node, client) in enumerate(members.items())
        ]
    )  # fmt: skip


def go(workers, number, *, rate, seconds):
    start_ns = time.monotonic_ns() + 50_000_000
    order = Go(start_ns, start_ns, start_ns + int(seconds * 1e9), number, rate)
    workers.go(order)
    return order


def rows(folder, kind):
    return ds.dataset(RunDirectory(folder).raw(kind), format="parquet").to_table().to_pylist()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_sequence_numbers_go_on_and_stock_is_of_the_last_order(port, tmp_path, qos):
    stocks, orders, total = [], [], 0
    with crew(port, tmp_path, qos) as workers:
        workers.connect(timeout_s=10)
        workers.subscribe(timeout_s=10)
        for number, rate in enumerate((100, 300), start=1):
            orders.append(go(workers, number, rate=rate, seconds=0.2))
            sent = workers.sent(deadline_ns=time.monotonic_ns() + PATIENCE_NS)
            assert workers.drain({"subscribers/0": sent[0] - total}, deadline_ns=time.monotonic_ns() + PATIENCE_NS)
            stocks.append(workers.stock())
            total = sent[0]
        stopped = workers.stop()

    assert total == 20 + 60
    assert [stock["subscribers/0"].arrivals for stock in stocks] == [20, 60]
    assert [sum(n for _, n in stock["publishers/0"].lag_buckets) for stock in stocks] == [20, 60]
    assert stopped["subscribers/0"].messages == total
    published = sorted(rows(tmp_path, "publications"), key=lambda row: row["seq"])
    assert [row["seq"] for row in published] == list(range(total))
    for order, own in zip(orders, (published[:20], published[20:]), strict=True):
        assert all(order.start_ns <= row["intended_ns"] < order.end_ns for row in own)
    for order, stock in zip(orders, stocks, strict=True):
        own = [row for row in rows(tmp_path, "deliveries") if order.start_ns <= row["intended_ns"] < order.end_ns]
        latencies = [row["received_ns"] - row["intended_ns"] for row in own]
        said = stock["subscribers/0"]
        assert (said.latency_min_ns, said.latency_max_ns) == (min(latencies), max(latencies))


@pytest.mark.parametrize("life", [STAYS, PER_MESSAGE], ids=["stays", "per-message"])
def test_what_is_due_and_not_built_is_given_up_and_counted_on_demand(port, tmp_path, life):
    """The connection for a message that was given up is not opened beside the one for the next."""
    with crew(port, tmp_path, 1, life) as workers:
        workers.connect(timeout_s=10)
        workers.subscribe(timeout_s=10)
        go(workers, 1, rate=100, seconds=60)
        workers.halt()
        sent = workers.sent(deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        workers.drain({"subscribers/0": sent[0]}, deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        given_up = workers.stock()["publishers/0"].given_up
        go(workers, 2, rate=100, seconds=0.1)
        after = workers.sent(deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        workers.drain({"subscribers/0": 10}, deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        stopped = workers.stop()

    assert sent[0] + given_up == 6000
    assert after[0] == sent[0] + 10
    assert stopped["subscribers/0"].messages == after[0]
    assert stopped["publishers/0"].unsent == 0
    published = [(row["seq"], row["acked_ns"] is not None) for row in rows(tmp_path, "publications")]
    assert sorted(published) == [(seq, True) for seq in range(after[0])]


def test_a_subscriber_gives_up_waiting_after_the_quiet_that_it_is_told(port, tmp_path):
    with crew(port, tmp_path, 0) as workers:
        workers.connect(timeout_s=10)
        workers.subscribe(timeout_s=10)
        go(workers, 1, rate=100, seconds=0.1)
        workers.sent(deadline_ns=time.monotonic_ns() + PATIENCE_NS)
        began_ns = time.monotonic_ns()
        is_complete = workers.drain({"subscribers/0": 99}, deadline_ns=began_ns + 600 * 10**9, quiet_ns=50_000_000)
        workers.stop()

    assert not is_complete
    assert time.monotonic_ns() - began_ns < 600 * 10**9
