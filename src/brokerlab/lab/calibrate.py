"""The meter against the null broker: its ceilings, its schedule error, its resolution, its cost.

Per QoS four or five measurements with one null broker:

    published               build, hand over, acknowledgements: load/ceiling.py, no rows
    published and recorded  a publishing worker that is asked for more than it can; where publishers keep a window full
                            it keeps that, and the null broker delivers at once what is published
    received                a subscribing worker that is played messages as fast as its socket takes them, with rows;
                            it gathers them where the set-up says that it is of a saturated load, as there (gather.py)
    schedule error          a publishing worker at a moderate constant rate
    answered                a worker of devices, where there are such, that is played messages likewise; the receiving
                            one is then played answers; self loops hear what they publish: one ceiling of both

There is no schedule in a closed loop, and nothing to publish without rows where each message has its connection:
those are null. The first uses one connection, the others as many as the set-up has (lab/setups.py), and last longer
for many: a connection's first messages take more than those that follow.
A rate per core is messages per second of the worker's own CPU time, its writing thread included; the plain rate may
be what the null broker can do, where TLS or very many connections keep it busy.
The null broker counts too; where the counts disagree there is no calibration.
What the machine did beside each measurement is kept with it: lab/disturbance.py.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.parquet as pq

from brokerlab import inventory
from brokerlab.errors import RunError
from brokerlab.lab.calibration import FORMAT, Json, todays_versions
from brokerlab.lab.disturbance import PERIOD_S, most_steal_percent, surroundings_within
from brokerlab.lab.machine import machine_facts
from brokerlab.lab.null import HOST, LOOK_S, SETTLE_NS, Null, null_broker, play, played, require_equal
from brokerlab.lab.sampling import read_cpu_ns
from brokerlab.lab.setups import USUAL, SetUp, lasting_s, workload_of
from brokerlab.lab.surroundings import Lookout
from brokerlab.lab.verdict import read_meter
from brokerlab.load import handshakes
from brokerlab.load.ceiling import Ceiling, send_ceiling
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.load.widening import MOST
from brokerlab.record.directory import RunDirectory
from brokerlab.study.topics import expand, patterns_of, topic_of
from brokerlab.study.values import PER_MESSAGE, Arrivals, ClientLife, Qos, Schedule, Workload

MODERATE_PER_S = 1_000.0
_SINGLE_PER_S, _LOOPED_PER_S = 100_000.0, 10_000_000.0  # more than anybody connects, or publishes and hears
_MORE = 2.0  # times what a publisher with few messages in flight came to: no two measurements of that are alike
_PUBLISHER, _SUBSCRIBER, _DEVICES, _LOOPS = "publishers/0", "subscribers/0", "devices/0", "loops/0"
_FOLDER = "brokerlab-calibrate-"
_ANSWER_S = 5.0
_LEAD_NS = 100_000_000
_LEAD_EACH_NS = 200_000  # a worker prepares each of its connections, and the null broker what it plays to each
_BEFORE_NS = 20_000_000  # the start, in which the preparations are over
_QUIET_LOOKS, _ANSWERED_LOOK_S = 3, 0.005
_IDLE_NS = 5_000_000  # of CPU in one look: a subscriber that gathers wakes for nothing

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Level:
    """A set-up at a QoS, and how long it is measured."""

    setup: SetUp
    qos: int
    seconds: float

    @property
    def publishes(self) -> str:
        """The worker that does."""
        return _LOOPS if self.setup.loops else _PUBLISHER

    @property
    def publishing_ns(self) -> int:
        return int(lasting_s(self.seconds, self.setup.publishers) * 1e9)

    @property
    def receiving_ns(self) -> int:
        return int(lasting_s(self.seconds, self.setup.subscribers) * 1e9)


@dataclass(frozen=True, slots=True)
class _Received(Ceiling):
    resolution_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Kept:
    messages: int
    error_ms: Json
    began_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True)
class _Measured:
    sent: Ceiling | None
    recorded: Ceiling
    received: _Received
    kept: _Kept | None
    answered: Ceiling | None
    lookout: Lookout


def calibrate(*, seconds: float, say: Say, setup: SetUp = USUAL, levels: Sequence[int] = (0, 1, 2)) -> Json:
    """Measures one set-up at these QoS; `say` is told what is measured next."""
    measured = {f"qos{qos}": _measured(Level(setup, qos, seconds), say) for qos in levels}
    return {
        "format": FORMAT,
        "measured_at_wall_ns": time.time_ns(),
        "seconds": seconds,
        "set_up": setup.text,
        **setup.facts,
        "machine": machine_facts(),
        "versions": dict(todays_versions()),
        **measured,
    }


def _measured(asked: Level, say: Say) -> Json:
    try:
        found = _all_four(asked, say)
    except OSError as problem:  # the null broker died, or the machine has no room for what is written
        raise RunError(f"the meter and the null broker: {problem}") from problem
    reached = {"published": found.sent, "published_recorded": found.recorded, "received": found.received}
    if found.answered:
        reached["answered"] = found.answered
    parts = {**reached, "schedule": found.kept}
    spans = {name: (each.began_ns, each.wall_ns) for name, each in parts.items() if each}
    around = {
        name: surroundings_within(found.lookout, began_ns, began_ns + wall_ns)
        for name, (began_ns, wall_ns) in spans.items()
    }
    return {
        **{name: value for each, ceiling in reached.items() for name, value in _rates(each, ceiling).items()},
        "cpu_us_per_message": {name: _cpu_us(each) for name, each in reached.items()},
        "schedule_error_ms": found.kept and found.kept.error_ms,
        "receive_resolution_ms": found.received.resolution_ms,
        "steal_percent": most_steal_percent(around),
        "surroundings": around,
    }


def _all_four(asked: Level, say: Say) -> _Measured:
    sent = kept = answered = None
    with inventory.temporary_folder(_FOLDER) as folder, Lookout(period_s=PERIOD_S) as lookout:
        with null_broker(folder, asked.setup.transport) as null:
            if not asked.setup.loops and asked.setup.behaviour not in PER_MESSAGE:
                say(f"QoS {asked.qos}: publishing without rows")
                sent = _publish_bare(asked, null)
            say(f"QoS {asked.qos}: publishing with rows")
            recorded = publish_recorded(asked, null, _too_much_per_s(asked, sent))
            received = recorded  # of self loops: one worker publishes and hears each message
            if not asked.setup.loops:
                say(f"QoS {asked.qos}: receiving")
                received = _receive(asked, null)
            if not asked.setup.is_closed:
                say(f"QoS {asked.qos}: schedule at a moderate rate")
                kept = _keep_schedule(asked, null, _moderate_per_s(recorded, asked.seconds))
            if asked.setup.answers is not None:
                say(f"QoS {asked.qos}: answering")
                answered = _answer(asked, null, before=received.messages)
        published = sum(each.messages for each in (sent, recorded, kept, answered) if each)
        require_equal(null.process, "received", published)
        if not asked.setup.loops:
            require_equal(null.process, "played", received.messages + (answered.messages if answered else 0))
    return _Measured(sent, recorded, received, kept, answered, lookout)


def _rates(name: str, reached: Ceiling | None) -> Json:
    if reached is None:
        return {f"{name}_per_s": None, f"{name}_per_s_per_core": None}
    return {
        f"{name}_per_s": reached.messages / reached.wall_ns * 1e9,
        f"{name}_per_s_per_core": reached.messages / reached.cpu_ns * 1e9,
    }


def _cpu_us(reached: Ceiling | None) -> float | None:
    return None if reached is None else reached.cpu_ns / reached.messages / 1e3


# -- the four measurements ----------------------------------------------------------------------------------------


def _publish_bare(asked: Level, null: Null) -> Ceiling:
    schedule = _schedule(asked, Arrivals.SATURATE)
    return send_ceiling(_spec(_PUBLISHER, asked, null, schedule, name="bare"), seconds=asked.seconds)


def _too_much_per_s(asked: Level, sent: Ceiling | None) -> float:
    if sent is None:
        return _LOOPED_PER_S if asked.setup.loops else _SINGLE_PER_S
    times = _MORE * asked.setup.publishers if asked.setup.inflight else 1.0
    return sent.messages / sent.wall_ns * 1e9 * times


def publish_recorded(asked: Level, null: Null, asked_per_s: float) -> _Received:
    """A worker that is asked for the rate that the bare path reached, which it cannot keep while it records.

    One of a closed loop does what it can; one of self loops hears all that it publishes, too.
    Over many connections it keeps a small part of that, so that what was not built at the end is given up.
    """
    node, loops = asked.publishes, asked.setup.loops
    spec = _spec(node, asked, null, _loop(asked) or _constant(asked, asked_per_s), name="recorded")
    with Crew([spec], is_delivered_at_once=not loops) as crew:
        pid, start_ns, end_ns = _go(crew, spec, asked.publishing_ns)
        before_ns = _prepared_cpu_ns(pid, start_ns)
        if (sent := crew.sent(deadline_ns=end_ns)) is None:
            crew.halt()
            sent = crew.sent(deadline_ns=end_ns + SETTLE_NS)
        if sent is None:
            raise RunError(f"the publisher did not finish within {SETTLE_NS / 1e9:g} s")
        if loops:
            crew.drain({node: sum(sent.values())}, deadline_ns=end_ns + SETTLE_NS)
        wall_ns = time.monotonic_ns() - start_ns
        used_ns = _settled_cpu_ns(pid) - before_ns
        stopped = crew.stop()[node]
    if not loops:
        return _Received(stopped.messages, wall_ns, used_ns, start_ns, {})
    if stopped.heard != stopped.messages:
        raise RunError(f"clients heard {stopped.heard} of their own {stopped.messages} messages")
    resolution_ms, last_ns = _arrivals(RunDirectory(spec.run))
    return _Received(stopped.messages, last_ns - start_ns, used_ns, start_ns, resolution_ms)


def _receive(asked: Level, null: Null) -> _Received:
    schedule = _schedule(asked, Arrivals.SATURATE if asked.setup.saturates else Arrivals.CONSTANT)
    spec = _spec(_SUBSCRIBER, asked, null, schedule, name="received")
    if asked.setup.answers is not None:
        spec = replace(spec, workload=replace(spec.workload, qos=Qos(asked.setup.answers)))
    with Crew([spec]) as crew:
        pid, start_ns, end_ns = _go(crew, spec, asked.receiving_ns)
        play(null, start_ns, end_ns, setup=asked.setup)
        before_ns = _prepared_cpu_ns(pid, start_ns)
        crew.drain({_SUBSCRIBER: played(null.process)}, deadline_ns=end_ns + SETTLE_NS)
        used_ns = _settled_cpu_ns(pid) - before_ns
        stopped = crew.stop()[_SUBSCRIBER]
    if not stopped.messages:
        raise RunError(f"nothing came in {asked.receiving_ns / 1e9:g} s")
    resolution_ms, last_ns = _arrivals(RunDirectory(spec.run))
    return _Received(stopped.messages, last_ns - start_ns, used_ns, start_ns, resolution_ms)


def _answer(asked: Level, null: Null, *, before: int) -> Ceiling:
    """Devices that answer each message that is played, where so many were played before."""
    spec = _spec(_DEVICES, asked, null, Schedule(), name="answered")
    with Crew([spec]) as crew:
        pid, start_ns, end_ns = _go(crew, spec, asked.publishing_ns)
        play(null, start_ns, end_ns, setup=asked.setup)
        before_ns = _prepared_cpu_ns(pid, start_ns)
        count = played(null.process, before=before)
        while crew.answered()[0] < count:
            crew.check()
            if time.monotonic_ns() > end_ns + SETTLE_NS:
                raise RunError(f"devices answered {crew.answered()[0]} of {count} messages in {SETTLE_NS / 1e9:g} s")
            time.sleep(_ANSWERED_LOOK_S)
        wall_ns = time.monotonic_ns() - start_ns
        used_ns = _settled_cpu_ns(pid) - before_ns
        stopped = crew.stop()[_DEVICES]
    if not stopped.messages or stopped.heard != count:
        raise RunError(f"devices heard {stopped.heard} of {count} messages and answered {stopped.messages}")
    return Ceiling(stopped.messages, wall_ns, used_ns, start_ns)


def _moderate_per_s(reached: Ceiling, seconds: float) -> float:
    """Far from the ceiling, and two messages at least."""
    return min(MODERATE_PER_S, max(reached.messages / reached.wall_ns * 1e9 / 4, 2 / seconds))


def _keep_schedule(asked: Level, null: Null, per_s: float) -> _Kept:
    spec = _spec(asked.publishes, asked, null, _constant(asked, per_s), name="schedule")
    with Crew([spec]) as crew:
        _, start_ns, end_ns = _go(crew, spec, int(asked.seconds * 1e9))
        crew.sent(deadline_ns=end_ns + SETTLE_NS)
        stopped = crew.stop()
    meter = read_meter(stopped)
    error_ms = {"rate": per_s, "p50": meter.lag_p50_ms, "p99": meter.lag_p99_ms, "max": meter.lag_max_ms}
    return _Kept(stopped[asked.publishes].messages, error_ms, start_ns, end_ns - start_ns)


# -- what they share ----------------------------------------------------------------------------------------------


def _go(crew: Crew, spec: WorkerSpec, span_ns: int) -> tuple[int, int, int]:
    """Has the one worker connect and begin its work; its process, and when that begins and ends."""
    crew.connect(timeout_s=_ANSWER_S)
    if spec.node != _PUBLISHER:
        crew.subscribe(timeout_s=_ANSWER_S)
    start_ns = _start_ns(spec)
    crew.go(Go(start_ns, start_ns, start_ns + span_ns))
    return crew.pids()[spec.node], start_ns, start_ns + span_ns


def _constant(asked: Level, per_s: float) -> Schedule:
    return replace(_schedule(asked, Arrivals.CONSTANT), rate_per_s=per_s / asked.setup.publishers)


def _loop(asked: Level) -> Schedule | None:
    """None where publishers keep a schedule."""
    setup = asked.setup
    if setup.saturates:
        return replace(_schedule(asked, Arrivals.SATURATE), window=setup.window or _widest(asked))
    return _schedule(asked, Arrivals.WINDOW) if setup.refills else None


def _widest(asked: Level) -> int:
    """The widest window that is looked for at a broker that says nothing of its own limits: load/window.py."""
    return min(MOST, handshakes.USUAL * asked.setup.publishers) if asked.qos == Qos.EXACTLY_ONCE else MOST


def _schedule(asked: Level, arrivals: Arrivals) -> Schedule:
    return Schedule(arrivals, inflight=asked.setup.inflight)


def _spec(node: str, asked: Level, null: Null, schedule: Schedule, *, name: str) -> WorkerSpec:
    return meter_spec(node, asked.qos, null, schedule, setup=asked.setup, name=name)


def meter_spec(
    node: str, qos: int, null: Null, schedule: Schedule, *, setup: SetUp = USUAL, name: str = ""
) -> WorkerSpec:
    """A worker at the null broker, whose rows go to a folder of this name beside its log."""
    run = null.process.folder.parent / name
    run.mkdir(exist_ok=True)
    load = replace(workload_of(setup), schedule=schedule, qos=Qos(qos))
    is_answering = node == _DEVICES
    return WorkerSpec(
        node=node,
        index=0,
        host=HOST,
        port=null.process.node.port,
        clients=tuple(_clients(node, load)),
        workload=load if not is_answering else replace(load, qos=Qos(setup.answers or 0), clients=ClientLife()),
        files="device_" if is_answering else "",
        hears_qos=qos if node in (_DEVICES, _LOOPS) else 0,
        fan_out=1.0,
        seed=1,
        run=run,
        entrance=null.login.entrance,
    )


def _clients(node: str, load: Workload) -> Iterator[Client]:
    heard = patterns_of(load.topics)[0]
    for number in range(load.subscribers if node == _SUBSCRIBER else load.publishers):
        topic, hears = topic_of(load.topics, number), ""
        if node == _SUBSCRIBER:
            topic = heard
        elif node == _DEVICES:
            topic, hears = expand(load.topics.reply, publisher=number), heard
        elif node == _LOOPS:
            hears = topic
        yield Client(number, f"calibrate{number}", topic, hears=hears)


def _start_ns(spec: WorkerSpec) -> int:
    """When all can be prepared."""
    return time.monotonic_ns() + _LEAD_NS + _LEAD_EACH_NS * len(spec.clients)


def _prepared_cpu_ns(pid: int, start_ns: int) -> int:
    """CPU time of a process just before the start: what it takes to prepare connections is no message's."""
    time.sleep(max(0, start_ns - _BEFORE_NS - time.monotonic_ns()) / 1e9)
    return read_cpu_ns(pid)


def _settled_cpu_ns(pid: int) -> int:
    """CPU time of a process once it has nothing left to do: its writing thread works on after the last message."""
    quiet, last_ns = 0, read_cpu_ns(pid)
    deadline = time.monotonic() + SETTLE_NS / 1e9
    while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        now_ns = read_cpu_ns(pid)
        quiet = quiet + 1 if now_ns - last_ns <= _IDLE_NS else 0
        last_ns = now_ns
    return last_ns


def _arrivals(run: RunDirectory) -> tuple[dict[str, float], int]:
    """How coarse the arrival times are when messages come as fast as they can, and the last of them."""
    tables = [pq.read_table(path, columns=["resolution_ns", "received_ns"]) for path in run.files("deliveries")]
    values = np.concatenate([each["resolution_ns"].to_numpy() for each in tables])
    p50, p99 = np.quantile(values, [0.5, 0.99]) / 1e6
    last_ns = max(int(each["received_ns"].to_numpy().max()) for each in tables)
    return {"p50": float(p50), "p99": float(p99), "max": float(values.max() / 1e6)}, last_ns
