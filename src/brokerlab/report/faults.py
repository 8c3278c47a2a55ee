"""What faults did: one row per run and fault."""

from brokerlab.report.numbers import NOT_KNOWN, brief, significant
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text


def faults(results: Results) -> Table:
    """Every run that had some, valid or not: what was lost is counted whatever the generator's lag was."""
    columns = (
        text("Run"),
        text("Fault"),
        number("At", "s"),
        number("Lasted", "s"),
        number("Noticed after", "ms"),
        number("First message", "after ms"),
        number("All flows", "after ms"),
        number("Steady rate", "after ms"),
        number("New tree", "after ms"),
        number("Expected"),
        number("Lost"),
        number("of them", "local"),
        number("of them", "crossing"),
        number("of them", "acknowledged"),
        number("Duplicated"),
        number("Reordered"),
    )
    block = tuple(_entry(row, results) for row in results.faults if row["fault"])
    return Table(columns, (block,) if block else ())


def summary(results: Results) -> str:
    """How many messages the faults cost, and what was lost before the first."""
    rows = results.faults
    lost = sum(row["lost"] or 0 for row in rows if row["fault"])
    before = sum(row["lost"] or 0 for row in rows if not row["fault"])
    runs = len({row["run_id"] for row in rows})
    more = f" {brief(before)} more were lost before the first fault." if before else ""
    return f"In {runs} {'run' if runs == 1 else 'runs'} with faults {brief(lost)} deliveries did not come.{more}"


def _entry(row: Row, results: Results) -> tuple[Entry, ...]:
    is_valid = row["run_id"] in results.valid_runs
    lost = row["lost"]
    return (
        Entry(row["run_id"] + ("" if is_valid else " (not valid)")),
        Entry(f"{row['fault']}. {row['kind']}, {row['target']}"),
        *(_figure(row[name]) for name in ("at_s", "lasted_s", "noticed_ms", "to_first_ms", "to_all_ms")),
        *(_figure(row[name]) for name in ("to_steady_ms", "relaid_ms")),
        _count(row["expected"]),
        Entry(brief(lost) if lost is not None else NOT_KNOWN, mark="bad" if row["acknowledged_lost"] else ""),
        *(_count(row[name]) for name in ("lost_local", "lost_crossing", "acknowledged_lost")),
        *(_split(row, name) for name in ("duplicated", "reordered")),
    )


def _figure(value: float | None) -> Entry:
    return Entry(NOT_KNOWN if value is None else significant(value))


def _split(row: Row, name: str) -> Entry:
    """With how many of them crossed between nodes, where some did."""
    crossing = row.get(f"{name}_crossing")
    return Entry(_count(row[name]).text, below=f"{brief(crossing)} crossing" if crossing else "")


def _count(value: int | None) -> Entry:
    return Entry(NOT_KNOWN if value is None else brief(value))
