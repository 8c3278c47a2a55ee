"""Delay by cell of an ensemble in numbers (001's Figure 4), with how much it differs between placements (B-23)."""

from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, known, no_finer, significant, time_text
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_DELAY = "latency.mean"


def placements(results: Results, compared: list[Group]) -> Table:
    """One row per cell with a valid run; where clients are placed is drawn anew for every run, where it is drawn."""
    columns = (
        text("Broker"), *factor_columns(varying_factors(results)), number("Mean delay", "ms"),
        number("Interval", f"{results.confidence_percent:g} %, ms"), number("Deviation", "over runs, ms"),
        number("Valid runs"),
    )  # fmt: skip
    if not any("crossing" in manifest for manifest in results.manifests.values()):
        return Table(columns, ())
    found = {row["cell"]: row for row in results.cells if row["metric"] == _DELAY and known(row["mean"]) is not None}
    blocks = (tuple(_row(cell, found[cell.id]) for cell in group.cells if cell.id in found) for group in compared)
    return Table(columns, tuple(block for block in blocks if block))


def _row(cell: CellResult, estimate: Row) -> tuple[Entry, ...]:
    low, high = known(estimate["low"]), known(estimate["high"])
    resolution = known(estimate.get("resolution"))
    least = (
        None if low is None else max(low - (resolution or 0.0), 0.0)
    )  # an arrival may have been earlier than it seems
    ends = [no_finer(end, resolution) for end in (least, high)]
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        Entry(time_text(estimate["mean"], resolution)),
        Entry(NOT_KNOWN if low is None else " to ".join(ends)),
        Entry(significant(estimate["sd"])),
        Entry(str(estimate["n"])),
    )
