"""Clients that come and go, through real workers and a real Mosquitto: every message is accounted for."""

import re
import time
from collections import Counter

import pyarrow.dataset as ds
import pytest
from broker_rig import running

from brokerlab.brokers.base import Found
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import driver
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.reach import read_reach
from brokerlab.load.client import Client as PlainClient
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.life import loopback_addresses
from brokerlab.study.values import (
    Arrivals,
    Behaviour,
    BrokerChoice,
    ClientLife,
    Qos,
    Schedule,
    SessionKind,
    Topics,
    Who,
    Workload,
)

pytestmark = pytest.mark.brokers

PUBLISHERS, PER_S, SECONDS = 4, 25, 1.2
IDLE = 2_000
MESSAGES = PUBLISHERS * round(PER_S * SECONDS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    mosquitto = driver("mosquitto")
    if not isinstance(mosquitto.find(), Found):
        pytest.skip("Mosquitto is not installed: no other broker here keeps sessions")
    with running(mosquitto, tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def port(broker):
    return broker.port


class Seen:
    """What a run left behind."""

    def __init__(self, stopped, folder):
        self.publishing, self.subscribing = stopped["publishers/0"], stopped["subscribers/0"]
        read = lambda name: ds.dataset(RunDirectory(folder).raw(name), format="parquet").to_table().to_pylist()  # noqa: E731
        self.publications, self.deliveries, sessions = read("publications"), read("deliveries"), read("sessions")
        self.events = Counter((row["node"].partition("/")[0], row["event"]) for row in sessions)
        self.sessions = sessions

    def published(self):
        return sorted((row["publisher"], row["seq"]) for row in self.publications)

    def delivered(self):
        return [(row["publisher"], row["seq"]) for row in self.deliveries]


def run(port, folder, life, *, qos, drain_s=5.0, protocol="3.1.1", subscribers=1, **keys):
    keys = {"schedule": Schedule(rate_per_s=PER_S), **keys}
    workload = Workload(
        publishers=PUBLISHERS, subscribers=subscribers, qos=Qos(qos), clients=life, protocol=protocol, **keys,
    )  # fmt: skip
    topic, mark = f"lives/{folder.name}", f"{time.monotonic_ns() & 0xFFFFFF:06x}"
    members = {
        "publishers/0": tuple(Client(number, f"l{mark}p{number}", topic) for number in range(PUBLISHERS)),
        "subscribers/0": tuple(Client(number, f"l{mark}s{number}", topic) for number in range(subscribers)),
    }
    specs = [
        WorkerSpec(
            node=node, index=index, host="127.0.0.1", port=port, clients=clients, workload=workload,
            fan_out=float(subscribers), seed=1, run=folder, connects_after=1 - index,
        )
        for index, (node, clients) in enumerate(members.items())
    ]  # fmt: skip
    with Crew(specs) as crew:
        crew.connect(timeout_s=10)
        crew.subscribe(timeout_s=10)
        start_ns = time.monotonic_ns() + 50_000_000
        end_ns = start_ns + int(SECONDS * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + 20 * 10**9)
        expected = subscribers * sum(sent.values())
        crew.drain({"subscribers/0": expected}, deadline_ns=time.monotonic_ns() + int(drain_s * 1e9))
        return Seen(crew.stop(), folder)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_one_connection_for_each_message_is_drained_and_loses_none(port, tmp_path, qos):
    seen = run(port, tmp_path, ClientLife(Behaviour.PER_MESSAGE), qos=qos)

    every = [(publisher, seq) for publisher in range(PUBLISHERS) for seq in range(MESSAGES // PUBLISHERS)]
    assert seen.published() == every
    assert sorted(seen.delivered()) == every
    assert all((row["acked_ns"] is not None) == (qos > 0) for row in seen.publications)
    assert seen.events["publishers", "connack"] == MESSAGES + PUBLISHERS  # and one each before the run
    assert seen.events["publishers", "disconnect"] == MESSAGES + PUBLISHERS
    assert seen.publishing.closed_by_broker == ()
    assert (seen.publishing.unsent, seen.publishing.refused_connects) == (0, 0)


def test_a_message_at_qos_0_does_not_wait_for_the_kernel_before_its_connection_ends(port, tmp_path):
    """Which acknowledges after 40 ms what nobody answers: no client could send more than 25 a second."""
    seen = run(port, tmp_path, ClientLife(Behaviour.PER_MESSAGE), qos=0)

    begun, lasted = {}, []
    for row in sorted(seen.sessions, key=lambda row: row["at_ns"]):
        if row["event"] == "connack":
            begun[row["client"]] = row["at_ns"]
        elif row["event"] == "disconnect" and row["node"].startswith("publishers"):
            lasted.append(row["at_ns"] - begun[row["client"]])
    assert sorted(lasted)[len(lasted) // 4] < 20_000_000  # a quarter of them: the machine may be busy


@pytest.mark.parametrize("behaviour", [Behaviour.PER_MESSAGE, Behaviour.PER_MESSAGE_ABRUPT])
def test_publishers_that_are_away_at_the_end_leave_nothing_retained_behind(port, tmp_path, behaviour):
    topics = Topics(publish="lives-kept/{publisher}/{topic}", count=3)
    seen = run(port, tmp_path, ClientLife(behaviour), qos=1, drain_s=0.5, retain=True, topics=topics)

    assert len(seen.published()) == MESSAGES
    assert all(row["retain"] for row in seen.publications)
    with PlainClient("127.0.0.1", port) as late:
        late.subscribe("lives-kept/#", 1)
        assert late.receive(timeout_s=0.3) is None


def test_abrupt_end_after_each_message_waits_for_nothing(port, tmp_path):
    seen = run(port, tmp_path, ClientLife(Behaviour.PER_MESSAGE_ABRUPT), qos=1, drain_s=1.0)

    assert len(seen.published()) == MESSAGES
    assert all(row["sent_ns"] is not None for row in seen.publications)
    assert seen.events["publishers", "dropped"] == MESSAGES + PUBLISHERS
    assert seen.events["publishers", "disconnect"] == 0
    assert set(seen.delivered()) <= set(seen.published())


def test_churn_at_qos_0_does_not_overtake_what_it_sent_last(port, tmp_path):
    """A broker that is asked for the next connection ends the one before, and what it has not read of that is lost."""
    schedule = Schedule(Arrivals.BURST, 5_000, burst=500)
    seen = run(port, tmp_path, ClientLife(Behaviour.CHURN, lifetime_s=0.1), qos=0, schedule=schedule)

    assert len(seen.published()) == PUBLISHERS * 5_000 * SECONDS
    assert sorted(seen.delivered()) == seen.published()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_churn_sends_everything_and_spreads_the_reconnects(port, tmp_path, qos):
    seen = run(port, tmp_path, ClientLife(Behaviour.CHURN, lifetime_s=0.4), qos=qos)

    assert len(seen.published()) == MESSAGES
    assert sorted(seen.delivered()) == seen.published()
    ended = seen.events["publishers", "disconnect"] - PUBLISHERS
    # Of the last publisher the third life ends with the schedule; a machine that stands still may skip some.
    assert PUBLISHERS <= ended <= PUBLISHERS * 3 - 1
    assert seen.events["publishers", "connack"] == ended + PUBLISHERS
    assert all((row["acked_ns"] is not None) == (qos > 0) for row in seen.publications)
    lags = [row["latency_ns"] for row in seen.sessions if row["event"] == "connect"]
    assert len(lags) == ended


@pytest.mark.parametrize(("qos", "protocol"), [(1, "3.1.1"), (2, "5.0")])
def test_churn_of_all_over_persistent_sessions_loses_nothing(port, tmp_path, qos, protocol):
    """Subscribers say goodbye one after the other, and what comes meanwhile waits for them."""
    life = ClientLife(Behaviour.CHURN, lifetime_s=0.4, who=Who.ALL, session=SessionKind.PERSISTENT)

    seen = run(port, tmp_path, life, qos=qos, protocol=protocol, subscribers=2)

    ended = seen.events["subscribers", "disconnect"] - 2
    # The first ends after 0.2 s, the second after 0.4 s, and then each every 0.4 s until 1.2 s.
    assert 2 <= ended <= 5
    assert seen.events["subscribers", "connack"] == ended + 2
    assert seen.events["subscribers", "suback"] == 2  # the broker remembers
    assert seen.events["subscribers", "dropped"] == 0
    assert Counter(row["subscriber"] for row in seen.deliveries).keys() == {0, 1}
    for subscriber in (0, 1):
        own = [(row["publisher"], row["seq"]) for row in seen.deliveries if row["subscriber"] == subscriber]
        assert set(own) == set(seen.published())
        assert qos < 2 or len(own) == MESSAGES
    assert seen.publishing.closed_by_broker == seen.subscribing.closed_by_broker == ()


def test_churn_of_publishers_leaves_subscribers_alone(port, tmp_path):
    seen = run(port, tmp_path, ClientLife(Behaviour.CHURN, lifetime_s=0.4), qos=1)

    assert seen.events["subscribers", "disconnect"] == seen.events["subscribers", "connack"] == 1


def test_churn_of_all_over_clean_sessions_subscribes_again(port, tmp_path):
    life = ClientLife(Behaviour.CHURN, lifetime_s=0.4, who=Who.ALL)

    seen = run(port, tmp_path, life, qos=1, drain_s=1.0)

    assert seen.events["subscribers", "suback"] == seen.events["subscribers", "disconnect"] > 1
    assert set(seen.delivered()) <= set(seen.published())
    assert len(set(seen.delivered())) > MESSAGES / 2


@pytest.mark.parametrize(("qos", "protocol"), [(1, "3.1.1"), (2, "5.0"), (2, "3.1")])
def test_storm_over_persistent_sessions_loses_nothing(port, tmp_path, qos, protocol):
    """What comes for a subscriber that is away waits for it; what a publisher has no acknowledgement for it repeats."""
    life = ClientLife(Behaviour.STORM, every_s=0.3, who=Who.ALL, session=SessionKind.PERSISTENT)

    seen = run(port, tmp_path, life, qos=qos, protocol=protocol)

    assert PUBLISHERS <= seen.events["publishers", "dropped"] <= PUBLISHERS * 3
    assert 1 <= seen.events["subscribers", "dropped"] <= 3
    # The broker remembers, which 3.1 has no word for.
    assert seen.events["subscribers", "suback"] == 1 + (protocol == "3.1") * seen.events["subscribers", "dropped"]
    assert len(seen.published()) == MESSAGES
    assert set(seen.delivered()) == set(seen.published())
    assert all(row["acked_ns"] is not None for row in seen.publications)
    if qos == 2:
        assert len(seen.delivered()) == MESSAGES
    assert seen.publishing.closed_by_broker == seen.subscribing.closed_by_broker == ()


def test_the_scripted_broker_keeps_handshakes_of_qos_2_over_a_storm(tmp_path):
    """Of its subscribers it sends PUBREL again where it has PUBREC, and of publishers it knows what it has."""
    life = ClientLife(Behaviour.STORM, every_s=0.1, who=Who.ALL, session=SessionKind.PERSISTENT)
    with running(driver("scripted"), tmp_path / "broker") as broker:
        schedule = Schedule(Arrivals.POISSON, 250)
        seen = run(broker.port, tmp_path / "run", life, qos=2, schedule=schedule)

    assert sorted(seen.delivered()) == seen.published()


def test_storm_over_clean_sessions_subscribes_again_and_leaves_nothing_unsent(port, tmp_path):
    life = ClientLife(Behaviour.STORM, every_s=0.3, who=Who.ALL)

    seen = run(port, tmp_path, life, qos=1, drain_s=1.0)

    assert seen.events["subscribers", "suback"] == 1 + seen.events["subscribers", "dropped"] > 1
    assert len(seen.published()) == MESSAGES
    assert all(row["sent_ns"] is not None for row in seen.publications)
    assert seen.publishing.resent == 0
    assert set(seen.delivered()) <= set(seen.published())
    assert len(set(seen.delivered())) > MESSAGES / 2


def test_ramp_and_source_addresses(broker, tmp_path):
    """The broker says from where each came: publishers take the addresses in turn, and so do subscribers."""
    life = ClientLife(connect_rate_per_s=50, addresses=loopback_addresses(3), keep_alive_s=3)
    before = broker.process.log.stat().st_size

    seen = run(broker.port, tmp_path, life, qos=0)

    began = sorted((row["at_ns"] - row["latency_ns"], row["client"][-2:]) for row in seen.sessions
                   if row["event"] == "connect")  # fmt: skip
    assert [name for _, name in began] == ["s0", "p0", "p1", "p2", "p3"]
    assert [at_ns - began[0][0] for at_ns, _ in began] == [20_000_000 * place for place in range(5)]
    assert sorted(seen.delivered()) == seen.published()
    assert seen.subscribing.closed_by_broker == ()
    said = broker.process.log.read_bytes()[before:].decode()
    came_from = re.findall(r"New client connected from 127\.0\.0\.(\d):\d+ as l\w{6}(\w+) ", said)
    assert sorted(came_from) == [("1", "p0"), ("1", "p3"), ("1", "s0"), ("2", "p1"), ("3", "p2")]


def test_thousands_of_idle_clients_stay_connected_by_pings(port, tmp_path):
    """They outlive a keep-alive of 2 s: the broker ends who is silent for one and a half times as long."""
    if (most := read_reach().open_files) < IDLE:
        pytest.skip(f"the limit of open files allows {most} connections here, fewer than {IDLE}")
    workload = Workload(clients=ClientLife(idle=IDLE, keep_alive_s=2))
    clients = tuple(Client(number, f"idle-{number}", "") for number in range(IDLE))
    spec = WorkerSpec("idle/0", 0, "127.0.0.1", port, clients, workload, 1.0, 1, tmp_path)

    with Crew([spec]) as crew:
        crew.connect(timeout_s=20)
        crew.subscribe(timeout_s=20)
        start_ns = time.monotonic_ns()
        crew.go(Go(start_ns, start_ns, start_ns + 4 * 10**9))
        time.sleep(4)
        crew.check()
        stopped = crew.stop()["idle/0"]

    assert stopped.closed_by_broker == ()
    assert stopped.acknowledgements["pingreq"] >= 2 * IDLE
    sessions = ds.dataset(RunDirectory(tmp_path).raw("sessions"), format="parquet").to_table().to_pylist()
    events = Counter(row["event"] for row in sessions)
    assert (events["tcp"], events["connack"], events["disconnect"]) == (IDLE, IDLE, IDLE)
    assert events["pingresp"] >= stopped.acknowledgements["pingresp"] / 10
    assert all(row["latency_ns"] > 0 for row in sessions if row["event"] == "pingresp")


def test_refused_reconnects_are_events_and_are_tried_again(tmp_path):
    """The proof of readiness connects first, then the subscriber and the publishers, then who comes back."""
    before = 1 + 1 + PUBLISHERS
    choice = BrokerChoice("scripted", "scripted", options={"refuse_connection": {str(before + 2): 3}})
    node = driver("scripted").node(choice, folder=tmp_path / "broker", host="127.0.0.1", port=free_port("127.0.0.1"))
    with BrokerProcess(node, folder=tmp_path / "broker") as process:
        prove_ready(process, node.host, node.port)
        life = ClientLife(Behaviour.CHURN, lifetime_s=0.5)
        seen = run(node.port, tmp_path / "run", life, qos=1)

    assert seen.publishing.refused_connects == 1
    assert [row["reason_code"] for row in seen.sessions if row["event"] == "connack" and row["reason_code"]] == [3]
    assert len(seen.published()) == MESSAGES
    assert sorted(seen.delivered()) == seen.published()
    assert seen.publishing.closed_by_broker == ()
