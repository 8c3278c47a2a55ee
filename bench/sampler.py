"""What the sampler costs, in CPU time of the lab, on a broker of several processes with many threads each.

    python -m bench.sampler

CPU time is the sampler's own, so a busy machine changes it little.
"""

import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from brokerlab import inventory
from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.lab.sampling import PERIOD_S, Sampler
from brokerlab.record.directory import RunDirectory

HOST = "127.0.0.1"
SAMPLES = 100
# (processes, threads of each, descriptors of each): a single-threaded broker, a Java one, one of several processes.
SHAPES = ((1, 1, 1_000), (1, 100, 1_000), (4, 25, 250), (8, 100, 1_000))

_FAMILY = """
import os, sys, threading, time
processes, threads, files = map(int, sys.argv[1:])
for _ in range(processes - 1):
    if os.fork() == 0:
        break
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(files)]
for _ in range(threads - 1):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("up", flush=True)
time.sleep(600)
"""


def cpu_ms_per_sample(folder: Path, processes: int, threads: int, files: int) -> float:
    """The mean over many samples; the two others are the workers of a run."""
    shape = map(str, (processes, threads, files))
    node = Node((sys.executable, "-c", _FAMILY, *shape), HOST, free_port(HOST))
    with BrokerProcess(node, folder=folder / "0") as broker:
        while broker.log_tail().count("up") < processes:
            time.sleep(0.05)
        own = os.getpid()
        with Sampler(
            lambda: {"broker/0": broker.pids(), "publishers/0": [own], "subscribers/0": [own]}, RunDirectory(folder)
        ) as sampler:
            began_s = time.thread_time()
            for _ in range(SAMPLES):
                sampler.mark()
            return 1000 * (time.thread_time() - began_s) / SAMPLES


def main() -> None:
    table = Table("processes", "threads of each", "files of each", "ms of CPU a sample", "% of a core")
    for shape in SHAPES:
        with inventory.temporary_folder("brokerlab-bench-") as folder:
            cost_ms = cpu_ms_per_sample(folder, *shape)
        table.add_row(*map(str, shape), f"{cost_ms:.2f}", f"{cost_ms / 10 / PERIOD_S:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
