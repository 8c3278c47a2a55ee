"""Networks of two sites, and the tools of others that look at them: ping and iperf3."""

import json
import re
import shutil
import signal
import statistics
import subprocess
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from brokerlab.network.namespaces import namespace
from brokerlab.network.naming import PREFIX, new_number
from brokerlab.network.network import Network
from brokerlab.network.privileges import reason_unable
from brokerlab.network.wires import has_netem
from brokerlab.study.topology import Direction, Link, Topology

_TRIES = 6  # iperf3 greets by a single datagram, which a lossy link may drop
needs_networks = pytest.mark.skipif(reason_unable() is not None, reason=str(reason_unable()))


@cache
def kernel_has_netem() -> bool:
    with namespace(f"{PREFIX}{new_number()}-look") as talk:
        return has_netem(talk)


def both(**values) -> Link:
    return Link(Direction(**values), Direction(**values))


def two_sites(link: Link, **others) -> Network:
    return Network(Topology("chain", 2, between=link), seed=5, **others)


def routers(network: Network):
    """The namespace of the first router, that of the second, and the second's address on the link between them."""
    cable = next(each for each in network.layout.cables if each.name == "router1-router2")
    return *(network.layout.host(name).namespace for name in ("router1", "router2")), cable.second.address


def run_in(place: str, *words: str, timeout_s: float = 60) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", place, *words], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    return done.stdout


def ping_ms(place: str, address: str, *, count: int = 60, interval_s: float = 0.01) -> list[float]:
    text = run_in(place, "ping", "-n", "-c", str(count), "-i", str(interval_s), "-W", "3", address)
    return [float(each) for each in re.findall(r"time=([\d.]+) ms", text)]


def median_ping_ms(place: str, address: str, **options) -> float:
    return statistics.median(ping_ms(place, address, **options))


@contextmanager
def iperf_server(place: str, address: str):
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    command = ["ip", "netns", "exec", place, "iperf3", "--server", "--bind", address, "--one-off"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while ":5201" not in run_in(place, "ss", "-ltn"):
            assert time.monotonic() < deadline, "iperf3 does not listen"
            time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.communicate()


def iperf_udp(network: Network, *, bits_per_s: float, seconds: float, datagram_bytes: int) -> dict:
    """What iperf3's receiver saw."""
    source, target, address = routers(network)
    for _ in range(_TRIES):
        with iperf_server(target, address):
            text = run_in(
                source, "iperf3", "--client", address, "--udp", "--json", "--bitrate", str(int(bits_per_s)),
                "--time", str(seconds), "--length", str(datagram_bytes), timeout_s=seconds + 60,
            )  # fmt: skip
        seen = json.loads(text)["end"].get("sum_received")
        if seen:
            return seen
    pytest.fail(f"iperf3 never began: {text[-300:]}")


def hear_ctrl_c():
    """A shell's background job, as a test run may be, ignores SIGINT and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def left() -> set[str]:
    """Namespaces of brokerlab's that are there now, whoever made them."""
    folder = Path("/run/netns")
    return {path.name for path in folder.glob(f"{PREFIX}*")}
