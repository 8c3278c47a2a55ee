"""Many connections: how fast they are made, what one costs, and whether the schedule is kept with all of them open.

Each publisher sends a message a second through Mosquitto to one subscriber. Beside our connects stand, within the same
minutes, those of the tools that connect fastest, where they are here, and those of a plain loop of blocking sockets:
what the kernel and the broker allow to one who waits for each. All are counted by the kernel's number of TCP sockets,
whoever opened them.
"""

import resource
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.table import Table

from bench.broker import HOST, broker
from bench.tools import TOOLS, Tool, start, stop
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
_PEER = 5_000  # of other tools; mqttwrk takes a third of a MiB for each
_LOOK_S = 0.01
_PATIENCE_S = 60.0
_FEW = 10  # a tenth of the connections shows what all of them share


def most_connections(asked: int) -> int:
    """As many as RLIMIT_NOFILE allows, raised as far as it goes; the broker inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(asked, hard - _SPARE_FILES)


class Sockets:
    """A context manager that watches how many TCP sockets the machine has, both ends of a connection on loopback."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        line = next(each for each in Path("/proc/net/sockstat").read_text().splitlines() if each.startswith("TCP:"))
        self._seen.append((time.monotonic(), int(line.split()[2])))

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._look()

    def made(self) -> int:
        """The most connections at a time since the beginning."""
        return (max(seen for _, seen in self._seen) - self._seen[0][1]) // 2

    def per_s(self, count: int) -> float | None:
        """Connects a second, from the first twentieth of so many to the last; None if the looks cannot tell."""
        first = self._seen[0][1]
        begun, done = (
            next((at for at, seen in self._seen if seen - first >= 2 * count * share), None) for share in (0.05, 0.95)
        )
        return None if begun is None or done is None or begun == done else 0.9 * count / (done - begun)


def _told(per_s: float | None) -> str:
    return "not measured" if per_s is None else f"{per_s:,.0f}"


def plain_per_s(port: int, count: int) -> float | None:
    sockets = []
    with Sockets() as watched:
        for number in range(count):
            sock = socket.create_connection((HOST, port))
            sock.sendall(Connect(f"plain-{number}", 60).encode())
            sock.recv(4)
            sockets.append(sock)
        time.sleep(2 * _LOOK_S)
    for sock in sockets:
        sock.close()
    return watched.per_s(count)


def peer_per_s(tool: Tool, port: int, count: int) -> float | None:
    """Of a tool that opens connections and keeps them; None where it is not able to open so many."""
    if tool.connects is None:
        return None
    deadline = time.monotonic() + _PATIENCE_S
    with Sockets() as watched:
        processes = start([tool.connects(port, count)])
        while watched.made() < count and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        stop(processes)
    return watched.per_s(count) if watched.made() >= count else None


def peers_per_s(folder: Path, count: int) -> list[tuple[str, str]]:
    """Rows of the table, one for each tool that is here."""
    rows = []
    for tool in (each for each in TOOLS if each.connects is not None):
        per_s = None
        if tool.is_here:
            with broker(folder / tool.name) as process:
                per_s = peer_per_s(tool, process.node.port, count)
        rows.append((f"{tool.name}, connects a second", _told(per_s)))
    return rows


def own_bytes(pid: int) -> int:
    """Memory of a process less what it maps of files: code that runs for the first time is no client's."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))


def run(asked: int) -> None:
    count = most_connections(asked)
    with inventory.temporary_folder("brokerlab-bench-") as folder:
        with broker(folder) as process:
            plain = plain_per_s(process.node.port, min(_PLAIN, count))
        peers = peers_per_s(folder, min(_PEER, count))
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
    for title, value in [("plain loop, connects a second", _told(plain)), *peers, memory, *rows]:
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
        with Sockets() as watched:
            began = time.monotonic()
            crew.connect(timeout_s=30)
            connect_s = time.monotonic() - began
            time.sleep(2 * _LOOK_S)
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
        ("ours, connects a second", f"{_told(watched.per_s(count))}; {count / connect_s:,.0f} to the last answer"),
        ("generator CPU, of one core", f"{100 * used / (SECONDS / 4 * 1e9):.0f} %"),
        ("schedule lag p50, p99", f"{meter.lag_p50_ms:.2f} ms, {meter.lag_p99_ms:.2f} ms"),
        ("cores taken by other machines", f"{100 * steal:.1f} % (limit of a valid run: {Guards().steal_percent:g} %)"),
        ("published, delivered", f"{sum(sent.values()):,}, {stopped['subscribers/0'].messages:,}"),
    ]
