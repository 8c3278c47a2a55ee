"""Which cores belong to whom: broker and workers apart where the machine has enough of them."""

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

ENOUGH = 4
_MANY = 8
BROKER = "broker"


def divide_cores(
    cores: Sequence[int], nodes: Sequence[str], *, broker_cores: Sequence[int] | None = None
) -> dict[str, list[int]] | None:
    """Cores of each node, disjoint between broker and workers; None where there are too few.

    A worker gets one core, or two where there are many (its writing thread has work too) and all can have them; the
    broker gets the rest, and at least half. Where the study names the broker's cores, it gets these, and each worker
    one of the others; if those are fewer, workers meet there, but none meets the broker.
    """
    workers = [node for node in nodes if not node.startswith(BROKER)]
    if broker_cores is not None:
        others = [core for core in sorted(cores) if core not in broker_cores]
        if not others:
            return None
        taken = {node: [core] for node, core in zip(workers, cycle(others), strict=False)}
        return {node: list(broker_cores) for node in nodes if node.startswith(BROKER)} | taken
    half = len(cores) // 2
    if len(cores) < ENOUGH or len(workers) > half:
        return None
    each = 2 if len(cores) >= _MANY and 2 * len(workers) <= half else 1
    ordered = sorted(cores)
    rest = ordered[: len(ordered) - each * len(workers)]
    taken = {
        node: ordered[len(rest) + each * place : len(rest) + each * (place + 1)] for place, node in enumerate(workers)
    }
    return {node: rest for node in nodes if node.startswith(BROKER)} | taken


@dataclass(frozen=True, slots=True)
class Division:
    """Who has which cores."""

    cores: dict[str, list[int]] | None  # by node; None: none has its own
    is_shared: bool  # broker and load are both here, and may get in each other's way

    @property
    def of_broker(self) -> list[int]:
        """None where it has none of its own."""
        return next((cores for node, cores in (self.cores or {}).items() if node.startswith(BROKER)), [])


def pin(
    pids: Mapping[str, Sequence[int]], *, broker_cores: Sequence[int] | None = None, is_near: bool = False
) -> Division:
    """Pins the processes of each node that is here and ours, with all their threads.

    `is_near`: the broker is on this machine, whoever runs it. Somebody's is not ours to keep off the cores of workers.
    """
    divided = divide_cores(sorted(os.sched_getaffinity(0)), list(pids), broker_cores=broker_cores)
    for node, cores in (divided or {}).items():
        hold(pids[node], cores)
    is_broker = {node.startswith(BROKER) for node, found in pids.items() if found}
    may_meet = divided is None if True in is_broker else is_near
    return Division(divided, is_shared=False in is_broker and may_meet)


def hold(pids: Iterable[int], cores: Collection[int]) -> None:
    """Keeps processes to these cores with all their threads, and with those that they begin later."""
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile, and needs no core
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):  # a thread that ended
                    os.sched_setaffinity(int(thread.name), cores)
