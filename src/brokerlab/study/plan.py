"""The plan of a study: its cells, and its runs in the order in which they will be made.

A plan depends on the study and its seed only: the same study gives the same plan, byte for byte.
Repetitions are interleaved (F-22): every repetition runs all cells once, in an order of its own.
"""

from dataclasses import dataclass

from brokerlab.study.values import BrokerChoice, Level, Workload


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of levels, and what it means for broker and workload."""

    id: str  # a path component, such as "broker-amqtt.qos-1"
    levels: tuple[tuple[str, Level], ...]
    broker: BrokerChoice
    workload: Workload


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One repetition of one cell."""

    cell: Cell
    repetition: int  # from 1
    order: int  # place in the plan, from 1
    seed: int

    @property
    def id(self) -> str:
        return f"{self.cell.id}/{self.repetition}"


@dataclass(frozen=True, slots=True)
class Plan:
    study: str
    seed: int
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]
    left_out: tuple[tuple[str, str], ...]  # (broker, reason): optional brokers that are not here
    expected_s: float  # the timed phases and the usual starts and stops
