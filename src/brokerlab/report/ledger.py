"""Loss and duplicates: the ledger of every run."""

from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, count, known, plural
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_COUNTS = (
    ("Published", "published"),
    ("Acked", "acknowledged"),
    ("Expected", "expected"),
    ("Delivered", "delivered"),
)
_FAULTS = (
    ("Never acked", "never_acknowledged"),
    ("Lost", "lost"),
    ("Acked but lost", "acknowledged_lost"),
    ("Duplicates", "duplicated"),
    ("Reordered", "reordered"),
    ("Late", "late"),
    ("Unexpected", "unexpected"),
)
# Columns of runs in which there are such: most loads cannot have them.
_RARE_FAULTS = (("Resized", "resized"), ("Overlapping", "overlapping"), ("Stale", "stale"))
_VERDICT_MARKS = {"kept": "good", "broken": "bad", "unknown": "warn"}


def ledger(results: Results, compared: list[Group]) -> Table:
    """One row per run and QoS granted; a block is a cell."""
    factors = varying_factors(results)
    faults = _FAULTS + tuple(each for each in _RARE_FAULTS if any(row.get(each[1]) for row in results.delivery))
    columns = (
        text("Broker"),
        *factor_columns(factors),
        number("Run"),
        text("Contract"),
        text("Verdict"),
        *(number(title) for title, _ in _COUNTS + faults),
    )
    by_cell: dict[str, list[Row]] = {}
    for row in results.delivery:
        by_cell.setdefault(row["cell"], []).append(row)
    cells = [cell for group in compared for cell in group.cells if cell.id in by_cell]
    return Table(columns, tuple(tuple(_row(cell, row, faults) for row in by_cell[cell.id]) for cell in cells))


def _row(cell: CellResult, row: Row, faults: tuple[tuple[str, str], ...]) -> tuple[Entry, ...]:
    run = next((run for run in cell.runs if run["run_id"] == row["run_id"]), None)
    is_valid = run is not None and run["verdict"] == "valid"
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        Entry(row["run_id"].rsplit("/", 1)[-1], "" if is_valid else "not valid"),
        _contract(row),
        Entry(row["verdict"], row.get("doubt") or "", _VERDICT_MARKS.get(row["verdict"], "")),
        *(Entry(count(row[column])) for _, column in _COUNTS),
        *(_fault(row, column) for _, column in faults),
    )


def _contract(row: Row) -> Entry:
    asked, granted = row["qos_asked"], row["qos_granted"]
    if granted is not None and asked is not None and granted < asked:
        return Entry(row["contract"], f"QoS {asked} asked, {granted} granted", "warn")
    return Entry(row["contract"] or NOT_KNOWN)


def _fault(row: Row, column: str) -> Entry:
    found = row.get(column)  # tables of pipeline version 2 have no late ones
    if not known(found):
        return Entry(count(found), mark="quiet")
    below = f"{count(row['duplicated_flagged'])} with DUP" if column == "duplicated" else ""
    return Entry(count(found), below, "warn")


def ledger_summary(results: Results) -> str:
    """What the ledger shows, in a sentence, before its many rows."""
    rows = results.delivery
    if not rows:
        return "No run left a ledger."
    runs = {row["run_id"] for row in rows}
    touched = {row["run_id"] for row in rows if _has_fault(row)}
    broken = {row["run_id"] for row in rows if row["verdict"] == "broken"}
    unknown = {row["run_id"] for row in rows if row["verdict"] == "unknown"} - broken
    start = (
        f"In {len(touched)} of {plural(len(runs), 'run')} something was lost, duplicated, reordered or unexpected."
        if touched
        else f"In {plural(len(runs), 'run')} nothing was lost, duplicated, reordered or unexpected."
    )
    return " ".join([start, *_verdict_sentences(len(broken), len(unknown))])


def _verdict_sentences(broken: int, unknown: int) -> list[str]:
    sentences = []
    if broken:
        sentences.append(f"The contract of the QoS was broken in {plural(broken, 'run')}.")
    if unknown:
        sentences.append(f"In {plural(unknown, 'run')} it cannot be judged.")
    return sentences or ["The contract of the QoS was kept in every run."]


def _has_fault(row: Row) -> bool:
    return any(known(row[column]) for column in ("lost", "duplicated", "reordered", "unexpected"))
