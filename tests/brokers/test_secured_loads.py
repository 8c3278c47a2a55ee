"""Every kind of load inside every transport, through real workers and Mosquitto: all of it comes, none of it twice.

What depends on the transport is how bytes leave and arrive: those who saturate, wait for room, come and go, answer or
hear themselves do it each in a way of its own. Each kind of load is in each transport once, the levels of QoS in turn.
"""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from secured_rig import check_ledger, entered, make, over

from brokerlab.brokers.base import Missing
from brokerlab.brokers.registry import driver
from brokerlab.load.schedule import Span, intended_ns
from brokerlab.load.widening import FIRST
from brokerlab.study.replay import digest
from brokerlab.study.values import (
    Arrivals,
    Behaviour,
    ClientLife,
    Echo,
    Payload,
    Probe,
    Qos,
    Replay,
    Roles,
    Schedule,
    Topics,
    Transport,
    Workload,
)

pytestmark = pytest.mark.brokers

SHAPE = Topics("t/{publisher}", "t/#", reply="r/{publisher}")
PER_MESSAGE = ClientLife(Behaviour.PER_MESSAGE)
SEARCH = Schedule(Arrivals.SEARCH, p99_ms=10.0, from_per_s=1.0, to_per_s=2.0)
LINES = b"".join(b"record %d\n" % (number % 7) for number in range(20))


def load(arrivals, /, *, life=None, **more):
    schedule = arrivals if isinstance(arrivals, Schedule) else Schedule(arrivals)
    return Workload(2, 2, topics=SHAPE, schedule=schedule, clients=life or ClientLife(), **more)


# With the fewest messages that show that it flows: a closed loop whose acknowledgements were lost would stand still.
LOADS = {
    "saturate": (load(Arrivals.SATURATE), 2 * FIRST),
    "saturate by 50 in loops": (load(Schedule(Arrivals.SATURATE, window=50), role=Roles.LOOP), 51),
    "window and echo": (load(Schedule(Arrivals.WINDOW, inflight=4), role=Roles.ECHO, echo=Echo(Qos(1))), 9),
    "search and churn": (load(SEARCH, life=ClientLife(Behaviour.CHURN, lifetime_s=0.1)), 2 * (20 + 40)),
    "replay, one connection each": (load(Schedule(Arrivals.REPLAY, rate_per_s=50), life=PER_MESSAGE), 20),
    "bursts and a probe": (load(Schedule(Arrivals.BURST, rate_per_s=400, burst=40), probe=Probe(0.05, Qos(2))), 328),
}
ORDERS = {"search and churn": (50.0, 100.0)}  # two trials, as the workers see them
CELLS = [
    pytest.param(name, transport, max((row + column) % 3, name.startswith("window")), id=f"{name}, {transport}")
    for row, name in enumerate(LOADS)
    for column, transport in enumerate((Transport.TLS, Transport.WS, Transport.WSS))
]


@pytest.fixture(scope="module")
def entrances(tmp_path_factory):
    """Gives the Mosquitto of a transport, which is started when it is first asked for."""
    if isinstance(found := driver("mosquitto").find(), Missing):
        pytest.skip(found.reason)
    here = {}
    with contextlib.ExitStack() as stack:

        def started(transport):
            if transport not in here:
                folder = tmp_path_factory.mktemp(str(transport)) / "0"
                workload = over(load(Arrivals.CONSTANT), transport)
                here[transport] = stack.enter_context(entered(workload, folder, preset="lossless"))
            return here[transport]

        yield started


@pytest.mark.parametrize(("name", "transport", "qos"), CELLS)
def test_every_load_is_delivered_once_inside_every_transport(entrances, tmp_path, name, transport, qos):
    (workload, least), payload = LOADS[name], Payload()
    if workload.schedule.arrivals is Arrivals.REPLAY:
        (tmp_path / "lines").write_bytes(LINES)
        payload = Payload(replay=Replay(str(tmp_path / "lines"), digest(LINES)))
    workload = replace(workload, qos=Qos(qos), payload=payload)

    made = make(entrances(transport), workload, tmp_path / "run", rates=ORDERS.get(name, (None,)))

    is_open = not name.startswith(("saturate", "window"))
    assert sum(made.sent.values()) == least if is_open else sum(made.sent.values()) >= least
    check_ledger(made, workload)


