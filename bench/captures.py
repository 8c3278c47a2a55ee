"""Captures read by the pipeline beside tshark: the same file, the same counts of packets by type.

    python -m bench captures

The traffic is real: Mosquitto and our own clients on loopback, once as fast as they go (many MQTT packets a segment)
and once at a rate (one packet a segment, and pure acknowledgements), captured with tcpdump. It is then repeated with
other client ports and later times until the file is large enough that starting a job weighs little.
tshark puts segments that were captured out of order in order, as we do, and prints the type of every packet.
"""

import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.broker import HOST, broker
from brokerlab import inventory
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.pipeline.capture.container import DATA, open_capture, parts_of, read_records
from brokerlab.pipeline.capture.mqtt import TYPES
from brokerlab.pipeline.capture.reading import count_packets
from brokerlab.pipeline.session import open_session
from brokerlab.study.values import AUTO, Arrivals, Qos, Schedule, Workload

FRAMES = 8_000_000
SECONDS = 3.0
ROUNDS = 3
_ETHERNET, _IPV4 = 14, 20
_SHAPES = (
    ("as fast as they go", 1, 1, Qos(1), Schedule(Arrivals.SATURATE, window=AUTO)),
    ("at 5,000 messages a second", 10, 2, Qos(2), Schedule(Arrivals.CONSTANT, rate_per_s=500)),
)


def captured(folder: Path, publishers: int, subscribers: int, qos: Qos, schedule: Schedule) -> tuple[Path, int]:
    """A capture of some seconds of load through a Mosquitto of its own, and the broker's port."""
    workload = Workload(publishers, subscribers, schedule=schedule, qos=qos)
    with broker(folder) as process:
        port, path = process.node.port, folder / "real.pcap"
        command = ["tcpdump", "-i", "lo", "-B", "262144", "-Z", "root", "-w", str(path), "tcp", "port", str(port)]
        dump = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert dump.stderr is not None
            dump.stderr.readline()  # it says so when it listens
            _load(folder, port, workload)
        finally:
            dump.terminate()
            print(*dump.communicate()[1].splitlines(), sep="; ", file=sys.stderr)
    return path, port


def _load(folder: Path, port: int, workload: Workload) -> None:
    members = {
        "publishers/0": tuple(Client(n, f"bench-p{n}", f"bench/{n}") for n in range(workload.publishers)),
        "subscribers/0": tuple(Client(n, f"bench-s{n}", "bench/#") for n in range(workload.subscribers)),
    }
    specs = [
        WorkerSpec(node, index, HOST, port, clients, workload, workload.subscribers, 1, folder)
        for index, (node, clients) in enumerate(members.items())
    ]
    with Crew(specs) as crew:
        crew.connect(timeout_s=5)
        crew.subscribe(timeout_s=5)
        start_ns = time.monotonic_ns() + 50_000_000
        crew.go(Go(start_ns, start_ns, start_ns + round(SECONDS * 1e9)))
        time.sleep(SECONDS + 1.5)


def multiplied(path: Path, port: int, frames: int) -> tuple[Path, int]:
    """The capture again and again, a minute later each time and from other ports, and how many frames there are."""
    data = open_capture(str(path)).copy()
    (part,) = parts_of(str(path), split_bytes=data.size)
    starts = read_records(data, part).rows[:, DATA]
    ports_at = starts + _ETHERNET + _IPV4  # source and target, of TCP over IPv4 without options
    ends = [(data[ports_at + at].astype(np.int64) << 8) | data[ports_at + at + 1] for at in (0, 2)]
    is_source = ends[0] != port
    client = np.where(is_source, ends[0], ends[1])
    client_at = ports_at + np.where(is_source, 0, 2)
    times = -(-frames // len(starts))
    large = path.with_name("large.pcap")
    with large.open("wb") as file:
        file.write(data[:24].tobytes())
        for number in range(times):
            other = 1024 + (client - 1024 + number * 997) % 64_000
            data[client_at], data[client_at + 1] = other >> 8, other & 0xFF
            file.write(data[24:].tobytes())
            seconds = _little32(data, starts - 16) + 60
            for byte in range(4):
                data[starts - 16 + byte] = seconds >> (8 * byte) & 0xFF
    return large, times * len(starts)


def _little32(data: "np.ndarray", at: "np.ndarray") -> "np.ndarray":
    return sum(data[at + byte].astype(np.int64) << (8 * byte) for byte in range(4))


def tshark(path: Path, port: int) -> tuple[float, Counter[str]]:
    """Seconds, and packets by type."""
    command = ["tshark", "-r", str(path), "-d", f"tcp.port=={port},mqtt", "-Y", "mqtt", "-T", "fields"]
    command += ["-e", "mqtt.msgtype", "-o", "tcp.reassemble_out_of_order:TRUE"]
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - began
    numbers = Counter(done.stdout.replace(b"\n", b",").split(b","))
    return seconds, Counter({TYPES[int(number)]: count for number, count in numbers.items() if number})


def ours(path: Path, port: int) -> tuple[list[float], Counter[str]]:
    """Seconds of each round, Spark being up, and packets by type."""
    seconds, counts = [], Counter[str]()
    with open_session(app="brokerlab-bench") as spark:
        for _ in range(ROUNDS):
            began = time.monotonic()
            rows = count_packets(spark, path, ports=[port]).collect()
            seconds.append(time.monotonic() - began)
            counts = Counter({TYPES[row["packet_type"]]: row["packets"] for row in rows})
    return seconds, counts


def run(frames: int = FRAMES) -> None:
    for program in ("tcpdump", "tshark"):
        if shutil.which(program) is None:
            sys.exit(f"bench: {program} is not here: apt-get install {program}")
    table = Table(title="Captures to MQTT packets")
    for heading in ("load", "frames", "MQTT packets", "tshark s", "ours s", "ours frames/s", "tshark's time, ours = 1"):
        table.add_column(heading, justify="left" if heading == "load" else "right")
    for name, *shape in _SHAPES:
        with inventory.temporary_folder("brokerlab-bench-") as folder:
            real, port = captured(folder, *shape)
            large, count = multiplied(real, port, frames)
            seconds, found = ours(large, port)
            theirs_s, theirs = tshark(large, port)
        if found != theirs:
            print(f"bench: counts differ: ours {dict(found)}, tshark's {dict(theirs)}", file=sys.stderr)
        best = min(seconds)
        table.add_row(
            name, f"{count:,}", f"{found.total():,}" + ("" if found == theirs else " (differ)"), f"{theirs_s:.1f}",
            f"{best:.2f}", f"{count / best:,.0f}", f"{theirs_s / best:.0f}",
        )  # fmt: skip
        Console(width=120).print(table)
