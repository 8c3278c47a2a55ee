"""Messages a second and CPU a message of our bridge beside Mosquitto's own and a plain one of paho; one run.

Publishers at one Mosquitto, a subscriber at another, 64 B, as fast as it goes with a window of outstanding messages;
one bridge after the other in rounds, each with brokers of its own. Deliveries are what the second broker says that it
sent. CPU is user + system time: of the bridge's own process, and of it with both brokers, because Mosquitto's own
bridge has no process of its own.
"""

import argparse
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bench.broker import CONFIG, HOST, broker, measured
from bench.peers import SECONDS, SETTLE_S, cpu_s
from bench.tools import stop
from brokerlab import inventory
from brokerlab.bridge.joint import JOINED, Side, joint_between
from brokerlab.brokers.process import BrokerProcess
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client as PlainClient
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.study.values import AUTO, Arrivals, Qos, Schedule, Workload

OURS, MOSQUITTO, PAHO = "brokerlab", "mosquitto", "paho"
TOPIC = "bench/0"
_LONGEST_S = 60
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Messages a second, and microseconds of CPU a message; the bridge's own is None where it has no process."""

    per_s: float
    own_us: float | None
    all_us: float


@contextmanager
def bridged(name: str, qos: int, source: int, target: int, folder: Path) -> Iterator[list[psutil.Process]]:
    """The processes of a bridge that passes messages."""
    commands = {
        OURS: [*joint_between("bench", *_sides(source, target), subscribe=["bench/#"], qos=qos, both=False).argv],
        PAHO: [sys.executable, "-m", "bench.paho_bridge", str(source), str(target), str(qos)],
    }
    if name == MOSQUITTO:
        yield []
        return
    where = Path.cwd()
    if name == OURS:
        where = folder
        joint = joint_between("bench", *_sides(source, target), subscribe=["bench/#"], qos=qos, both=False)
        for file, text in joint.files.items():
            (folder / file).write_text(text)
    process = subprocess.Popen(commands[name], cwd=where, stdout=subprocess.PIPE)
    try:
        if name == OURS and process.stdout is not None:
            assert process.stdout.readline().strip() == JOINED.encode()
        yield [psutil.Process(process.pid)]
    finally:
        stop([process])


def _sides(source: int, target: int) -> tuple[Side, Side]:
    return Side(f"{HOST}:{source}"), Side(f"{HOST}:{target}")


@contextmanager
def source_broker(name: str, qos: int, target: int, folder: Path) -> Iterator[BrokerProcess]:
    if name != MOSQUITTO:
        with broker(folder) as process:
            yield process
        return
    own = f"connection bench\naddress {HOST}:{target}\ntopic bench/# out {qos}\ncleansession false\n"
    with broker(folder, config=CONFIG + own) as process:
        yield process


def prove_passing(source: int, target: int) -> None:
    """Returns when a message gets from one broker to the other."""
    with PlainClient(HOST, target) as heard, PlainClient(HOST, source) as said:
        heard.subscribe("bench/ready", 0)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            said.publish("bench/ready", b"?", qos=0)
            if heard.receive(timeout_s=0.2) is not None:
                return
    sys.exit("bench: the bridge passed nothing")


def cost_of(name: str, qos: int, folder: Path) -> Cost:
    (folder / "to").mkdir()
    (folder / "from").mkdir()
    with (
        broker(folder / "to") as target,
        source_broker(name, qos, target.node.port, folder / "from") as source,
        bridged(name, qos, source.node.port, target.node.port, folder) as own,
    ):
        prove_ready(source, HOST, source.node.port)
        prove_passing(source.node.port, target.node.port)
        brokers = [psutil.Process(pid) for each in (source, target) for pid in each.pids()]
        return _loaded(qos, source.node.port, target.node.port, own, brokers, folder)


def _loaded(
    qos: int, source: int, target: int, own: list[psutil.Process], brokers: list[psutil.Process], folder: Path
) -> Cost:
    workload = Workload(1, 1, schedule=Schedule(Arrivals.SATURATE, window=AUTO), qos=Qos(qos))
    specs = [
        WorkerSpec("publishers/0", 0, HOST, source, (Client(0, "bench-p0", TOPIC),), workload, 1, 1, folder),
        WorkerSpec("subscribers/0", 1, HOST, target, (Client(0, "bench-s0", TOPIC),), workload, 1, 1, folder),
    ]
    with Crew(specs) as crew:
        crew.connect(timeout_s=5)
        crew.subscribe(timeout_s=5)
        start_ns = time.monotonic_ns() + 50_000_000
        crew.go(Go(start_ns, start_ns, start_ns + _LONGEST_S * 10**9))
        began = cpu_s(own), cpu_s(brokers)
        spans = []

        def clock() -> float:
            spans.append((cpu_s(own), cpu_s(brokers)))
            return spans[-1][0] + spans[-1][1]

        span = measured(target, clock, settle_s=SETTLE_S, seconds=SECONDS)
    share = (spans[-1][0] - began[0]) / max(1e-9, sum(spans[-1]) - sum(began))
    each_us = 1e6 * span.cpu_s / span.deliveries
    return Cost(span.deliveries / span.seconds, each_us * share if own else None, each_us)


Key = tuple[int, str]


def run_rounds(rounds: int, levels: list[int], names: list[str]) -> dict[Key, list[Cost]]:
    costs: dict[Key, list[Cost]] = {}
    with inventory.temporary_folder("brokerlab-bench-") as parent:
        for number, qos, name in itertools.product(range(rounds), levels, names):
            folder = parent / f"{number}-{qos}-{name}"
            folder.mkdir()
            cost = cost_of(name, qos, folder)
            costs.setdefault((qos, name), []).append(cost)
            found = f"{cost.per_s:,.0f}/s, {cost.all_us:.1f} µs with both brokers"
            print(f"round {number + 1}/{rounds}, QoS {qos}, {name}: {found}", file=sys.stderr, flush=True)
    return costs


def show(costs: dict[Key, list[Cost]]) -> None:
    table = Table(title="Bridges between two Mosquittos, 64 B (medians)")
    for heading in ("QoS", "bridge", "messages/s", "rate, ours = 1", "own CPU µs", "CPU µs with both brokers"):
        table.add_column(heading, justify="left" if heading == "bridge" else "right")
    for (qos, name), each in costs.items():
        rate, ours = _median(each, "per_s"), _median(costs.get((qos, OURS), each), "per_s")
        own = "-" if each[0].own_us is None else f"{_median(each, 'own_us'):.1f}"
        table.add_row(str(qos), name, f"{rate:,.0f}", f"{rate / ours:.2f}", own, f"{_median(each, 'all_us'):.1f}")
    Console(width=110).print(table)


def _median(costs: list[Cost], name: str) -> float:
    return statistics.median(getattr(each, name) for each in costs)


def run(rounds: int) -> None:
    show(run_rounds(rounds, [0, 1], [OURS, MOSQUITTO, PAHO]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--qos", action="append", type=int, choices=(0, 1, 2))
    parser.add_argument("--bridge", action="append", choices=(OURS, MOSQUITTO, PAHO))
    chosen = parser.parse_args()
    show(run_rounds(chosen.rounds, chosen.qos or [0, 1], chosen.bridge or [OURS, MOSQUITTO, PAHO]))
