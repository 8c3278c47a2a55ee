"""The meter against the null broker: its ceilings, its schedule error, its resolution, its cost.

Per QoS four measurements, each with a null broker of its own:

    published               build, hand over, acknowledgements: load/ceiling.py, no rows
    published and recorded  a publishing worker that is asked for more than it can
    received                a subscribing worker that is played messages as fast as its socket takes them, with rows
    schedule error          a publishing worker at a moderate constant rate

A rate per core is messages per second of the worker's own CPU time, its writing thread included.
The null broker counts too; where the counts disagree there is no calibration.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from brokerlab import inventory
from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab.calibration import FORMAT, USUAL_BYTES, Json
from brokerlab.lab.machine import machine_facts, versions
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.sampling import read_cpu_ns
from brokerlab.lab.verdict import read_meter
from brokerlab.load import nullbroker
from brokerlab.load.ceiling import Ceiling, send_ceiling
from brokerlab.load.client import Client as PlainClient
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Arrivals, Qos, Schedule, Workload

MODERATE_PER_S = 1_000.0
_HOST = nullbroker.HOST
_PUBLISHER, _SUBSCRIBER = "publishers/0", "subscribers/0"
_ANSWER_S = 5.0
_LEAD_NS = 100_000_000
_SETTLE_NS = 60_000_000_000
_LOOK_S = 0.05
_QUIET_LOOKS = 3
_IDLE_NS = 5_000_000  # of CPU in one look: a subscriber that gathers wakes for nothing

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _SetUp:
    qos: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class _Received(Ceiling):
    resolution_ms: dict[str, float]


def calibrate(*, seconds: float, say: Say, payload_bytes: int = USUAL_BYTES) -> Json:
    """Measures everything; `say` is told what is measured next."""
    levels = {f"qos{qos}": _level(_SetUp(qos, payload_bytes), seconds, say) for qos in (0, 1, 2)}
    return {
        "format": FORMAT,
        "measured_at_wall_ns": time.time_ns(),
        "seconds": seconds,
        "payload_bytes": payload_bytes,
        "machine": machine_facts(),
        "versions": versions(),
        **levels,
    }


def _level(asked: _SetUp, seconds: float, say: Say) -> Json:
    say(f"QoS {asked.qos}: publishing without rows")
    sent = _publish_bare(asked, seconds)
    say(f"QoS {asked.qos}: publishing with rows")
    recorded = _publish_recorded(asked, seconds / 2, sent.messages / sent.wall_ns * 1e9)
    say(f"QoS {asked.qos}: receiving")
    received = _receive(asked, seconds)
    say(f"QoS {asked.qos}: schedule at {MODERATE_PER_S:,.0f}/s")
    return {
        **_rates("published", sent),
        **_rates("published_recorded", recorded),
        **_rates("received", received),
        "cpu_us_per_message": {
            "published": _cpu_us(sent),
            "published_recorded": _cpu_us(recorded),
            "received": _cpu_us(received),
        },
        "schedule_error_ms": _schedule_error_ms(asked, seconds),
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


def _publish_bare(asked: _SetUp, seconds: float) -> Ceiling:
    with inventory.temporary_folder("brokerlab-calibrate-") as folder:
        with null_broker(folder) as broker:
            reached = send_ceiling(_spec(_PUBLISHER, asked, broker, Schedule(Arrivals.SATURATE)), seconds=seconds)
        require_equal(broker, "received", reached.messages)
    return reached


def _publish_recorded(asked: _SetUp, seconds: float, asked_per_s: float) -> Ceiling:
    """A worker that is asked for the rate that the bare path reached, which it cannot keep while it records."""
    with inventory.temporary_folder("brokerlab-calibrate-") as folder:
        with null_broker(folder) as broker:
            spec = _spec(_PUBLISHER, asked, broker, Schedule(Arrivals.CONSTANT, rate_per_s=asked_per_s))
            with Crew([spec]) as crew:
                crew.connect(timeout_s=_ANSWER_S)
                pid = crew.pids()[_PUBLISHER]
                before_ns, start_ns = read_cpu_ns(pid), time.monotonic_ns() + _LEAD_NS
                crew.go(Go(start_ns, start_ns, start_ns + int(seconds * 1e9)))
                if crew.sent(deadline_ns=start_ns + _SETTLE_NS) is None:
                    raise RunError(f"the publisher did not finish within {_SETTLE_NS / 1e9:g} s")
                wall_ns = time.monotonic_ns() - start_ns
                used_ns = _settled_cpu_ns(pid) - before_ns
                stopped = crew.stop()[_PUBLISHER]
        require_equal(broker, "received", stopped.messages)
    return Ceiling(stopped.messages, wall_ns, used_ns)


def _receive(asked: _SetUp, seconds: float) -> _Received:
    with inventory.temporary_folder("brokerlab-calibrate-") as folder:
        with null_broker(folder) as broker:
            spec = _spec(_SUBSCRIBER, asked, broker, Schedule(Arrivals.SATURATE))
            with Crew([spec]) as crew:
                crew.connect(timeout_s=_ANSWER_S)
                crew.subscribe(timeout_s=_ANSWER_S)
                pid = crew.pids()[_SUBSCRIBER]
                before_ns, start_ns = read_cpu_ns(pid), time.monotonic_ns() + _LEAD_NS
                end_ns = start_ns + int(seconds * 1e9)
                crew.go(Go(start_ns, start_ns, end_ns))
                play(broker.node.port, start_ns, end_ns, payload_bytes=asked.payload_bytes)
                crew.drain({_SUBSCRIBER: played(broker)}, deadline_ns=end_ns + _SETTLE_NS)
                used_ns = _settled_cpu_ns(pid) - before_ns
                stopped = crew.stop()[_SUBSCRIBER]
        require_equal(broker, "played", stopped.messages)
        return _Received(stopped.messages, end_ns - start_ns, used_ns, _resolution_ms(RunDirectory(folder)))


def _schedule_error_ms(asked: _SetUp, seconds: float) -> Json:
    with inventory.temporary_folder("brokerlab-calibrate-") as folder:
        with null_broker(folder) as broker:
            spec = _spec(_PUBLISHER, asked, broker, Schedule(Arrivals.CONSTANT, rate_per_s=MODERATE_PER_S))
            with Crew([spec]) as crew:
                crew.connect(timeout_s=_ANSWER_S)
                start_ns = time.monotonic_ns() + _LEAD_NS
                crew.go(Go(start_ns, start_ns, start_ns + int(seconds * 1e9)))
                crew.sent(deadline_ns=start_ns + _SETTLE_NS)
                stopped = crew.stop()
        require_equal(broker, "received", stopped[_PUBLISHER].messages)
    meter = read_meter(stopped)
    return {"rate": MODERATE_PER_S, "p50": meter.lag_p50_ms, "p99": meter.lag_p99_ms, "max": meter.lag_max_ms}


# -- what they share ----------------------------------------------------------------------------------------------


@contextmanager
def null_broker(folder: Path) -> Iterator[BrokerProcess]:
    port = free_port(_HOST)
    node = Node((sys.executable, "-P", "-m", nullbroker.__name__, str(port)), _HOST, port)
    with BrokerProcess(node, folder=folder / "null") as process:
        prove_ready(process, _HOST, port)
        yield process


def _spec(node: str, asked: _SetUp, broker: BrokerProcess, schedule: Schedule) -> WorkerSpec:
    return meter_spec(node, asked.qos, broker, schedule, payload_bytes=asked.payload_bytes)


def meter_spec(
    node: str, qos: int, broker: BrokerProcess, schedule: Schedule, *, payload_bytes: int = USUAL_BYTES
) -> WorkerSpec:
    return WorkerSpec(
        node=node,
        index=0,
        host=_HOST,
        port=broker.node.port,
        clients=(Client(0, "calibrate", "null/0"),),
        workload=Workload(payload_bytes=payload_bytes, schedule=schedule, qos=Qos(qos)),
        fan_out=1.0,
        seed=1,
        run=broker.folder.parent,
    )


def play(port: int, start_ns: int, end_ns: int, *, payload_bytes: int = USUAL_BYTES) -> None:
    order = {"start_ns": start_ns, "end_ns": end_ns, "payload_bytes": payload_bytes}
    with PlainClient(_HOST, port) as client:
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


def _resolution_ms(run: RunDirectory) -> dict[str, float]:
    """How coarse the arrival times are when messages come as fast as they can."""
    values = np.concatenate([pq.read_table(path)["resolution_ns"].to_numpy() for path in run.files("deliveries")])
    p50, p99 = np.quantile(values, [0.5, 0.99]) / 1e6
    return {"p50": float(p50), "p99": float(p99), "max": float(values.max() / 1e6)}
