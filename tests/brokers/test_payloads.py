"""Payloads of every size and shape through real workers and a real broker: each message arrives as itself."""

import time

import pyarrow.dataset as ds
import pytest
from broker_rig import running

from brokerlab.brokers.base import Found, Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import driver
from brokerlab.errors import RunError
from brokerlab.lab.clients import clients_of
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.replay import digest, measure_s
from brokerlab.study.values import (
    Arrivals,
    Content,
    Payload,
    Phases,
    Qos,
    Record,
    Replay,
    Schedule,
    Split,
    Topics,
    Workload,
)

pytestmark = pytest.mark.brokers

MIB = 1 << 20
LARGEST = 256_000_000
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


def test_the_largest_payload_arrives_as_itself(port, tmp_path):
    """One message of 256 MB: its publisher, its number and every byte of its length."""
    published, delivered = run(Workload(payload_bytes=LARGEST, schedule=Schedule(rate_per_s=1)), port, tmp_path)

    assert identities(delivered) == identities(published) == [(0, 0, LARGEST)]


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


# The places of the records that each of three publishers sends.
SPLITS = {
    Split.TURNS: ([0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]),
    Split.BLOCKS: ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]),
    Split.KEY: ([0, 3, 4, 7, 8, 11], [1, 5, 9], [2, 6, 10]),  # d is the fourth bus, and the first publisher's again
}


@pytest.mark.parametrize(("split", "qos"), [(Split.TURNS, 2), (Split.BLOCKS, 0), (Split.KEY, 1)])
def test_json_lines_are_replayed_at_their_own_times(port, tmp_path, split, qos):
    """Twice as fast as they were written; an empty line is no record, and a line keeps its spaces."""
    at_s = [0.0, 0.1, 0.1, 0.15, 0.3, 0.3, 0.42, 0.5, 0.5, 0.5, 0.7, 0.8]
    lines = [b'{"bus": "%c",  "at": %.2f}' % (b"abcd"[place % 4], 1000 + at_s[place]) for place in range(12)]
    content = b"\n\n".join(lines) + b"\n"
    (tmp_path / "buses.jsonl").write_bytes(content)
    key = "bus" if split is Split.KEY else None
    replay = Replay(str(tmp_path / "buses.jsonl"), digest(content), Record.JSONL, time="at", split=split, key=key)
    workload = Workload(
        3, 1, payload=Payload(replay=replay), schedule=Schedule(Arrivals.REPLAY, speed=2.0), qos=Qos(qos)
    )

    with Client("127.0.0.1", port) as witness:
        witness.subscribe("brokerlab/#", qos)
        published, delivered = run(workload, port, tmp_path / "run", seconds=measure_s(workload, Phases()))
        seen = [witness.receive(timeout_s=10) for _ in lines]
        assert witness.receive(timeout_s=0.2) is None

    start_ns = min(row["intended_ns"] for row in published)
    for number, places in enumerate(SPLITS[split]):
        assert [each.payload for each in seen if each.topic == f"brokerlab/{number}"] == [lines[at] for at in places]
        own = sorted(row["intended_ns"] - start_ns for row in published if row["publisher"] == number)
        assert own == pytest.approx([at_s[at] / 2 * 1e9 for at in places], abs=1000)
    assert all(row["sent_ns"] >= row["intended_ns"] for row in published)
    assert identities(delivered) == identities(published)


@pytest.mark.parametrize(
    "topics",
    [
        Topics("plant/{publisher}/{topic}", ("plant/+/0", "plant/1/2"), count=3),
        Topics("plant/{publisher}/{topic}", "plant/#", count=3, share=("a", "b")),
    ],
    ids=["several topics", "groups"],
)
def test_records_that_differ_are_told_whoever_gets_which_of_them(port, tmp_path, topics):
    """Of each publisher a subscriber gets some: those of its topics, or those that its group left to it."""
    lines = [b"%d,%d" % (number % 4, number) for number in range(90)]
    (tmp_path / "lines").write_bytes(b"\n".join(lines))
    replay = Replay(str(tmp_path / "lines"), digest(b"\n".join(lines)))
    schedule = Schedule(Arrivals.REPLAY, rate_per_s=60)
    workload = Workload(3, 4, topics=topics, payload=Payload(replay=replay), schedule=schedule, qos=Qos(1))

    with Client("127.0.0.1", port) as witness:
        witness.subscribe("plant/#", 1)
        published, delivered = run(workload, port, tmp_path / "run", seconds=measure_s(workload, Phases()))
        seen = {(message.topic, message.payload) for message in (witness.receive(timeout_s=10) for _ in lines)}

    every = [(publisher, seq) for publisher in range(3) for seq in range(30)]
    assert [(row["publisher"], row["seq"]) for row in published] == every
    assert seen == {(f"plant/{number}/{seq % 3}", lines[3 * seq + number]) for number, seq in every}
    heard = {
        number: sorted((row["publisher"], row["seq"]) for row in delivered if row["subscriber"] == number)
        for number in range(4)
    }
    if topics.share:
        assert sorted(heard[0] + heard[2]) == sorted(heard[1] + heard[3]) == every
        assert all(heard.values())
    else:
        assert list(heard.values()) == [[(p, seq) for p, seq in every if seq % 3 == 0 or (p, seq % 3) == (1, 2)]] * 4


@pytest.mark.parametrize(
    ("protocol", "said"), [("3.1.1", "packets of up to 150017 bytes"), ("5.0", "100000 bytes at most")]
)
def test_a_broker_s_limit_of_packets_is_said_with_the_size(tmp_path, protocol, said):
    """Mosquitto closes the connection of an older client, and tells one of MQTT 5.0 in CONNACK."""
    mosquitto = driver("mosquitto")
    if not isinstance(found := mosquitto.find(), Found):
        pytest.skip("Mosquitto is not installed")
    port = free_port("127.0.0.1")
    config = tmp_path / "limited.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\nmax_packet_size 100000\n")
    workload = Workload(payload_bytes=150_000, schedule=Schedule(rate_per_s=10), protocol=protocol)
    node = Node(argv=(found.program, "-c", str(config)), host="127.0.0.1", port=port)

    with BrokerProcess(node, folder=tmp_path) as process:
        prove_ready(process, node.host, node.port)
        reasons = closed_by(workload, port, tmp_path / "run")

    assert said in reasons


def closed_by(workload, port, folder) -> str:
    client = clients_of(workload, seed=1).publishers
    spec = WorkerSpec(
        node="publishers/0", index=0, host="127.0.0.1", port=port, clients=client, workload=workload, fan_out=1.0,
        seed=1, run=folder,
    )  # fmt: skip
    try:
        with Crew([spec]) as crew:
            crew.connect(timeout_s=10)
            start_ns = time.monotonic_ns()
            crew.go(Go(start_ns, start_ns, start_ns + 500_000_000))
            crew.sent(deadline_ns=start_ns + 3 * 10**9)
            (stopped,) = crew.stop().values()
    except RunError as problem:
        return problem.message
    return "".join(stopped.closed_by_broker)
