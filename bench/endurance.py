"""Whether the memory of a worker stays flat and its files small over many messages: 100 million by default.

A subscribing worker is played messages by the null broker, a publishing worker sends to it, one after the other, both
with rows written as in any run.
"""

import threading
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from brokerlab import inventory
from brokerlab.lab.calibrate import meter_spec
from brokerlab.lab.null import null_broker, play, played
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Go
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Arrivals, Schedule

PUBLISHERS, SUBSCRIBERS = "publishers/0", "subscribers/0"
ASKED_PER_S = 2_000_000.0  # of the publisher: more than it can while it records
_TRIAL_S = 2.0
_LONGEST_S = 600
_LOOK_S = 0.25
_MIB = 1 << 20


class Memory:
    """Resident memory of a process, looked at until it is left."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.readings: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.readings.append(self._process.memory_info().rss)

    def thirds_mib(self) -> list[float]:
        """The largest reading of each third of the time; the first third is the start, where buffers fill."""
        third = max(1, len(self.readings) // 3)
        return [max(self.readings[place * third : (place + 1) * third]) / _MIB for place in range(3)]


def receive(folder: Path, seconds: float) -> tuple[int, Memory]:
    """How many messages a subscribing worker took in, and its memory meanwhile."""
    with null_broker(folder) as null:
        spec = meter_spec(SUBSCRIBERS, 0, null, Schedule(Arrivals.SATURATE))
        with Crew([spec]) as crew, Memory(crew.pids()[SUBSCRIBERS]) as memory:
            crew.connect(timeout_s=5)
            crew.subscribe(timeout_s=5)
            start_ns = time.monotonic_ns() + 10**8
            end_ns = start_ns + int(seconds * 1e9)
            crew.go(Go(start_ns, start_ns, end_ns))
            play(null, start_ns, end_ns)
            time.sleep(seconds)
            crew.drain({SUBSCRIBERS: played(null.process)}, deadline_ns=time.monotonic_ns() + 60 * 10**9)
            return crew.stop()[SUBSCRIBERS].messages, memory


def publish(folder: Path, seconds: float) -> tuple[int, Memory]:
    """How many messages a publishing worker handed over, and its memory meanwhile."""
    with null_broker(folder) as null:
        spec = meter_spec(PUBLISHERS, 0, null, Schedule(Arrivals.CONSTANT, rate_per_s=ASKED_PER_S))
        with Crew([spec]) as crew, Memory(crew.pids()[PUBLISHERS]) as memory:
            crew.connect(timeout_s=5)
            start_ns = time.monotonic_ns() + 10**8
            crew.go(Go(start_ns, start_ns, start_ns + int(seconds * 1e9)))
            crew.sent(deadline_ns=start_ns + _LONGEST_S * 10**9)
            return crew.stop()[PUBLISHERS].messages, memory


def run(messages: int) -> None:
    table = Table(title="One worker over many messages, against the null broker, QoS 0, 64 B")
    for heading in ("worker", "messages", "memory, thirds of the time (MiB)", "on disk, bytes a row"):
        table.add_column(heading, justify="left" if heading == "worker" else "right")
    for name, kind, measure in (("subscriber", "deliveries", receive), ("publisher", "publications", publish)):
        with inventory.temporary_folder("brokerlab-bench-") as trial:
            count, _ = measure(trial, _TRIAL_S)
        seconds = messages / ASKED_PER_S if kind == "publications" else messages * _TRIAL_S / count
        with inventory.temporary_folder("brokerlab-bench-") as folder:
            count, memory = measure(folder, seconds)
            size = sum(path.stat().st_size for path in RunDirectory(folder).files(kind))
        thirds = ", ".join(f"{mib:.0f}" for mib in memory.thirds_mib())
        table.add_row(name, f"{count:,}", thirds, f"{size / count:.1f}")
    Console(width=110).print(table)
