"""The brokers' own counters beside the ledger: what each says in its own words, and where the two differ (F-26)."""

from dataclasses import dataclass

from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, count, listed, plural, significant
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_MARKS = {"equal": "good", "differs": "bad"}
_GAUGES = ("connections", "subscriptions", "retained", "queued")  # of a moment, and nobody of ours counts them
# What our number is called in a sentence, and what the broker did.
_OURS = {
    "received": ("we published {} messages", "received"),
    "received_bytes": ("we published {} bytes of payload", "bytes received"),
    "sent": ("{} messages arrived", "sent"),
    "sent_bytes": ("{} bytes of payload arrived", "bytes sent"),
    "dropped": ("{} messages were lost", "dropped"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    place: str  # the run
    text: str
    is_good: bool  # speaks for the broker


def counters(results: Results, compared: list[Group]) -> Table:
    """One row per run and counter; a block is a run."""
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        number("Run"),
        text("Counted"),
        text("The broker’s name for it"),
        number("Measured phase", "from → to"),
        number("The broker says"),
        number("Our count"),
        number("Difference"),
        text("Verdict"),
    )
    by_run: dict[str, list[Row]] = {}
    for row in results.counters:
        by_run.setdefault(row["run_id"], []).append(row)
    runs = [(cell, run["run_id"]) for group in compared for cell in group.cells for run in cell.runs]
    blocks = (tuple(_row(cell, row) for row in by_run[run_id]) for cell, run_id in runs if run_id in by_run)
    return Table(columns, tuple(blocks))


def _row(cell: CellResult, row: Row) -> tuple[Entry, ...]:
    difference = row.get("difference")
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        Entry(row["run_id"].rsplit("/", 1)[-1]),
        Entry((row.get("count") or NOT_KNOWN).replace("_", " ")),
        Entry(row["name"], row["note"] or "", "code"),
        Entry(_measured(row), mark="quiet"),
        Entry(_said(row["broker_value"])),
        Entry(_said(row["our_value"])),
        Entry(_said(difference), mark="bad" if difference else "quiet"),
        _judged(row),
    )


def _judged(row: Row) -> Entry:
    if row.get("count") in _GAUGES and row["broker_value"] is not None:
        return Entry("its own view", mark="quiet")
    verdict = _verdict(row)
    return Entry(verdict, row.get("why") or "", _MARKS.get(verdict, "quiet"))


def _verdict(row: Row) -> str:
    if "verdict" in row:
        return str(row["verdict"])
    # Tables of pipeline version 4 and before.
    return {True: "equal", False: "differs", None: "not comparable"}[row["agrees"]]


def _measured(row: Row) -> str:
    first, last = row.get("measure_first"), row.get("measure_last")
    return NOT_KNOWN if first is None and last is None else f"{_said(first)} → {_said(last)}"


def _said(value: float | None) -> str:
    return count(value) if value is None or float(value).is_integer() else significant(value)


def summary(results: Results) -> str:
    rows = [row for row in results.counters if _verdict(row) != "not comparable"]
    if not results.counters:
        return "None of these brokers tells counters that could be compared with ours."
    told = {row["run_id"] for row in results.counters}
    brokers = sorted({row["broker"] for row in results.runs if row["run_id"] in told})
    equal = sum(_verdict(row) == "equal" for row in rows)
    return (
        f"{listed(brokers) or NOT_KNOWN}: {equal} of {plural(len(rows), 'comparison')} agree with our own count. "
        "The others are shown as the broker tells them."
    )


def findings(results: Results) -> list[Finding]:
    """Counters that differ from the ledger; and losses that the broker admits to the message, in its favour."""
    return [
        Finding(row["run_id"], _sentence(row), is_good=_verdict(row) == "equal")
        for row in results.counters
        if _verdict(row) == "differs" or (_verdict(row) == "equal" and row.get("count") == "dropped" and _lost(row))
    ]


def _lost(row: Row) -> bool:
    return bool(row["our_value"])


def _sentence(row: Row) -> str:
    ours, done = _OURS.get(row.get("count") or "", ("our count is {}", "counted"))
    said = ours.format(_said(row["our_value"]))
    return f"{said}, and the broker’s own counter says {_said(row['broker_value'])} {done} ({row['name']})."


def differing_runs(results: Results) -> str:
    """For the section on validity: how many runs have a counter that differs; empty if none has."""
    runs = {row["run_id"] for row in results.counters if _verdict(row) == "differs"}
    if not runs:
        return ""
    valid = sum(row["verdict"] == "valid" for row in results.runs if row["run_id"] in runs)
    return (
        f"In {plural(len(runs), 'run')} a counter of the broker differs from ours (see «The brokers’ own counters»). "
        f"What it received then makes the run invalid; what it sent or dropped does not: {valid} of them count."
    )
