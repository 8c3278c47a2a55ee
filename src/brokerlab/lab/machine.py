"""The machine and the versions that a run was made with, for its manifest."""

import importlib.metadata
import os
import platform
import socket
from pathlib import Path

import psutil

import brokerlab
from brokerlab.lab.energy import packages, reason_unmeasurable

_THAT_TOUCH_THE_NUMBERS = ("numba", "numpy", "pyarrow")


def machine_facts() -> dict[str, object]:
    """What the machine is, and how busy it was just before."""
    return {
        "host": platform.node(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "cpu_model": _cpu_model(),
        "kernel": platform.release(),
        "system": _system(),
        "congestion_control": congestion_control(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        "swap_used_bytes": psutil.swap_memory().used,
        "energy": reason_unmeasurable() or "RAPL: " + ", ".join(package.name for package in packages()),
    }


def versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in _THAT_TOUCH_THE_NUMBERS}
    return {"brokerlab": brokerlab.__version__, **found}


def congestion_control() -> str:
    """That of TCP, on loopback too: it decides how small packets travel together, and so what a message costs."""
    with socket.socket() as sock:
        name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def _cpu_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return None


def _system() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None
