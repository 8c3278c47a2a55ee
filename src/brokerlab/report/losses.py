"""What became of messages while subscribers paused, by driver and preset: who lost some, and who was told.

A loss is silent when the publisher got its acknowledgement.
"""

from collections.abc import Iterable

from brokerlab.report.cells import CellResult, Group
from brokerlab.report.numbers import NOT_KNOWN, count, listed
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_COUNTS = (
    ("Published", "published"),
    ("Acked", "acknowledged"),
    ("Delivered", "delivered"),
    ("Lost", "lost"),
    ("Acked but lost", "acknowledged_lost"),
)


def losses(results: Results, compared: list[Group]) -> Table:
    """One row per cell with a pause; a block is a driver. Empty where nobody paused."""
    columns = (text("Broker"), text("Preset"), number("QoS granted"), *(number(title) for title, _ in _COUNTS))
    by_driver: dict[str, list[CellResult]] = {}
    for cell in _paused(results, compared):
        by_driver.setdefault(str(cell.runs[0].get("driver") or cell.broker), []).append(cell)
    blocks = tuple(
        tuple(_row(cell, results) for cell in sorted(cells, key=lambda cell: (cell.preset != "stock", cell.preset)))
        for _, cells in sorted(by_driver.items())
    )
    return Table((*columns, text("Verdict of the runs")), blocks)


def losses_summary(results: Results, compared: list[Group]) -> str:
    """Who lost what it had acknowledged, preset by preset."""
    lossy: dict[str, list[str]] = {}
    clean: dict[str, list[str]] = {}
    slow = []
    for cell in _paused(results, compared):
        rows = _ledger(cell, results)
        if any(row["acknowledged"] is not None and row["acknowledged"] < row["published"] for row in rows):
            slow.append(cell.broker)
        elif rows:
            is_lossy = any(row["acknowledged_lost"] for row in rows)
            (lossy if is_lossy else clean).setdefault(cell.preset, []).append(cell.broker)
    sentences = []
    for preset in sorted({*lossy, *clean}, key=lambda preset: (preset != "stock", preset)):
        lost = f"lost by {listed(sorted(lossy[preset]))}" if preset in lossy else "lost by none"
        kept = f" and kept by {listed(sorted(clean[preset]))}" if preset in clean else ""
        sentences.append(f"With the preset {preset}, acknowledged messages were {lost}{kept}.")
    if slow:
        names = listed(sorted(slow))
        sentences.append(f"Not through when the run ended, so that lost and late cannot be told apart: {names}.")
    return " ".join(sentences)


def _paused(results: Results, compared: list[Group]) -> list[CellResult]:
    paused = {
        run_id
        for run_id, manifest in results.manifests.items()
        if ((manifest.get("workload") or {}).get("pause") or {}).get("for_s")
    }
    cells = [cell for group in compared for cell in group.cells]
    return [cell for cell in cells if any(run["run_id"] in paused for run in cell.runs)]


def _ledger(cell: CellResult, results: Results) -> list[Row]:
    return [row for row in results.delivery if row["cell"] == cell.id]


def _row(cell: CellResult, results: Results) -> tuple[Entry, ...]:
    rows = _ledger(cell, results)
    granted = _range(row["qos_granted"] for row in rows)
    return (
        Entry(cell.broker, cell.version),
        Entry(cell.preset),
        Entry(granted),
        *(_count(rows, column) for _, column in _COUNTS),
        _verdict(cell),
    )


def _verdict(cell: CellResult) -> Entry:
    verdicts = dict.fromkeys(str(run["verdict"]) for run in cell.runs)
    reasons = [str(reason) for run in cell.runs for reason in run["reasons"] or ()]
    is_valid = list(verdicts) == ["valid"]
    return Entry(", ".join(verdicts), reasons[0] if reasons else "", "" if is_valid else "warn")


def _count(rows: list[Row], column: str) -> Entry:
    found = _range(row[column] for row in rows)
    is_lost = "lost" in column and found not in ("0", NOT_KNOWN)
    return Entry(found, mark="bad" if is_lost else "")


def _range(values: Iterable[int | None]) -> str:
    """One number where all runs agree, else the least and the most."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return NOT_KNOWN
    return count(known[0]) if known[0] == known[-1] else f"{count(known[0])} to {count(known[-1])}"
