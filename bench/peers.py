"""CPU per message of our generator beside mosquitto_pub/mosquitto_sub and paho, through one Mosquitto.

64-byte payload, one publisher, one subscriber, each tool as fast as it goes, one after the other in rounds.
Counted apart from any tool's word: the subscriber ends (theirs) or holds a row (ours) per message that it read.
CPU is user + system time of the client processes; what a process costs without messages is measured and taken off.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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
from brokerlab.study.values import Arrivals, Schedule

HOST = "127.0.0.1"
TOPIC = "bench/0"
COUNTS = {0: 100_000, 1: 30_000, 2: 10_000}
OURS_S = 2.0
WINDOWS = {0: 2_000, 1: 500, 2: 500}
TIMEOUT_S = 120
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
    """Microseconds of CPU per message, and messages a second."""

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


def ours(port: int, qos: int, folder: Path) -> Cost:
    """Our own workers, saturating through a window; rows are written as in any run."""
    schedule = Schedule(Arrivals.SATURATE, window=WINDOWS[qos])
    specs = [
        WorkerSpec(node, index, HOST, port, (Client(0, name, TOPIC),), "3.1.1", qos, 64, schedule, 1, 1.0, 1, folder)
        for index, (node, name) in enumerate([("publishers/0", "bench-p"), ("subscribers/0", "bench-s")])
    ]
    with Crew(specs) as crew:
        crew.connect(timeout_s=5)
        crew.subscribe(timeout_s=5)
        start_ns = time.monotonic_ns() + 50_000_000
        end_ns = start_ns + int(OURS_S * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        sent = crew.sent(deadline_ns=end_ns + 10**10)
        expected = sum((sent or {}).values())
        crew.drain({"subscribers/0": expected}, deadline_ns=time.monotonic_ns() + 10**10)
        publisher, subscriber = crew.stop().values()
    if subscriber.messages != expected:
        print(f"bench: at QoS {qos} {expected} were published and {subscriber.messages} arrived", file=sys.stderr)
    return Cost(
        publisher.cpu_ns / 1e3 / publisher.messages,
        subscriber.cpu_ns / 1e3 / subscriber.messages,
        subscriber.messages / (subscriber.wall_ns / 1e9),
    )


def theirs(subscriber: Sequence[str], publisher: Sequence[str], *, waits: bool) -> tuple[float, float, float]:
    """CPU seconds of publisher and subscriber until both ended, and seconds from the first message on."""
    reader = subprocess.Popen(subscriber, stdout=subprocess.PIPE if waits else subprocess.DEVNULL)
    try:
        if waits:
            assert reader.stdout is not None
            reader.stdout.readline()
        else:
            time.sleep(0.3)  # mosquitto_sub does not say when it has subscribed
        began = time.monotonic()
        writer = subprocess.Popen(publisher, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        publisher_s = cpu_of(writer)
        subscriber_s = cpu_of(reader)
        return publisher_s, subscriber_s, time.monotonic() - began
    finally:
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


def commands(tool: str, port: int, qos: int, count: int) -> tuple[list[str], list[str]]:
    if tool == "paho":
        paho = [sys.executable, "-m", "bench.paho_client"]
        numbers = [str(port), str(qos), str(count)]
        return [*paho, "subscribe", *numbers], [*paho, "publish", *numbers]
    where = ["-h", HOST, "-p", str(port), "-t", TOPIC, "-q", str(qos)]
    return (
        ["mosquitto_sub", *where, "-C", str(count)],
        ["mosquitto_pub", *where, "--repeat", str(count), "-m", "x" * 64],
    )


def measure(tool: str, port: int, qos: int) -> Cost:
    waits = tool == "paho"
    idle_pub_s, idle_sub_s, _ = theirs(*commands(tool, port, qos, 1), waits=waits)
    count = COUNTS[qos]
    pub_s, sub_s, seconds = theirs(*commands(tool, port, qos, count), waits=waits)
    return Cost(1e6 * (pub_s - idle_pub_s) / count, 1e6 * (sub_s - idle_sub_s) / count, count / seconds)


def run_rounds(rounds: int) -> dict[tuple[int, str], list[Cost]]:
    costs: dict[tuple[int, str], list[Cost]] = {}
    with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as name:
        for number in range(rounds):
            for qos in COUNTS:
                for tool in ("brokerlab", "mosquitto_pub/sub", "paho"):
                    folder = Path(name) / f"{number}-{qos}-{tool.partition('/')[0]}"
                    folder.mkdir()
                    with broker(folder) as port:
                        cost = ours(port, qos, folder) if tool == "brokerlab" else measure(tool, port, qos)
                    costs.setdefault((qos, tool), []).append(cost)
                    print(f"round {number + 1}/{rounds}, QoS {qos}, {tool}: {cost.both_us:.2f} µs", file=sys.stderr)
    return costs


def median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(getattr(c, f) for c in costs) for f in ("publisher_us", "subscriber_us", "per_s")))


def show(costs: dict[tuple[int, str], list[Cost]]) -> None:
    table = Table(title="CPU per message through Mosquitto, 64 B, 1:1, saturating (medians)")
    for heading in ("QoS", "tool", "publisher µs", "subscriber µs", "both µs", "ratio to ours", "messages/s"):
        table.add_column(heading, justify="left" if heading == "tool" else "right")
    for (qos, tool), each in costs.items():
        cost, reference = median(each), median(costs[qos, "brokerlab"])
        table.add_row(
            str(qos), tool, f"{cost.publisher_us:.2f}", f"{cost.subscriber_us:.2f}", f"{cost.both_us:.2f}",
            f"{cost.both_us / reference.both_us:.1f}", f"{cost.per_s:,.0f}",
        )  # fmt: skip
    Console(width=110).print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    show(run_rounds(parser.parse_args().rounds))
