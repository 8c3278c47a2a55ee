"""CPU per delivery of our generator beside mosquitto_pub with mosquitto_sub, and paho, through one Mosquitto.

64-byte payload; one to one, ten publishers to one subscriber, one publisher to ten subscribers;
each tool as fast as it goes, one after the other in rounds.
Counted apart from any tool's word: a subscriber ends (theirs) or holds a row (ours) per message that it read.
CPU is user + system time of all client processes, per delivery; what the processes cost without messages is
measured and taken off.
"""

import argparse
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.lab.proof import prove_ready
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.study.values import Arrivals, Qos, Schedule, Workload

HOST = "127.0.0.1"
TOPIC = "bench/0"
SHAPES = {"1:1": (1, 1), "10:1": (10, 1), "1:10": (1, 10)}
COUNTS = {0: 100_000, 1: 20_000, 2: 10_000}  # deliveries of the others' tools
OURS_S = 2.0
WINDOWS = {0: 2_000, 1: 500, 2: 500}
TIMEOUT_S = 120
TOOLS = ("brokerlab", "mosquitto", "paho")
# Nothing is dropped, nothing waits for Nagle: otherwise the broker's limits are measured, not the clients.
CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
user root
max_queued_messages 0
max_inflight_messages 1000
set_tcp_nodelay true
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU per delivery, and deliveries a second."""

    publisher_us: float
    subscriber_us: float
    per_s: float

    @property
    def both_us(self) -> float:
        return self.publisher_us + self.subscriber_us


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    program = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        sys.exit("bench: mosquitto is not here: apt-get install mosquitto mosquitto-clients")
    port = free_port(HOST)
    node = Node((program, "-c", "bench.conf"), HOST, port, {"bench.conf": CONFIG.format(port=port)})
    with BrokerProcess(node, folder=folder / "broker") as process:
        prove_ready(process, HOST, port)
        yield port


def ours(port: int, qos: int, shape: tuple[int, int], folder: Path) -> Cost:
    """Our own workers, saturating through a window; rows are written as in any run."""
    publishers, subscribers = shape
    schedule = Schedule(Arrivals.SATURATE, window=WINDOWS[qos])
    workload = Workload(publishers, subscribers, schedule=schedule, qos=Qos(qos))
    members = {
        "publishers/0": tuple(Client(number, f"bench-p{number}", TOPIC) for number in range(publishers)),
        "subscribers/0": tuple(Client(number, f"bench-s{number}", TOPIC) for number in range(subscribers)),
    }
    specs = [
        WorkerSpec(node, index, HOST, port, clients, workload, subscribers, 1, folder)
        for index, (node, clients) in enumerate(members.items())
    ]
    with Crew(specs) as crew:
        crew.connect(timeout_s=5)
        crew.subscribe(timeout_s=5)
        start_ns = time.monotonic_ns() + 50_000_000
        end_ns = start_ns + int(OURS_S * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + 10**10)
        expected = sum((sent or {}).values()) * subscribers
        crew.drain({"subscribers/0": expected}, deadline_ns=time.monotonic_ns() + 10**10)
        publisher, subscriber = crew.stop().values()
    if subscriber.messages != expected:
        print(f"bench: at QoS {qos} {expected} were expected and {subscriber.messages} arrived", file=sys.stderr)
    deliveries = subscriber.messages
    return Cost(
        publisher.cpu_ns / 1e3 / deliveries,
        subscriber.cpu_ns / 1e3 / deliveries,
        deliveries / (subscriber.wall_ns / 1e9),
    )


def theirs(subscribers: list[list[str]], publishers: list[list[str]], *, waits: bool) -> tuple[float, float, float]:
    """CPU seconds of all publishers and all subscribers until they ended, and seconds from the first message on."""
    readers = [subprocess.Popen(each, stdout=subprocess.PIPE if waits else subprocess.DEVNULL) for each in subscribers]
    try:
        for reader in readers:
            if reader.stdout is not None:
                reader.stdout.readline()
        if not waits:
            time.sleep(0.3)  # mosquitto_sub does not say when it has subscribed
        began = time.monotonic()
        writers = [subprocess.Popen(each, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for each in publishers]
        publisher_s = sum(cpu_of(writer) for writer in writers)
        subscriber_s = sum(cpu_of(reader) for reader in readers)
        return publisher_s, subscriber_s, time.monotonic() - began
    finally:
        for reader in readers:
            reader.kill()


def cpu_of(process: "subprocess.Popen[bytes]") -> float:
    """User + system seconds of a process, once it has ended."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        time.sleep(0.005)
    process.kill()
    sys.exit(f"bench: {process.args!r} did not end in {TIMEOUT_S} s")


