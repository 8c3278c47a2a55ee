"""Payloads of every size and shape through real workers and a real broker: each message arrives as itself."""

import time

import pyarrow.dataset as ds
import pytest
from broker_rig import running

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver
from brokerlab.lab.clients import clients_of
from brokerlab.load.client import Client
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.replay import digest, measure_s
from brokerlab.study.values import Arrivals, Content, Payload, Phases, Qos, Record, Replay, Schedule, Workload

pytestmark = pytest.mark.brokers

MIB = 1 << 20
TEMPLATE = '{"seq": {seq}, "at": {intended_ns}, "value": {random}}'


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    mosquitto = driver("mosquitto")
    if not isinstance(mosquitto.find(), Found):
        pytest.skip("Mosquitto is not installed")
    with running(mosquitto, tmp_path_factory.mktemp("broker")) as broker:
        yield broker.port


def run(workload, port, folder, *, seconds=0.4):
    """Raw publications and deliveries as rows, after everything that was sent has come."""
    clients = clients_of(workload, seed=1)
    specs = [
        WorkerSpec(
            node=node, index=index, host="127.0.0.1", port=port, clients=members, workload=workload, fan_out=1.0,
            seed=1, run=folder,
        )
        for index, (node, members) in enumerate(
            [("publishers/0", clients.publishers), ("subscribers/0", clients.subscribers)]
        )
    ]  # fmt: skip
    with Crew(specs) as crew:
        crew.connect(timeout_s=10)
        crew.subscribe(timeout_s=10)
        start_ns = time.monotonic_ns() + 50_000_000
        end_ns = start_ns + int(seconds * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + 60 * 10**9)
        assert crew.drain({"subscribers/0": clients.expected(sent)}, deadline_ns=time.monotonic_ns() + 60 * 10**9)
        crew.stop()
    return [_rows(folder, kind) for kind in ("publications", "deliveries")]


def _rows(folder, kind):
    return ds.dataset(RunDirectory(folder).raw(kind), format="parquet").to_table().to_pylist()


def identities(rows):
    return sorted((row["publisher"], row["seq"], row["payload_bytes"]) for row in rows)


@pytest.mark.parametrize(
    ("size", "payload", "rate"),
    [
        (0, Payload(), 300),
        (1, Payload(), 300),
        (7, Payload(Content.ZEROS), 300),
        (1024, Payload(mix=((64, 90.0), (1024, 10.0))), 300),
        (70, Payload(Content.JSON, TEMPLATE), 300),
        (125_528, Payload(each=(125_528, 35_703, 1_517)), 100),
        (MIB, Payload(), 10),
        (16 * MIB, Payload(Content.TEXT), 5),
    ],
    ids=["0 B", "1 B", "7 B", "mix", "json", "each", "1 MiB", "16 MiB"],
)
@pytest.mark.parametrize("qos", [0, 2])
def test_every_message_arrives_as_itself(port, tmp_path, size, payload, rate, qos):
    """Above QoS 0 so few that they fit Mosquitto's queue, which drops what does not."""
    schedule = Schedule(rate_per_s=min(rate, 60) if qos else rate)
    workload = Workload(3, 1, payload_bytes=size, payload=payload, schedule=schedule, qos=Qos(qos))

    published, delivered = run(workload, port, tmp_path)

    assert len(published) >= 3
    assert identities(delivered) == identities(published)
    assert {row["intended_ns"] is None for row in delivered} == {size < 16}


@pytest.mark.parametrize(("qos", "records"), [(0, 3000), (1, 90), (2, 90)])
def test_a_file_is_replayed_byte_for_byte_by_three_publishers(port, tmp_path, qos, records):
    """A client of its own, which knows nothing of the run, sees exactly the bytes of the file."""
    lines = [b'%d,"bus ""%d""",%.3f\r' % (number, number % 7, number * 0.37) for number in range(records)]
    content = b"id,name,value\r\n" + b"\n".join(lines) + b"\n"
    (tmp_path / "buses.csv").write_bytes(content)
    replay = Replay(str(tmp_path / "buses.csv"), digest(content), Record.CSV)
    schedule = Schedule(Arrivals.REPLAY, rate_per_s=records / 3 / 0.5)
    workload = Workload(3, 1, payload=Payload(replay=replay), schedule=schedule, qos=Qos(qos))

    with Client("127.0.0.1", port) as witness:
        witness.subscribe("brokerlab/#", qos)
        published, delivered = run(workload, port, tmp_path / "run", seconds=measure_s(workload, Phases()))
        seen = [witness.receive(timeout_s=10) for _ in range(records)]
        assert witness.receive(timeout_s=0.2) is None

    for number in range(3):
        own = [message.payload for message in seen if message.topic == f"brokerlab/{number}"]
        assert own == lines[number::3]
    assert len(published) == records
    assert identities(delivered) == identities(published)
