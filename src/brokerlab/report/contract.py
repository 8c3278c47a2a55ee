"""The delivery contract of a cell, picked from table `delivery`: the worst of its valid runs."""

from dataclasses import dataclass

from brokerlab.report.cells import CellResult
from brokerlab.report.numbers import listed
from brokerlab.report.results import Results, Row

_WORST_FIRST = ("broken", "unknown", "kept")


@dataclass(frozen=True, slots=True)
class Contract:
    """How a cell's valid runs kept what their QoS promises."""

    verdict: str  # kept | broken | unknown, or "" without a valid run
    runs: int  # valid runs with that verdict
    of_runs: int
    asked_qos: int | None
    granted_qos: int | None  # the lowest that a subscriber was granted
    name: str  # "at least once"
    doubts: tuple[str, ...] = ()  # why it is unknown

    @property
    def was_granted_less(self) -> bool:
        return self.asked_qos is not None and self.granted_qos is not None and self.granted_qos < self.asked_qos

    @property
    def remark(self) -> str:
        """What stands below the verdict: how often, and which contract it was."""
        granted = f", QoS {self.granted_qos} granted" if self.was_granted_less else ""
        how_often = f"{self.runs} of {self.of_runs}: " if self.verdict in ("broken", "unknown") else ""
        doubts = f" ({listed(list(self.doubts))})" if self.doubts else ""
        return f"{how_often}{self.name}{granted}{doubts}"


def contract_of(cell: CellResult, results: Results) -> Contract:
    valid = results.valid_runs
    rows = [row for row in results.delivery if row["cell"] == cell.id and row["run_id"] in valid]
    verdicts = {row["run_id"]: _worst(rows, row["run_id"]) for row in rows}
    worst = next((verdict for verdict in _WORST_FIRST if verdict in verdicts.values()), "")
    granted = [row["qos_granted"] for row in rows if row["qos_granted"] is not None]
    lowest = min(rows, key=lambda row: row["qos_granted"] or 0, default=None)
    return Contract(
        verdict=worst,
        runs=sum(verdict == worst for verdict in verdicts.values()),
        of_runs=len(verdicts),
        asked_qos=rows[0]["qos_asked"] if rows else None,
        granted_qos=min(granted, default=None),
        name=(lowest["contract"] or "") if lowest else "",
        doubts=tuple(sorted({row["doubt"] for row in rows if row.get("doubt")})) if worst == "unknown" else (),
    )


def _worst(rows: list[Row], run_id: str) -> str:
    """A run has one row per QoS granted; the worst of them is the run's."""
    found = {row["verdict"] for row in rows if row["run_id"] == run_id}
    return next((verdict for verdict in _WORST_FIRST if verdict in found), "unknown")
