"""Which cores belong to whom: broker and workers apart where the machine has enough of them."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

ENOUGH = 4
_MANY = 8
BROKER = "broker"


def divide_cores(
    cores: Sequence[int], nodes: Sequence[str], *, broker_cores: Sequence[int] | None = None
) -> dict[str, list[int]] | None:
    """Cores of each node, disjoint between broker and workers; None where there are too few.

    A worker gets one core, or two where there are many (its writing thread has work too); the broker gets the rest,
    and at least half. Where the study names the broker's cores, it gets these, and each worker one of the others.
    """
    workers = [node for node in nodes if not node.startswith(BROKER)]
    if broker_cores is not None:
        others = [core for core in sorted(cores) if core not in broker_cores]
        if len(others) < len(workers):
            return None
        taken = {node: [core] for node, core in zip(workers, others, strict=False)}
        return {node: list(broker_cores) for node in nodes if node.startswith(BROKER)} | taken
    each = 2 if len(cores) >= _MANY else 1
    if len(cores) < ENOUGH or len(workers) * each > len(cores) // 2:
        return None
    ordered = sorted(cores)
    rest = ordered[: len(ordered) - each * len(workers)]
    taken = {
        node: ordered[len(rest) + each * place : len(rest) + each * (place + 1)] for place, node in enumerate(workers)
    }
    return {node: rest for node in nodes if node.startswith(BROKER)} | taken


def pin(pids: Mapping[str, Sequence[int]], *, broker_cores: Sequence[int] | None = None) -> dict[str, list[int]] | None:
    """Pins the processes of each node with all their threads; who got which cores, None if all share all."""
    divided = divide_cores(sorted(os.sched_getaffinity(0)), list(pids), broker_cores=broker_cores)
    for node, cores in (divided or {}).items():
        for pid in pids[node]:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):  # a thread that ended meanwhile needs no core
                    os.sched_setaffinity(int(thread.name), cores)
    return divided