def test_large_messages_come_through_tls(entrances, tmp_path):
    """Each in many records, reads and buffers. (Over WebSocket Mosquitto 2.0.11 gives out some 80 KB a second.)"""
    workload = load(Schedule(rate_per_s=10), payload_bytes=1 << 20, qos=Qos(1))

    made = make(entrances(Transport.TLS), workload, tmp_path)

    assert made.sent == {0: 4, 1: 4}
    check_ledger(made, workload)


# With how many messages the first publisher has, and in ms the intervals between its first two and its last two.
SCHEDULES = [
    pytest.param(Schedule(Arrivals.POISSON, 200), None, None, Transport.TCP, 0, id="poisson"),
    pytest.param(Schedule(Arrivals.JITTER, 200, jitter_percent=20), 80, None, Transport.TLS, 2, id="jitter"),
    pytest.param(Schedule(Arrivals.RAMP, 50, to_per_s=450), 100, None, Transport.WS, 1, id="ramp"),
    pytest.param(Schedule(Arrivals.STEP, rates_per_s=(100, 400)), 100, (10.0, 2.5), Transport.WSS, 0, id="step"),
    pytest.param(
        Schedule(Arrivals.CONTACT, 10, store_s=5, within_s=0.2), 50, (4.0, 4.0), Transport.TCP, 2, id="contact"
    ),
]


@pytest.mark.parametrize(("schedule", "count", "intervals_ms", "transport", "qos"), SCHEDULES)
def test_a_schedule_is_kept_to_its_recorded_lag(entrances, tmp_path, schedule, count, intervals_ms, transport, qos):
    workload = replace(load(schedule), qos=Qos(qos))

    made = make(entrances(transport), workload, tmp_path)

    check_ledger(made, workload)
    (order,), published, said = made.orders, made.rows("publications"), made.stopped["publishers/0"]
    own = [sorted(row["intended_ns"] for row in published if row["publisher"] == number) for number in (0, 1)]
    for number, times in enumerate(own):
        span = Span(order.start_ns, order.end_ns, order.measure_ns, number, publishers=2, seed=1)
        assert times == np.concatenate(list(intended_ns(schedule, span))).tolist()
    assert count is None or len(own[0]) == count
    if intervals_ms:
        first, *_, last = np.diff(own[0]) / 1e6
        assert (first, last) == pytest.approx(intervals_ms, rel=1e-3)
    assert max(row["sent_ns"] - row["intended_ns"] for row in published) == said.lag_max_ns
    assert (sum(messages for _, messages in said.lag_buckets), said.unsent) == (len(published), 0)
    assert all(row["received_ns"] > row["intended_ns"] for row in made.rows("deliveries"))


@pytest.mark.parametrize(("transport", "qos"), [(Transport.TCP, 0), (Transport.WS, 1), (Transport.TLS, 2)])
def test_workers_speak_mqtt_3_1(entrances, tmp_path, transport, qos):
    """Mosquitto says which version each client speaks: p1 is 3.1, p2 is 3.1.1."""
    workload = replace(load(Schedule(rate_per_s=50)), qos=Qos(qos), protocol="3.1")
    access, process = entrances(transport)

    made = make((access, process), workload, tmp_path, seed=0x310 + qos)

    check_ledger(made, workload)
    assert made.sent == {0: 20, 1: 20}
    ours = [line for line in process.log.read_text().splitlines() if f" as bl{0x310 + qos:06x}" in line]
    assert len(ours) == 4
    assert all("(p1," in line for line in ours)
