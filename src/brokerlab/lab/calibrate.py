"""The meter against the null broker: its ceilings, its schedule error, its resolution, its cost.

Per QoS four measurements with one null broker:

    published               build, hand over, acknowledgements: load/ceiling.py, no rows
    published and recorded  a publishing worker that is asked for more than it can
    received                a subscribing worker that is played messages as fast as its socket takes them, with rows
    schedule error          a publishing worker at a moderate constant rate

The first uses one connection, the others as many as the set-up has (lab/setups.py).
A rate per core is messages per second of the worker's own CPU time, its writing thread included; the plain rate may
be what the null broker can do, where TLS or very many connections keep it busy.
The null broker counts too; where the counts disagree there is no calibration.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from brokerlab import inventory
from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab.calibration import FORMAT, Json
from brokerlab.lab.machine import machine_facts, versions
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.sampling import read_cpu_ns
from brokerlab.lab.setups import USUAL, SetUp
from brokerlab.lab.verdict import read_meter
from brokerlab.load import nullbroker
from brokerlab.load.ceiling import Ceiling, send_ceiling
from brokerlab.load.client import Client as PlainClient
from brokerlab.load.client import Login
from brokerlab.load.crew import Crew
from brokerlab.load.features5 import publish_properties
from brokerlab.load.spec import Client, Entrance, Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Arrivals, Qos, Schedule, Transport, Workload

MODERATE_PER_S = 1_000.0
_HOST = nullbroker.HOST
_PUBLISHER, _SUBSCRIBER = "publishers/0", "subscribers/0"
_SATURATE = Schedule(Arrivals.SATURATE)
_FOLDER = "brokerlab-calibrate-"
_ANSWER_S = 5.0
_LEAD_NS = 100_000_000
_LEAD_EACH_NS = 200_000  # the null broker prepares what it plays to each subscriber
_SETTLE_NS = 60_000_000_000
_LOOK_S = 0.05
_QUIET_LOOKS = 3
_IDLE_NS = 5_000_000  # of CPU in one look: a subscriber that gathers wakes for nothing

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Null:
    """A null broker that runs, and how clients get in."""

    process: BrokerProcess
    login: Login


@dataclass(frozen=True, slots=True)
class _Level:
    setup: SetUp
    qos: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Received(Ceiling):
    resolution_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Kept:
    messages: int
    error_ms: Json


def calibrate(*, seconds: float, say: Say, setup: SetUp = USUAL, levels: Sequence[int] = (0, 1, 2)) -> Json:
    """Measures one set-up at these QoS; `say` is told what is measured next."""
    measured = {f"qos{qos}": _measured(_Level(setup, qos, seconds), say) for qos in levels}
    return {
        "format": FORMAT,
        "measured_at_wall_ns": time.time_ns(),
        "seconds": seconds,
        "set_up": setup.text,
        **setup.facts,
        "machine": machine_facts(),
        "versions": versions(),
        **measured,
    }


def _measured(asked: _Level, say: Say) -> Json:
    with inventory.temporary_folder(_FOLDER) as folder:
        with null_broker(folder, asked.setup.transport) as null:
            say(f"QoS {asked.qos}: publishing without rows")
            sent = _publish_bare(asked, null)
            say(f"QoS {asked.qos}: publishing with rows")
            recorded = _publish_recorded(asked, null, sent.messages / sent.wall_ns * 1e9)
            say(f"QoS {asked.qos}: receiving")
            received = _receive(asked, null)
            say(f"QoS {asked.qos}: schedule at a moderate rate")
            kept = _keep_schedule(asked, null, _moderate_per_s(recorded, asked.seconds))
        require_equal(null.process, "received", sent.messages + recorded.messages + kept.messages)
        require_equal(null.process, "played", received.messages)
    return {
        **_rates("published", sent),
        **_rates("published_recorded", recorded),
        **_rates("received", received),
        "cpu_us_per_message": {
            "published": _cpu_us(sent),
            "published_recorded": _cpu_us(recorded),
            "received": _cpu_us(received),
        },
        "schedule_error_ms": kept.error_ms,
        "receive_resolution_ms": received.resolution_ms,
    }


def _rates(name: str, reached: Ceiling) -> Json:
    return {
        f"{name}_per_s": reached.messages / reached.wall_ns * 1e9,
        f"{name}_per_s_per_core": reached.messages / reached.cpu_ns * 1e9,
    }


def _cpu_us(reached: Ceiling) -> float:
    return reached.cpu_ns / reached.messages / 1e3


# -- the four measurements ----------------------------------------------------------------------------------------


def _publish_bare(asked: _Level, null: Null) -> Ceiling:
    return send_ceiling(_spec(_PUBLISHER, asked, null, _SATURATE, name="bare"), seconds=asked.seconds)


def _publish_recorded(asked: _Level, null: Null, asked_per_s: float) -> Ceiling:
    """A worker that is asked for the rate that the bare path reached, which it cannot keep while it records.

    Over many connections it keeps a small part of that, so that what was not built at the end is given up.
    """
    spec = _spec(_PUBLISHER, asked, null, _constant(asked, asked_per_s), name="recorded")
    with Crew([spec]) as crew:
        crew.connect(timeout_s=_ANSWER_S)
        pid = crew.pids()[_PUBLISHER]
        before_ns, start_ns = read_cpu_ns(pid), time.monotonic_ns() + _LEAD_NS
        end_ns = start_ns + int(asked.seconds * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        if crew.sent(deadline_ns=end_ns) is None:
            crew.halt()
        if crew.sent(deadline_ns=end_ns + _SETTLE_NS) is None:
            raise RunError(f"the publisher did not finish within {_SETTLE_NS / 1e9:g} s")
        wall_ns = time.monotonic_ns() - start_ns
        used_ns = _settled_cpu_ns(pid) - before_ns
        stopped = crew.stop()[_PUBLISHER]
    return Ceiling(stopped.messages, wall_ns, used_ns)


def _receive(asked: _Level, null: Null) -> _Received:
    spec = _spec(_SUBSCRIBER, asked, null, _SATURATE, name="received")
    with Crew([spec]) as crew:
        crew.connect(timeout_s=_ANSWER_S)
        crew.subscribe(timeout_s=_ANSWER_S)
        pid = crew.pids()[_SUBSCRIBER]
        before_ns, start_ns = read_cpu_ns(pid), time.monotonic_ns() + _LEAD_NS + _LEAD_EACH_NS * len(spec.clients)
        end_ns = start_ns + int(asked.seconds * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        play(null, start_ns, end_ns, setup=asked.setup)
        crew.drain({_SUBSCRIBER: played(null.process)}, deadline_ns=end_ns + _SETTLE_NS)
        used_ns = _settled_cpu_ns(pid) - before_ns
        stopped = crew.stop()[_SUBSCRIBER]
    if not stopped.messages:
        raise RunError(f"calibration: nothing came in {asked.seconds:g} s")
    resolution_ms, last_ns = _arrivals(RunDirectory(spec.run))
    return _Received(stopped.messages, last_ns - start_ns, used_ns, resolution_ms)


def _moderate_per_s(reached: Ceiling, seconds: float) -> float:
    """Far from the ceiling, and two messages at least."""
    return min(MODERATE_PER_S, max(reached.messages / reached.wall_ns * 1e9 / 4, 2 / seconds))


def _keep_schedule(asked: _Level, null: Null, per_s: float) -> _Kept:
    spec = _spec(_PUBLISHER, asked, null, _constant(asked, per_s), name="schedule")
    with Crew([spec]) as crew:
        crew.connect(timeout_s=_ANSWER_S)
        start_ns = time.monotonic_ns() + _LEAD_NS
        crew.go(Go(start_ns, start_ns, start_ns + int(asked.seconds * 1e9)))
        crew.sent(deadline_ns=start_ns + _SETTLE_NS)
        stopped = crew.stop()
    meter = read_meter(stopped)
    error_ms = {"rate": per_s, "p50": meter.lag_p50_ms, "p99": meter.lag_p99_ms, "max": meter.lag_max_ms}
    return _Kept(stopped[_PUBLISHER].messages, error_ms)


# -- what they share ----------------------------------------------------------------------------------------------


@contextmanager
def null_broker(folder: Path, transport: Transport = Transport.TCP) -> Iterator[Null]:
    port = free_port(_HOST)
    files, login = _certified(folder, transport) if transport.is_encrypted else ((), Login(Entrance(transport)))
    node = Node((sys.executable, "-P", "-m", nullbroker.__name__, str(port), transport, *files), _HOST, port)
    with BrokerProcess(node, folder=folder / "null") as process:
        prove_ready(process, _HOST, port, login=login)
        yield Null(process, login)


def _certified(folder: Path, transport: Transport) -> tuple[tuple[str, ...], Login]:
    """The files of a certificate for the null broker, and who trusts it."""
    # Loaded where it is needed, as in lab/access.py.
    from brokerlab.lab.certificates import Authority, keep  # noqa: PLC0415

    authority = Authority()
    certificate, key = authority.broker(_HOST)
    files = str(keep(folder, "broker.pem", certificate)), str(keep(folder, "broker.key", key))
    return files, Login(Entrance(transport, keep(folder, "authority.pem", authority.pem)))


def _constant(asked: _Level, per_s: float) -> Schedule:
    return Schedule(Arrivals.CONSTANT, rate_per_s=per_s / asked.setup.publishers)


def _spec(node: str, asked: _Level, null: Null, schedule: Schedule, *, name: str) -> WorkerSpec:
    return meter_spec(node, asked.qos, null, schedule, setup=asked.setup, name=name)


def meter_spec(
    node: str, qos: int, null: Null, schedule: Schedule, *, setup: SetUp = USUAL, name: str = ""
) -> WorkerSpec:
    """A worker at the null broker, whose rows go to a folder of this name beside its log."""
    run = null.process.folder.parent / name
    run.mkdir(exist_ok=True)
    connections = setup.publishers if node == _PUBLISHER else setup.subscribers
    return WorkerSpec(
        node=node,
        index=0,
        host=_HOST,
        port=null.process.node.port,
        clients=tuple(Client(number, f"calibrate{number}", f"null/{number}") for number in range(connections)),
        workload=replace(_workload(setup), schedule=schedule, qos=Qos(qos)),
        fan_out=1.0,
        seed=1,
        run=run,
        entrance=null.login.entrance,
    )


def _workload(setup: SetUp) -> Workload:
    return Workload(
        publishers=setup.publishers,
        subscribers=setup.subscribers,
        payload_bytes=setup.payload_bytes,
        protocol=setup.protocol,
        transport=setup.transport,
        mqtt5=setup.mqtt5,
    )


def play(null: Null, start_ns: int, end_ns: int, *, setup: SetUp = USUAL) -> None:
    """Orders what the subscribers are to be played: messages with all that a publisher of the set-up gives them."""
    order = {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "payload_bytes": setup.payload_bytes,
        "properties": publish_properties(Client(0, "", "null/0"), _workload(setup)).hex(),
    }
    with PlainClient(_HOST, null.process.node.port, login=null.login) as client:
        client.publish(nullbroker.CONTROL_TOPIC, json.dumps(order).encode())


def played(broker: BrokerProcess) -> int:
    """How many messages the null broker played, once it says so."""
    deadline = time.monotonic() + _SETTLE_NS / 1e9
    while not (said := broker.log_tail()):
        broker.require_alive("the end of its playing")
        if time.monotonic() > deadline:
            raise RunError("calibration: the null broker did not say how much it played")
        time.sleep(_LOOK_S)
    return int(json.loads(said.splitlines()[-1])["played"])


def _settled_cpu_ns(pid: int) -> int:
    """CPU time of a process once it has nothing left to do: its writing thread works on after the last message."""
    quiet, last_ns = 0, read_cpu_ns(pid)
    deadline = time.monotonic() + _SETTLE_NS / 1e9
    while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        now_ns = read_cpu_ns(pid)
        quiet = quiet + 1 if now_ns - last_ns <= _IDLE_NS else 0
        last_ns = now_ns
    return last_ns


def require_equal(broker: BrokerProcess, name: str, ours: int) -> None:
    """Holds the null broker's count against ours, after its end."""
    theirs = json.loads(broker.log_tail().splitlines()[-1])[name]
    if theirs != ours or not ours:
        raise RunError(f"calibration: the null broker {name} {theirs} messages, the worker counts {ours}")


def _arrivals(run: RunDirectory) -> tuple[dict[str, float], int]:
    """How coarse the arrival times are when messages come as fast as they can, and the last of them."""
    tables = [pq.read_table(path, columns=["resolution_ns", "received_ns"]) for path in run.files("deliveries")]
    values = np.concatenate([each["resolution_ns"].to_numpy() for each in tables])
    p50, p99 = np.quantile(values, [0.5, 0.99]) / 1e6
    last_ns = max(int(each["received_ns"].to_numpy().max()) for each in tables)
    return {"p50": float(p50), "p99": float(p99), "max": float(values.max() / 1e6)}, last_ns
