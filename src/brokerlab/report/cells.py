"""Cells as the report shows them: levels, valid runs and estimates together, in groups that may be compared.

A group holds the cells that differ in nothing but their broker: one QoS, one rate, one payload.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from brokerlab.report.metrics import METRICS, Estimate, best_first
from brokerlab.report.numbers import NOT_KNOWN, known
from brokerlab.report.results import Results, Row
from brokerlab.study.factors import FACTORS

Levels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CellResult:
    id: str
    broker: str
    qos: int | None
    levels: Levels  # of the factors that vary, broker left out
    runs: tuple[Row, ...]  # rows of table runs
    estimates: dict[str, Estimate] = field(default_factory=dict)  # by metric
    version: str = NOT_KNOWN  # of the broker; several where it changed between the runs
    preset: str = NOT_KNOWN

    @property
    def valid_runs(self) -> int:
        return sum(row["verdict"] == "valid" for row in self.runs)


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that differ in their broker only."""

    levels: Levels
    cells: tuple[CellResult, ...]
    compared: tuple[Row, ...] = ()  # rows of table comparisons: two of these cells each

    @property
    def label(self) -> str:
        return ", ".join(level_text(name, value) for name, value in self.levels)

    def best_and_ties(self, metric: str) -> tuple[CellResult, list[CellResult]] | None:
        """The best cell, and those that the runs do not tell apart from it; None without an estimate."""
        measured = {id(cell.estimates[metric]): cell for cell in self.cells if metric in cell.estimates}
        if not measured:
            return None
        ranked = best_first([cell.estimates[metric] for cell in measured.values()])
        best, *others = ranked
        winner = measured[id(best)]
        behind = [measured[id(other)] for other in others]
        return winner, [cell for cell in behind if not self._is_apart(metric, winner, cell)]

    def _is_apart(self, metric: str, one: CellResult, other: CellResult) -> bool:
        """As table comparisons says; by the intervals in results of before there was one."""
        row = self.comparison(metric, one.broker, other.broker)
        if row is not None:
            return row["answer"] in ("better", "worse")
        return not one.estimates[metric].overlaps(other.estimates[metric])

    def comparison(self, metric: str, one: str, other: str) -> Row | None:
        """What the table says of two brokers of the group, whichever it names first."""
        names = {one, other}
        own = (row for row in self.compared if row["metric"] == metric)
        return next((row for row in own if {row["level_a"], row["level_b"]} == names), None)

    def floor(self, metric: str) -> Row | None:
        """The A/A pair that lies furthest apart: the noise floor of the ranking; None without such a pair."""
        same = [row for row in self.compared if row["metric"] == metric and row["same"]]
        return max(same, key=lambda row: abs(row["difference"]), default=None)


def is_within_resolution(row: Row) -> bool:
    """Whether the difference of a row of table comparisons is one that times of arrival cannot show."""
    resolution = known(row.get("resolution"))  # no column in tables of before pipeline version 9
    return bool(resolution) and abs(row["difference"]) <= (resolution or 0.0)


def level_text(name: str, value: str) -> str:
    return f"QoS {value}" if name == "qos" else f"{name} {level_value(name, value)}"


def level_value(name: str, value: str) -> str:
    """The level as a study file writes it: 64 B, 200/s. Tables hold it as bare text."""
    number = _as_number(value)
    if number is None or name not in FACTORS:
        return value
    return str(FACTORS[name].written(number))


def varying_factors(results: Results) -> list[str]:
    """Factors with more than one level, broker left out, in the order of the study."""
    values: dict[str, set[str]] = {}
    for row in results.runs:
        for name, value in (row["levels"] or {}).items():
            values.setdefault(name, set()).add(value)
    return [name for name, levels in values.items() if name != "broker" and len(levels) > 1]


def groups(results: Results) -> list[Group]:
    """All cells that have a run, in groups; within a group the best by the study's metric comes first."""
    by_levels: dict[Levels, list[CellResult]] = {}
    for cell in _cells(results):
        by_levels.setdefault(cell.levels, []).append(cell)
    metric = results.study.rank_by
    ordered = sorted(by_levels.items(), key=lambda item: [_level_order(value) for _, value in item[0]])
    return [Group(levels, tuple(_ranked(cells, metric)), _compared(results, levels)) for levels, cells in ordered]


def _compared(results: Results, levels: Levels) -> tuple[Row, ...]:
    """Comparisons of brokers under these levels, or under those of them that vary among valid runs."""
    here = dict(levels)
    return tuple(
        row
        for row in results.comparisons
        if row["factor"] == "broker" and row["method"] == "welch" and (row["levels"] or {}).items() <= here.items()
    )


def _ranked(cells: list[CellResult], metric: str) -> list[CellResult]:
    def place(cell: CellResult) -> tuple[bool, float, str]:
        estimate = cell.estimates.get(metric)
        if estimate is None:
            return True, 0.0, cell.broker
        return False, -estimate.mean if estimate.metric.larger_is_better else estimate.mean, cell.broker

    return sorted(cells, key=place)


def _cells(results: Results) -> list[CellResult]:
    factors = varying_factors(results)
    runs: dict[str, list[Row]] = {}
    for row in results.runs:
        runs.setdefault(row["cell"], []).append(row)
    estimates = _estimates(results)
    return [
        CellResult(
            id=cell,
            broker=rows[0]["broker"] or NOT_KNOWN,
            qos=rows[0]["qos"],
            levels=tuple((name, (rows[0]["levels"] or {}).get(name, "")) for name in factors),
            runs=tuple(rows),
            estimates=estimates.get(cell, {}),
            version=_distinct(row.get("version") for row in rows),
            preset=_distinct(_preset(results, row["run_id"]) for row in rows),
        )
        for cell, rows in runs.items()
    ]


def _distinct(texts: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(text for text in texts if text)) or NOT_KNOWN


def _preset(results: Results, run_id: str) -> str | None:
    preset = results.manifests.get(run_id, {}).get("broker", {}).get("preset")
    return None if preset is None else str(preset)


def _estimates(results: Results) -> dict[str, dict[str, Estimate]]:
    found: dict[str, dict[str, Estimate]] = {}
    for row in results.cells:
        mean = known(row["mean"])
        metric = METRICS.get(row["metric"])
        if metric is None or mean is None or not row["n"]:
            continue
        bounds = known(row["low"]), known(row["high"])
        # Tables of before pipeline version 9 do not tell the resolution.
        estimate = Estimate(metric, row["unit"] or "", row["n"], mean, *bounds, known(row.get("resolution")))
        found.setdefault(row["cell"], {})[metric.name] = estimate
    return found


def _level_order(value: str) -> tuple[int, float, str]:
    """Numbers by their size and before words."""
    number = _as_number(value)
    return (1, 0.0, value) if number is None else (0, number, "")


def _as_number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
