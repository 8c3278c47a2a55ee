"""Samples of what processes used, as raw files; shares of CPU become CPU time from one sample to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from brokerlab.imports.base import Reading
from brokerlab.record.schemas import COUNTERS, RESOURCES

_MESSAGES = ("published", "delivered", "expected", "sent", "intended", "acknowledged", "payload", "dup", "identity")


@dataclass(slots=True)
class Samples:
    """Rows of resources and counters of one run."""

    resources: list[dict[str, Any]] = field(default_factory=list)
    counters: list[dict[str, Any]] = field(default_factory=list)
    _last: dict[str, tuple[int, float]] = field(default_factory=dict)  # by node: time, and CPU time until then
    _numbers: dict[str, int] = field(default_factory=dict)

    def use(self, node: str, at_ns: int, *, cpu_percent: float | None, **columns: int | None) -> None:
        """What a node used: a share of one core since its sample before, and what else is known of it."""
        cpu_ns = None
        if cpu_percent is not None:
            before_ns, used_ns = self._last.get(node, (at_ns, 0.0))
            used_ns += cpu_percent / 100 * (at_ns - before_ns)
            self._last[node] = (at_ns, used_ns)
            cpu_ns = round(used_ns)
        number = self._numbers.setdefault(node, len(self._numbers))
        self.resources.append({"node": node, "process": number, "at_ns": at_ns, "cpu_ns": cpu_ns, **columns})

    def tell(self, node: str, name: str, at_ns: int, value: float) -> None:
        self.counters.append({"node": node, "name": name, "at_ns": at_ns, "value": value})

    def times(self) -> list[int]:
        return [row["at_ns"] for rows in (self.resources, self.counters) for row in rows]

    def reading(
        self,
        *,
        told: Mapping[str, tuple[str, ...]] | None = None,
        notes: Sequence[str] = (),
        workload: Mapping[str, Any] | None = None,
        has_wall_clock: bool = True,
    ) -> Reading:
        """A run in which single messages are not known."""
        tables = {"resources": (self.resources, RESOURCES), "counters": (self.counters, COUNTERS)}
        return Reading(
            raw={kind: pa.Table.from_pylist(rows, schema=schema) for kind, (rows, schema) in tables.items() if rows},
            unknown=frozenset(_MESSAGES) - set(told or {}),
            start_ns=min(self.times()),
            end_ns=max(self.times()),
            told=told or {},
            notes=tuple(notes),
            workload=workload or {},
            has_wall_clock=has_wall_clock,
        )
