"""CPU per delivery and deliveries a second of our generator beside its peers, through one Mosquitto.

64-byte payload; one to one, ten publishers to one subscriber, one publisher to ten subscribers; each tool as fast as
it goes, one after the other in rounds, each with a broker of its own.
Counted apart from any tool's word: deliveries are the bytes that its subscribers have read, as the kernel tells, CPU is
user + system time of all processes of the tool, both over the same seconds in the middle of its work.
"""

import argparse
import itertools
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bench.broker import HOST, Span, broker
from bench.reading import NothingReadError, measured
from bench.tools import TOOLS, Load, Tool, start, stop
from brokerlab import inventory
from brokerlab.lab.machine import congestion_control
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.study.values import AUTO, Arrivals, Qos, Schedule, Workload

OURS = "brokerlab"
SHAPES = {"1:1": (1, 1), "10:1": (10, 1), "1:10": (1, 10)}
SETTLE_S = 4.0  # our load looks for its window meanwhile
SECONDS = 3.0
_LONGEST_S = 60
_DEAF = " ¹"


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU per delivery, and deliveries a second."""

    cpu_us: float
    per_s: float

    @classmethod
    def of(cls, span: Span) -> "Cost":
        return cls(1e6 * span.cpu_s / span.deliveries, span.deliveries / span.seconds)


def ours(load: Load, folder: Path) -> Cost:
    """Our own workers; rows are written as in any run, and the window is found by the load itself."""
    schedule = Schedule(Arrivals.SATURATE, window=AUTO)
    workload = Workload(load.publishers, load.subscribers, schedule=schedule, qos=Qos(load.qos))
    members = {
        "publishers/0": tuple(Client(number, f"bench-p{number}", "bench/0") for number in range(load.publishers)),
        "subscribers/0": tuple(Client(number, f"bench-s{number}", "bench/0") for number in range(load.subscribers)),
    }
    specs = [
        WorkerSpec(node, index, HOST, load.port, clients, workload, load.subscribers, 1, folder)
        for index, (node, clients) in enumerate(members.items())
    ]
    with Crew(specs) as crew:
        crew.connect(timeout_s=5)
        crew.subscribe(timeout_s=5)
        processes = [psutil.Process(pid) for pid in crew.pids().values()]
        start_ns = time.monotonic_ns() + 50_000_000
        crew.go(Go(start_ns, start_ns, start_ns + _LONGEST_S * 10**9))
        return cost_of(load, processes, level=4)


def theirs(tool: Tool, load: Load) -> Cost:
    subscribers, publishers = tool.commands(load)
    running = start(subscribers)
    try:
        if subscribers:
            time.sleep(1.0)  # none of them says when it has subscribed
        running += start(publishers)
        counted = running[len(subscribers) :] if tool.is_deaf else running
        processes = [psutil.Process(each.pid) for each in counted]
        return cost_of(load, processes, level=tool.level)
    finally:
        stop(running)


def cost_of(load: Load, processes: list[psutil.Process], *, level: int) -> Cost:
    span = measured(
        load.port, lambda: cpu_s(processes), qos=load.qos, level=level, settle_s=SETTLE_S, seconds=SECONDS
    )  # fmt: skip
    return Cost.of(span)


def cpu_s(processes: list[psutil.Process]) -> float:
    """With all that they have started and not seen the end of."""
    every = [each for process in processes for each in (process, *process.children(recursive=True))]
    times = [process.cpu_times() for process in every]
    return sum(each.user + each.system for each in times)


Key = tuple[str, int, str]  # shape, QoS, tool


def run_rounds(rounds: int, shapes: list[str], levels: list[int]) -> dict[Key, list[Cost]]:
    here = [tool for tool in TOOLS if tool.is_here]
    for tool in TOOLS:
        if tool not in here:
            print(f"bench: {tool.name} is not on the path and is left out", file=sys.stderr)
    costs: dict[Key, list[Cost]] = {}
    with inventory.temporary_folder("brokerlab-bench-") as parent:
        for number, shape, qos in itertools.product(range(rounds), shapes, levels):
            for tool in (None, *(each for each in here if each.can(qos, *SHAPES[shape]))):
                title = title_of(tool) if tool else OURS
                folder = parent / f"{number}-{shape.replace(':', '-')}-{qos}-{title.replace('/', '-')}"
                folder.mkdir()
                try:
                    with broker(folder) as process:
                        load = Load(process.node.port, qos, *SHAPES[shape], folder)
                        cost = theirs(tool, load) if tool else ours(load, folder)
                    costs.setdefault((shape, qos, title), []).append(cost)
                    found = f"{cost.cpu_us:.2f} µs, {cost.per_s:,.0f}/s"
                except NothingReadError as problem:
                    found = f"not measured: {problem}"
                say = f"round {number + 1}/{rounds}, {shape}, QoS {qos}, {title}: {found}"
                print(say, file=sys.stderr, flush=True)
    return costs


def title_of(tool: Tool) -> str:
    return f"{tool.name}{_DEAF}" if tool.is_deaf else tool.name


def median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(each.cpu_us for each in costs), statistics.median(each.per_s for each in costs))


def show(costs: dict[Key, list[Cost]]) -> None:
    what = "Generator CPU per delivery, and deliveries a second, through Mosquitto, 64 B"
    table = Table(title=f"{what} (medians; TCP with {congestion_control()})")
    for heading in ("pub:sub", "QoS", "tool", "CPU µs", "CPU, ours = 1", "deliveries/s", "rate, ours = 1"):
        table.add_column(heading, justify="left" if heading in ("pub:sub", "tool") else "right")
    for (shape, qos, tool), each in costs.items():
        cost, reference = median(each), median(costs[shape, qos, OURS])
        table.add_row(
            shape, str(qos), tool, f"{cost.cpu_us:.2f}", f"{cost.cpu_us / reference.cpu_us:.1f}",
            f"{cost.per_s:,.0f}", f"{cost.per_s / reference.per_s:.2f}",
        )  # fmt: skip
    if any(tool.endswith(_DEAF) for _, _, tool in costs):
        table.caption = (
            f"{_DEAF} only publishes meanwhile: heard by mosquitto_sub, whose CPU is not counted, which flatters it"
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--qos", action="append", type=int, choices=(0, 1, 2))
    chosen = parser.parse_args()
    show(run_rounds(chosen.rounds, chosen.shape or list(SHAPES), chosen.qos or [0, 1, 2]))