def commands(tool: str, port: int, qos: int, *, published: int, received: int) -> tuple[list[str], list[str]]:
    """A subscriber of `received` messages and a publisher of `published`."""
    if tool == "paho":
        paho = [sys.executable, "-m", "bench.paho_client"]
        where = [str(port), str(qos)]
        return [*paho, "subscribe", *where, str(received)], [*paho, "publish", *where, str(published)]
    where = ["-h", HOST, "-p", str(port), "-t", TOPIC, "-q", str(qos)]
    return (
        ["mosquitto_sub", *where, "-C", str(received)],
        ["mosquitto_pub", *where, "--repeat", str(published), "-m", "x" * 64],
    )


def measure(tool: str, port: int, qos: int, shape: tuple[int, int]) -> Cost:
    publishers, subscribers = shape

    def run(each: int) -> tuple[float, float, float]:
        reader, writer = commands(tool, port, qos, published=each, received=each * publishers)
        return theirs([reader] * subscribers, [writer] * publishers, waits=tool == "paho")

    each = COUNTS[qos] // (publishers * subscribers)
    idle_pub_s, idle_sub_s, _ = run(1)
    pub_s, sub_s, seconds = run(each)
    deliveries = each * publishers * subscribers
    return Cost(1e6 * (pub_s - idle_pub_s) / deliveries, 1e6 * (sub_s - idle_sub_s) / deliveries, deliveries / seconds)


Key = tuple[str, int, str]  # shape, QoS, tool


def run_rounds(rounds: int) -> dict[Key, list[Cost]]:
    costs: dict[Key, list[Cost]] = {}
    with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as name:
        for number in range(rounds):
            for place, (shape, qos, tool) in enumerate(itertools.product(SHAPES, COUNTS, TOOLS)):
                folder = Path(name) / f"{number}-{place}"
                folder.mkdir()
                with broker(folder) as port:
                    measured = ours(port, qos, SHAPES[shape], folder) if tool == "brokerlab" else None
                    cost = measured or measure(tool, port, qos, SHAPES[shape])
                costs.setdefault((shape, qos, tool), []).append(cost)
                print(
                    f"round {number + 1}/{rounds}, {shape}, QoS {qos}, {tool}: {cost.both_us:.2f} µs", file=sys.stderr
                )
    return costs


def median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(getattr(c, f) for c in costs) for f in ("publisher_us", "subscriber_us", "per_s")))


def show(costs: dict[Key, list[Cost]]) -> None:
    table = Table(title="CPU per delivery through Mosquitto, 64 B, saturating (medians)")
    headings = ("pub:sub", "QoS", "tool", "publishers µs", "subscribers µs", "both µs", "ratio to ours", "deliveries/s")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("pub:sub", "tool") else "right")
    for (shape, qos, tool), each in costs.items():
        cost, reference = median(each), median(costs[shape, qos, "brokerlab"])
        table.add_row(
            shape, str(qos), tool, f"{cost.publisher_us:.2f}", f"{cost.subscriber_us:.2f}", f"{cost.both_us:.2f}",
            f"{cost.both_us / reference.both_us:.1f}", f"{cost.per_s:,.0f}",
        )  # fmt: skip
    Console(width=110).print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    show(run_rounds(parser.parse_args().rounds))
