"""Many connections: how fast they are made, what one costs, and whether the schedule is kept with all of them open.

Each publisher sends a message a second through Mosquitto to one subscriber. A plain loop of blocking sockets stands
beside our connects, in the same minute: it is what the kernel and the broker allow to one who waits for each.
"""

import resource
import socket
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.broker import HOST, broker
from brokerlab import inventory
from brokerlab.lab.sampling import read_cpu_ns
from brokerlab.lab.surroundings import read_machine
from brokerlab.lab.verdict import read_meter
from brokerlab.load.crew import Crew
from brokerlab.load.packets import Connect
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.study.values import Guards, Qos, Schedule, Workload

SECONDS = 10.0
_SPARE_FILES = 500
_PLAIN = 2_000  # connections of the plain loop
_FEW = 10  # a tenth of the connections shows what all of them share


def most_connections(asked: int) -> int:
    """As many as RLIMIT_NOFILE allows, raised as far as it goes; the broker inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(asked, hard - _SPARE_FILES)


def plain_per_s(port: int, count: int) -> float:
    sockets = []
    began = time.monotonic()
    for number in range(count):
        sock = socket.create_connection((HOST, port))
        sock.sendall(Connect(f"plain-{number}", 60).encode())
        sock.recv(4)
        sockets.append(sock)
    seconds = time.monotonic() - began
    for sock in sockets:
        sock.close()
    return count / seconds


def own_bytes(pid: int) -> int:
    """Memory of a process less what it maps of files: code that runs for the first time is no client's."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))


def run(asked: int) -> None:
    count = most_connections(asked)
    with inventory.temporary_folder("brokerlab-bench-") as folder:
        with broker(folder) as process:
            plain = plain_per_s(process.node.port, min(_PLAIN, count))
        with broker(folder / "few") as process:
            few_bytes, _ = measure(process.node.port, count // _FEW, folder / "run-few")
        with broker(folder / "ours") as process:
            memory_bytes, rows = measure(process.node.port, count, folder / "run")
    each_kib = (memory_bytes - few_bytes) / (count - count // _FEW) / 1024
    all_kib = memory_bytes / count / 1024
    memory = ("generator memory a connection", f"{each_kib:.1f} KiB, with what all share {all_kib:.1f}")
    table = Table(title=f"{count:,} connections at 1 message a second each, through Mosquitto")
    table.add_column("what")
    table.add_column("value", justify="right")
    for title, value in [("plain loop, connects a second", f"{plain:,.0f}"), memory, *rows]:
        table.add_row(title, value)
    Console(width=110).print(table)


def measure(port: int, count: int, folder: Path) -> tuple[int, list[tuple[str, str]]]:
    """Bytes that the publishers' worker took for connecting and sending, and the other rows of the table."""
    workload = Workload(count, 1, schedule=Schedule(rate_per_s=1.0), qos=Qos.AT_MOST_ONCE)
    members = {
        "publishers/0": tuple(Client(number, f"bench-p{number}", f"bench/{number}") for number in range(count)),
        "subscribers/0": (Client(0, "bench-s", "bench/#"),),
    }
    specs = [
        WorkerSpec(node, index, HOST, port, clients, workload, 1.0, 1, folder)
        for index, (node, clients) in enumerate(members.items())
    ]
    with Crew(specs) as crew:
        pid = crew.pids()["publishers/0"]
        before = own_bytes(pid)
        began = time.monotonic()
        crew.connect(timeout_s=30)
        connect_s = time.monotonic() - began
        crew.subscribe(timeout_s=30)
        start_ns = time.monotonic_ns() + 10**9
        end_ns = start_ns + int(SECONDS * 1e9)
        crew.go(Go(start_ns, start_ns, end_ns))
        first = read_machine()
        time.sleep(1 + SECONDS / 2)
        memory = own_bytes(pid) - before
        cpu_ns = [read_cpu_ns(each) for each in crew.pids().values()]
        time.sleep(SECONDS / 4)
        used = sum(read_cpu_ns(each) for each in crew.pids().values()) - sum(cpu_ns)
        sent = crew.sent(deadline_ns=end_ns + 10**10) or {}
        last = read_machine()
        crew.drain({"subscribers/0": sum(sent.values())}, deadline_ns=time.monotonic_ns() + 10**10)
        stopped = crew.stop()
    meter = read_meter(stopped)
    steal = (last.steal_ticks - first.steal_ticks) / max(1, last.all_ticks - first.all_ticks)
    return memory, [
        ("ours, connects a second", f"{count / connect_s:,.0f}"),
        ("generator CPU, of one core", f"{100 * used / (SECONDS / 4 * 1e9):.0f} %"),
        ("schedule lag p50, p99", f"{meter.lag_p50_ms:.2f} ms, {meter.lag_p99_ms:.2f} ms"),
        ("cores taken by other machines", f"{100 * steal:.1f} % (limit of a valid run: {Guards().steal_percent:g} %)"),
        ("published, delivered", f"{sum(sent.values()):,}, {stopped['subscribers/0'].messages:,}"),
    ]
