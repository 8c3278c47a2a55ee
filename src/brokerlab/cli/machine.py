"""Looks at cores, memory, limits, clock and what else runs here; every look is one function."""

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from brokerlab.cli.checkup import Check, limited, ok
from brokerlab.lab.reach import FILES_BESIDE_CONNECTIONS, UNLIMITED, read_reach

ENOUGH_CORES = 4  # broker, publishers, subscribers, and one for everything else
ENOUGH_MEMORY_BYTES = 4 << 30
ENOUGH_FILES = 60_000
BUSY_SHARE = 0.25  # of a core's time, by load average
STEAL_PERCENT = 1.0
STEAL_INTERVAL_S = 0.5
SLOW_CLOCK_READ_NS = 1_000
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def machine_checks() -> list[Check]:
    looks: tuple[Callable[[], Check], ...] = (
        _cores,
        _memory,
        _swap,
        _load,
        _steal,
        _clock,
        _open_files,
        _ports,
        _connections,
    )
    return [look() for look in looks]


def usable_cores() -> int:
    """Cores that this process may use, which a container or taskset can make fewer than the machine has."""
    return len(os.sched_getaffinity(0))


def _cores() -> Check:
    cores, quota = usable_cores(), _cpu_quota()
    found = f"{cores} cores" + (f", held to the time of {quota:g} by a cgroup" if quota else "")
    if min(cores, quota or cores) >= ENOUGH_CORES:
        return ok("cores", found)
    return limited(
        "cores",
        found,
        follows="broker and load share cores: rates are those of the pair, and a run that the load limited is invalid",
        lift=f"a machine with {ENOUGH_CORES} cores or more",
    )


def _cpu_quota() -> float | None:
    """Cores' worth of time that the cgroup allows; None without a limit."""
    if not _CPU_QUOTA.exists():
        return None
    quota, period = _CPU_QUOTA.read_text(encoding="ascii").split()
    return None if quota == "max" else int(quota) / int(period)


def _memory() -> Check:
    memory = psutil.virtual_memory()
    found = f"{_gib(memory.available)} of {_gib(memory.total)} GiB available"
    if memory.available >= ENOUGH_MEMORY_BYTES:
        return ok("memory", found)
    return limited("memory", found, follows="Spark and broker may crowd each other", lift="stop other programs")


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f}"


def _swap() -> Check:
    used_bytes = psutil.swap_memory().used
    if used_bytes == 0:
        return ok("swap", "not in use")
    return limited(
        "swap", f"{_gib(used_bytes)} GiB in use", follows="latencies may be those of the disk", lift="swapoff -a"
    )


def _load() -> Check:
    load = os.getloadavg()[0]
    found = f"load average {load:.2f} on {usable_cores()} cores"
    if load <= BUSY_SHARE * usable_cores():
        return ok("other work", found)
    return limited(
        "other work",
        found,
        follows="something else uses this machine, and is in every number",
        lift="stop it, or wait a minute after it ended",
    )


def _steal() -> Check:
    steal_percent = psutil.cpu_times_percent(interval=STEAL_INTERVAL_S).steal
    found = f"{steal_percent:.1f} % over {STEAL_INTERVAL_S} s"
    if steal_percent < STEAL_PERCENT:
        return ok("CPU steal", found)
    return limited(
        "CPU steal",
        found,
        follows="other guests of the host take cores away: tails of latency are theirs too",
        lift="a dedicated machine",
    )


def _clock() -> Check:
    source = _CLOCK_SOURCE.read_text(encoding="ascii").strip() if _CLOCK_SOURCE.exists() else "unknown source"
    read_ns = _clock_read_ns()
    found = f"{source}, {read_ns} ns a reading"
    if read_ns <= SLOW_CLOCK_READ_NS:
        return ok("clock", found)
    return limited(
        "clock",
        found,
        follows="every time stamp costs a system call",
        lift=f"where the hardware has it: echo tsc > {_CLOCK_SOURCE}",
    )


def _clock_read_ns(readings: int = 10_000) -> int:
    """Cost of one reading of the clock that all time stamps come from."""
    begin_ns = time.monotonic_ns()
    for _ in range(readings):
        time.monotonic_ns()
    return (time.monotonic_ns() - begin_ns) // readings


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    reach = "any number of" if unlimited else f"about {max(0, hard - FILES_BESIDE_CONNECTIONS):,}"
    found = f"{soft:,}, at most {'unlimited' if unlimited else f'{hard:,}'}: {reach} connections a process"
    if unlimited or hard >= ENOUGH_FILES:
        return ok("open files", found)
    return limited(
        "open files",
        found,
        follows="more connections need more load processes, and the broker has the same limit",
        lift="a higher hard limit of nofile in /etc/security/limits.conf (or LimitNOFILE= of the service)",
    )


def _ports() -> Check:
    low, high = (int(part) for part in _PORT_RANGE.read_text(encoding="ascii").split())
    ports = high - low + 1
    found = f"{low} to {high}: {ports:,} connections from one address to one port"
    if ports >= ENOUGH_FILES:
        return ok("ports", found)
    return limited(
        "ports",
        found,
        follows="more connections to one broker need more source addresses (127.0.0.2, ...)",
        lift='sysctl -w net.ipv4.ip_local_port_range="1024 65535"',
    )


def _connections() -> Check:
    """What the limits together allow."""
    reach = read_reach()
    one, most, addresses = reach.most(), reach.most(1 << 20), reach.addresses_needed()
    files = "any number of" if reach.open_files >= UNLIMITED - FILES_BESIDE_CONNECTIONS else f"{reach.open_files:,}"
    limits = f"open files allow {files}, an address {reach.ports:,}, memory about {reach.memory:,}"
    found = (
        f"{one:,} from one source address" + (f", {most:,} from {addresses}" if addresses > 1 else "") + f": {limits}"
    )
    if most >= ENOUGH_FILES:
        return ok("connections", found)
    return limited(
        "connections",
        found,
        follows="a study with more clients is refused by `brokerlab plan`",
        lift="a higher hard limit of nofile; more source addresses: scenario.workload.clients.addresses",
    )
