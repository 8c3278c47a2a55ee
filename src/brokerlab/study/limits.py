"""The limits of a node: the mapping `system.limits`, and the factors that vary one of them.

A limit is per node of a broker. What a machine can hold a process to is another question (brokers/limits.py).
"""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import quantity
from brokerlab.study.document import Document
from brokerlab.study.factor import FactorKind, read_whole
from brokerlab.study.limit_values import Limits
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError
from brokerlab.study.values import Level

_LEAST_CPUS = 0.01  # the kernel gives no less than 1 ms of every 100 ms
_MOST_CORES = 4096
_LEAST_MEMORY_BYTES = 1 << 20
_MOST_BYTES = 1 << 50


def read_cpus(written: object) -> float:
    """Cores' worth of time: 0.5 is half of one."""
    is_number = isinstance(written, int | float) and not isinstance(written, bool)
    try:
        cpus = float(written) if is_number or isinstance(written, str) else 0.0  # type: ignore[arg-type]
    except ValueError:
        cpus = 0.0
    if not _LEAST_CPUS <= cpus <= _MOST_CORES:
        raise RuleError(f"must be a number of cores from {_LEAST_CPUS} to {_MOST_CORES}; 0.5 is half of one's time")
    return cpus


def read_cores(written: object) -> tuple[int, ...]:
    """Cores by their numbers, as `lscpu` and taskset count them."""
    if not isinstance(written, list) or not written:
        raise RuleError("must be a list of core numbers, such as [0, 1]")
    cores = tuple(read_whole(core, least=0, most=_MOST_CORES - 1) for core in written)
    if len(set(cores)) < len(cores):
        raise RuleError("names a core twice")
    return tuple(sorted(cores))


def read_memory_bytes(written: object) -> int:
    memory_bytes = quantity.read_bytes(written)
    if not _LEAST_MEMORY_BYTES <= memory_bytes <= _MOST_BYTES:
        raise RuleError("must be from 1 MiB to 1024 TiB")
    return memory_bytes


def read_swap_bytes(written: object) -> int:
    swap_bytes = quantity.read_bytes(written)
    if not 0 <= swap_bytes <= _MOST_BYTES:
        raise RuleError("must be from 0 B, which is none, to 1024 TiB")
    return swap_bytes


Cpus = Annotated[float, PlainValidator(read_cpus)]
MemoryBytes = Annotated[int, PlainValidator(read_memory_bytes)]


class LimitsPart(Part):
    cpus: Cpus | None = None
    cores: Annotated[tuple[int, ...], PlainValidator(read_cores)] | None = None
    memory: MemoryBytes | None = None
    swap: Annotated[int, PlainValidator(read_swap_bytes)] | None = None

    def value(self) -> Limits:
        return Limits(cpus=self.cpus, cores=self.cores, memory_bytes=self.memory, swap_bytes=self.swap)


def written(limits: Limits) -> dict[str, Any]:
    """The mapping of a study file; empty where nothing is limited."""
    every = {
        "cpus": None if limits.cpus is None else cpus_written(limits.cpus),
        "cores": None if limits.cores is None else list(limits.cores),
        "memory": None if limits.memory_bytes is None else quantity.bytes_text(limits.memory_bytes),
        "swap": None if limits.swap_bytes is None else quantity.bytes_text(limits.swap_bytes),
    }
    return {key: value for key, value in every.items() if value is not None}


def cpus_written(level: Level) -> int | float:
    """As a number, without a needless ".0"."""
    cpus = float(level)
    return int(cpus) if cpus.is_integer() else cpus


def check_limits(document: Document) -> None:
    """Adds the problem of a swap limit without one of memory: the kernel of cgroup version 1 counts both together."""
    here = ("system", "limits", "swap")
    has_memory = "memory" in document.mapping("system", "limits") or "memory" in document.mapping(
        "scenario", "variables"
    )
    if document.get(*here) is not None and not has_memory:
        document.add(here, "swap is limited beside memory: give system.limits.memory too")


def _with_cpus(limits: Limits, level: Level) -> Limits:
    return replace(limits, cpus=float(level))


def _with_memory(limits: Limits, level: Level) -> Limits:
    return replace(limits, memory_bytes=int(level))


KINDS = (
    FactorKind(
        "cpus", (), read_cpus, lambda level: str(cpus_written(level)), lambda workload, _level: workload, _with_cpus
    ),
    FactorKind(
        "memory",
        (),
        read_memory_bytes,
        lambda level: quantity.bytes_text(int(level)),
        lambda workload, _level: workload,
        _with_memory,
    ),
)
