"""What a userspace link carries on one core, and where it stops: frames and bits a second within its delay tolerance.

    python -m bench links

iperf3 sends UDP over a link of 10 ms round trip, ping measures the round trip meanwhile, and the carrier's own CPU
time is read. A step is carried when less than 0.1 % of what was sent is dropped on the link, before the carrier or by
it, and the median round trip is within 5 % of the claim. What iperf3's receiver is too slow to read is its own affair.
"""

import re
import statistics
import subprocess
import time
from dataclasses import dataclass

import psutil
from rich.console import Console
from rich.table import Table

from brokerlab.network.interfaces import Interfaces
from brokerlab.network.network import Network
from brokerlab.network.privileges import reason_unable
from brokerlab.network.proof import RTT_MS, RTT_SHARE
from brokerlab.study.topology import Direction, Link, Topology

RTT = 10.0
SECONDS = 3
HEADERS_BYTES = 42
PROMISED_FRAMES_PER_S, PROMISED_BITS_PER_S = 50_000, 200e6
# (frames a second, bytes of a datagram): small ones for the rate of frames, large ones for that of bits.
STEPS = ((10_000, 64), (25_000, 64), (50_000, 64), (75_000, 64), (100_000, 64), (150_000, 64),
         (9_000, 1400), (18_000, 1400), (36_000, 1400), (54_000, 1400), (90_000, 1400))  # fmt: skip
_MOST_LOST_PERCENT = 0.1


@dataclass(frozen=True, slots=True)
class Step:
    frames_per_s: float
    bits_per_s: float
    lost_percent: float
    rtt_ms: float
    cpu_percent: float

    @property
    def is_carried(self) -> bool:
        return self.lost_percent < _MOST_LOST_PERCENT and abs(self.rtt_ms - RTT) <= max(RTT_MS, RTT_SHARE * RTT)


def run(_rounds: int = 1) -> None:
    if (reason := reason_unable()) is not None:
        Console().print(f"links: {reason}")
        return
    table = Table(title=f"A userspace link of {RTT:g} ms round trip, {SECONDS} s a step")
    for heading in ("frames/s", "Mbit/s", "lost %", "round trip ms", "carrier's CPU %", "carried"):
        table.add_column(heading, justify="right")
    direction = Direction(delay_ms=RTT / 2)
    steps = []
    with Network(Topology("chain", 2, between=Link(direction, direction)), netem=False) as network:
        for frames_per_s, datagram_bytes in STEPS:
            step = measure(network, frames_per_s, datagram_bytes)
            steps.append(step)
            table.add_row(
                f"{step.frames_per_s:,.0f}", f"{step.bits_per_s / 1e6:,.1f}", f"{step.lost_percent:.2f}",
                f"{step.rtt_ms:.2f}", f"{step.cpu_percent:.0f}", "yes" if step.is_carried else "no",
            )  # fmt: skip
    Console(width=110).print(table)
    carried = [step for step in steps if step.is_carried]
    frames = max((step.frames_per_s for step in carried), default=0.0)
    bits = max((step.bits_per_s for step in carried), default=0.0)
    stopped = len(carried) < len(steps)
    _say("frames/s", frames, PROMISED_FRAMES_PER_S, stopped=stopped)
    _say("Mbit/s", bits / 1e6, PROMISED_BITS_PER_S / 1e6, stopped=stopped)


def _say(unit: str, reached: float, promised: float, *, stopped: bool) -> None:
    """A promise that was not reached is broken only where the link stopped: otherwise nobody asked more of it."""
    if reached >= 0.99 * promised:
        verdict = "kept"
    else:
        verdict = "NOT kept" if stopped else "unknown, the link carried all that iperf3 could send here"
    print(f"links: most that was carried {reached:,.0f} {unit}; promised {promised:,.0f}: {verdict}")


def frames_out(network: Network) -> int:
    return network.carrier.done("router1-router2")[0].frames_out


def drops(network: Network) -> int:
    """Frames that the kernel could not hand to the carrier, or the carrier not to the kernel."""
    done = network.carrier.done("router1-router2")[0]
    with Interfaces([network.layout.host("router1")]) as interfaces:
        before = next(row["tx_dropped"] for row in interfaces.read(0) if row["interface"] == "site2")
    return before + done.write_failed + done.queue_drops


def measure(network: Network, frames_per_s: int, datagram_bytes: int) -> Step:
    """One step; what iperf3 could not send was not asked for."""
    cable = next(each for each in network.layout.cables if each.name == "router1-router2")
    source, target = (network.layout.host(name).namespace for name in ("router1", "router2"))
    address = cable.second.address
    server = subprocess.Popen(
        ["ip", "netns", "exec", target, "iperf3", "-s", "-1", "-B", address],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(0.5)
    carrier = psutil.Process(network.carrier.pid)
    ping = subprocess.Popen(
        ["ip", "netns", "exec", source, "ping", "-n", "-i", "0.02", "-c", str(int(SECONDS * 40)), address],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    before, began, passed, dropped = sum(carrier.cpu_times()[:2]), time.monotonic(), frames_out(network), drops(network)
    subprocess.run(
        ["ip", "netns", "exec", source, "iperf3", "-c", address, "-u", "-l", str(datagram_bytes), "-t", str(SECONDS),
         "-b", str(frames_per_s * datagram_bytes * 8)],
        capture_output=True, check=False,
    )  # fmt: skip
    cpu_percent = 100 * (sum(carrier.cpu_times()[:2]) - before) / (time.monotonic() - began)
    passed, dropped = frames_out(network) - passed, drops(network) - dropped
    ping.terminate()
    rtts_ms = [float(each) for each in re.findall(r"time=([\d.]+) ms", ping.communicate()[0])]
    server.wait(timeout=30)
    return Step(
        frames_per_s=passed / SECONDS,
        bits_per_s=passed / SECONDS * (datagram_bytes + HEADERS_BYTES) * 8,
        lost_percent=100 * dropped / max(1, passed + dropped),
        rtt_ms=statistics.median(rtts_ms) if rtts_ms else float("inf"),
        cpu_percent=cpu_percent,
    )
