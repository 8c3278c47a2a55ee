"""How many connections this machine can hold to one broker of its own, and what sets the limit.

open files: every connection is a file of the broker's process, and one of a worker's (getrlimit(2))
ports: of each source address, to one port of the broker (ip(7), ip_local_port_range)
memory: of two sockets, a client of ours and one of the broker's; a rough figure
"""

import contextlib
import resource
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from brokerlab.study.plan import Cell
from brokerlab.study.population import client_count
from brokerlab.study.quantity import bytes_text
from brokerlab.study.values import Workload

FILES_BESIDE_CONNECTIONS = 200  # libraries, raw files, pipes to the workers
BYTES_PER_CONNECTION = 32 << 10
UNLIMITED = 1 << 30
LEAST_NODE_BYTES = 8 << 20  # of one node of any broker; those in Java take ten times as much
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Reach:
    """Connections that each of the limits allows."""

    open_files: int
    ports: int  # of one source address
    memory: int

    def most(self, addresses: int = 1) -> int:
        return min(self.open_files, self.ports * addresses, self.memory)

    def addresses_needed(self) -> int:
        """With so many source addresses ports are no limit any more."""
        return -(-min(self.open_files, self.memory) // self.ports)


def read_reach() -> Reach:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    low, high = (int(part) for part in _PORT_RANGE.read_text(encoding="ascii").split())
    return Reach(
        open_files=max(0, files - FILES_BESIDE_CONNECTIONS),
        ports=high - low + 1,
        memory=psutil.virtual_memory().available // BYTES_PER_CONNECTION,
    )


def foreign_addresses(addresses: Iterable[str]) -> list[str]:
    """Those that no client on this machine can have, with the system's reason: asked of it, as a client will."""
    reasons = []
    for address in addresses:
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as sock:
            try:
                sock.bind((address, 0))
            except OSError as problem:
                reasons.append(f"{address} ({problem.strerror})")
    return reasons


def nodes_shortfall(cell: Cell, available_bytes: int) -> str:
    """Why the memory is too little for the nodes of a cell; empty if it is enough, as far as one can tell before."""
    each = cell.limits.memory_bytes or LEAST_NODE_BYTES
    nodes = cell.ensemble.nodes
    if nodes == 1 or nodes * each <= available_bytes:
        return ""
    most = max(1, available_bytes // each)
    why = "what each may have" if cell.limits.memory_bytes else "the least that one takes"
    return (
        f"{cell.id} has {nodes} nodes, and {bytes_text(each)} is {why}: "
        f"the {available_bytes / (1 << 30):.1f} GiB that are free are enough for {most}"
    )


def shortfalls(workload: Workload, reach: Reach) -> list[str]:
    """Which limits the clients of a workload would break, in numbers; empty if all of them fit."""
    needed, addresses = client_count(workload), max(1, len(workload.clients.addresses))
    reasons = []
    if needed > reach.open_files:
        reasons.append(f"the limit of open files allows {reach.open_files:,} (raise the hard limit of nofile)")
    if needed > reach.ports * addresses:
        enough = -(-needed // reach.ports)
        reasons.append(
            f"{addresses} source address{'es have' if addresses > 1 else ' has'} {reach.ports * addresses:,} ports "
            f"(set scenario.workload.clients.addresses to {enough})"
        )
    if needed > reach.memory:
        reasons.append(f"the memory that is free is enough for about {reach.memory:,}")
    return reasons
