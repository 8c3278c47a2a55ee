"""Windows through real workers and a real broker: what the rows say of how many messages were in flight."""

import time
from itertools import pairwise

import pyarrow.dataset as ds
import pytest
from broker_rig import running

from brokerlab.brokers.base import Found
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import driver
from brokerlab.lab.proof import prove_ready
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, Progress, WorkerSpec
from brokerlab.load.widening import FIRST, MOST, STEP_NS
from brokerlab.load.window import limit_of, window_of
from brokerlab.load.wire import PACKET_IDS
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import AUTO, Arrivals, BrokerChoice, ClientLife, Qos, Schedule, Workload

pytestmark = pytest.mark.brokers

TOPIC = "window/1"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Of Mosquitto where it is installed, else of amqtt, which always is.

    Mosquitto as shipped drops what it has acknowledged when a subscriber is a thousand messages behind: a window of
    20 in flight is that far ahead of one that was away for 30 ms.
    """
    mosquitto = driver("mosquitto")
    is_here = isinstance(mosquitto.find(), Found)
    chosen, preset = (mosquitto, "lossless") if is_here else (driver("amqtt"), "stock")
    with running(chosen, tmp_path_factory.mktemp("broker"), preset=preset) as broker:
        yield broker.port


def run(schedule, port, folder, *, qos, seconds=0.6, may_lose=False):
    """What publisher and subscriber say at the end, and the publications in order."""
    members = {"publishers/0": Client(0, "loop-p", TOPIC), "subscribers/0": Client(0, "loop-s", TOPIC)}
    specs = [
        WorkerSpec(
            node=node, index=index, host="127.0.0.1", port=port, clients=(client,),
            workload=Workload(schedule=schedule, qos=Qos(qos)), fan_out=1.0, seed=1, run=folder,
        )
        for index, (node, client) in enumerate(members.items())
    ]  # fmt: skip
    with Crew(specs) as crew:
        crew.connect(timeout_s=10)
        crew.subscribe(timeout_s=10)
        start_ns = time.monotonic_ns() + 50_000_000
        end_ns = start_ns + int(seconds * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + 20 * 10**9)
        patience_ns = 10**9 if may_lose else 20 * 10**9
        assert crew.drain({"subscribers/0": sent[0]}, deadline_ns=time.monotonic_ns() + patience_ns) or may_lose
        publisher, subscriber = crew.stop().values()
    assert publisher.messages == sent[0]
    assert subscriber.messages == sent[0] or may_lose
    rows = ds.dataset(RunDirectory(folder).raw("publications"), format="parquet").to_table().sort_by("seq").to_pylist()
    return publisher, rows


@pytest.mark.parametrize(("inflight", "qos"), [(1, 1), (1, 2), (20, 1)])
def test_window_sends_as_soon_as_there_is_room_and_never_more(port, tmp_path, inflight, qos):
    publisher, rows = run(Schedule(Arrivals.WINDOW, inflight=inflight), port, tmp_path, qos=qos)

    assert len(rows) > inflight
    assert all(row["sent_ns"] >= before["acked_ns"] for row, before in zip(rows[inflight:], rows, strict=False))
    assert publisher.waited == 0  # a closed loop has nothing that was due before


@pytest.mark.parametrize(
    ("name", "preset", "most", "limit"),
    [
        ("mosquitto", "lossless", MOST, 65_534),
        ("mosquitto", "stock", 1024, PACKET_IDS),
        ("amqtt", "stock", 1024, PACKET_IDS),
    ],
)
def test_window_for_exactly_once_is_as_wide_as_the_broker_says(tmp_path, name, preset, most, limit):
    """Of two publishers. Mosquitto as shipped says 20 of each, amqtt does not speak MQTT 5.0: there it is as usual."""
    chosen = driver(name)
    if not isinstance(chosen.find(), Found):
        pytest.skip(f"{name} is not installed")
    clients = tuple(Client(number, f"told-{number}", TOPIC) for number in range(2))
    workload = Workload(publishers=2, schedule=Schedule(Arrivals.SATURATE, window=AUTO), qos=Qos.EXACTLY_ONCE)
    with running(chosen, tmp_path / "broker", preset=preset) as broker:
        spec = WorkerSpec("publishers/0", 0, "127.0.0.1", broker.port, clients, workload, 1.0, 1, tmp_path / "run")
        window = window_of(spec, [0] * 4, Progress((0,), (1,), (2,), 3))

        assert limit_of(window, spec, timeout_s=5) == limit
    for turn in range(100):  # the more the wider
        window.widening.look(turn * STEP_NS, 1_000 * turn * turn * window.widening.size)
    assert max(size for size, _ in window.widening.steps) == most


@pytest.mark.parametrize("preset", ["lossless", "durable", "tuned"])
def test_mosquitto_takes_as_many_handshakes_as_are_begun(tmp_path, preset):
    """As shipped, version 2.0.11 loses what it acknowledged of a publisher with more than 20 under way."""
    mosquitto = driver("mosquitto")
    if not isinstance(mosquitto.find(), Found):
        pytest.skip("Mosquitto is not installed")
    with running(mosquitto, tmp_path / "broker", preset=preset) as broker:
        _, rows = run(Schedule(Arrivals.WINDOW, inflight=200), broker.port, tmp_path / "run", qos=2)

    assert all(row["acked_ns"] is not None for row in rows)


def test_open_loop_with_a_window_sends_late_and_counts_what_waited(port, tmp_path):
    burst = Schedule(Arrivals.BURST, rate_per_s=500, burst=100, inflight=4)

    publisher, rows = run(burst, port, tmp_path, qos=1)

    assert len(rows) == 300
    assert all(row["sent_ns"] >= before["acked_ns"] for row, before in zip(rows[4:], rows, strict=False))
    assert 300 - 3 * 4 <= publisher.waited < 300  # of a burst the first four find room, if the one before is through


def test_auto_window_is_widened_and_says_what_it_saw(port, tmp_path):
    auto = Schedule(Arrivals.SATURATE, window="auto")

    publisher, rows = run(auto, port, tmp_path, qos=0, seconds=1.5, may_lose=True)

    tried = [window for window, _ in publisher.window_steps]
    assert tried[:2] == [FIRST, 2 * FIRST]
    # Doubled first; then sizes that came near the best are tried again.
    assert all(window == 2 * before or window in tried[:at] for at, (before, window) in enumerate(pairwise(tried), 1))
    assert publisher.window_steps[0][1] > 0
    assert publisher.window in (tried if publisher.window_settled_ns else [FIRST, *(2 * each for each in tried)])
    assert len(rows) > 32


@pytest.mark.parametrize(("qos", "arrivals"), [(0, "saturate"), (1, "saturate"), (1, "window")])
def test_a_loop_that_loses_its_connection_goes_on_over_the_next(tmp_path, qos, arrivals):
    """The broker stops reading until the sockets are full, and then closes: what never left is not waited for."""
    faults = {"stall_ms": {20: 300}, "reject": [21]}
    schedule = (
        Schedule(Arrivals.SATURATE, window=2_000)
        if arrivals == "saturate"
        else Schedule(Arrivals.WINDOW, inflight=2_000)
    )
    workload = Workload(
        schedule=schedule, qos=Qos(qos), payload_bytes=16_384, clients=ClientLife(reconnect=True), subscribers=1
    )
    folder, port = tmp_path / "broker", free_port("127.0.0.1")
    node = driver("scripted").node(
        BrokerChoice("scripted", "scripted", options=faults), folder=folder, host="127.0.0.1", port=port
    )
    members = {"publishers/0": Client(0, "again-p", TOPIC), "subscribers/0": Client(0, "again-s", TOPIC)}
    specs = [
        WorkerSpec(number, index, "127.0.0.1", port, (client,), workload, 1.0, 1, tmp_path / "run")
        for index, (number, client) in enumerate(members.items())
    ]
    with BrokerProcess(node, folder=folder) as process:
        prove_ready(process, "127.0.0.1", port)
        with Crew(specs) as crew:
            crew.connect(timeout_s=10)
            crew.subscribe(timeout_s=10)
            start_ns = time.monotonic_ns() + 50_000_000
            crew.go(Go(start_ns, start_ns, start_ns + 2 * 10**9))
            sent = crew.sent(deadline_ns=start_ns + 30 * 10**9)
            publisher, _ = crew.stop().values()

    assert sent is not None
    assert sent[0] == publisher.messages > 21
    assert publisher.unsent == 0
    events = (
        ds.dataset(RunDirectory(tmp_path / "run").raw("sessions"), format="parquet").to_table()["event"].to_pylist()
    )
    assert events.count("connack") == 3
