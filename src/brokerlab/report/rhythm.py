"""How evenly messages arrived, and what happened to sessions: one row per cell or event."""

from collections import Counter

from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, brief, count
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_METRICS = (
    (number("Inter-arrival sd", "ms"), "jitter.interarrival_sd"),
    (number("RFC 3550 jitter", "ms"), "jitter.rfc3550"),
)
_OUTCOMES = ("ok", "temporary block", "growing", "lost data", "collapse")


def rhythm(results: Results, compared: list[Group]) -> Table:
    """Means over valid runs, and the flows of all runs by their outcome."""
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        *(column for column, _ in _METRICS),
        *(number(outcome.capitalize(), "flows") for outcome in _OUTCOMES),
    )
    flows: dict[str, Counter[str | None]] = {}
    for row in results.jitter:
        flows.setdefault(row["cell"], Counter())[row["outcome"]] += 1
    blocks = (tuple(_row(cell, flows[cell.id]) for cell in group.cells if cell.id in flows) for group in compared)
    return Table(columns, tuple(block for block in blocks if block))


def _row(cell: CellResult, outcomes: Counter[str | None]) -> tuple[Entry, ...]:
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        *(_metric(cell, metric) for _, metric in _METRICS),
        *(_outcome(outcome, outcomes[outcome]) for outcome in _OUTCOMES),
    )


def _metric(cell: CellResult, metric: str) -> Entry:
    estimate = cell.estimates.get(metric)
    if estimate is None:
        return Entry(NOT_KNOWN, mark="quiet")
    return Entry(estimate.mean_text, estimate.below)


def _outcome(outcome: str, flows: int) -> Entry:
    return Entry(count(flows), mark="" if outcome == "ok" else "warn" if flows else "quiet")


def shared_groups(results: Results) -> Table:
    """One row per run and group of a shared subscription: how evenly its members were served."""
    columns = (
        text("Run"),
        text("Group"),
        number("Members"),
        number("Deliveries"),
        number("Least served", "% of the group"),
        number("Most served", "% of the group"),
    )
    members: dict[tuple[str, str], list[Row]] = {}
    for row in results.subscribers:
        if row["group"] is not None:
            members.setdefault((row["run_id"], row["group"]), []).append(row)
    rows = tuple(_group(run_id, name, own) for (run_id, name), own in members.items())
    return Table(columns, (rows,) if rows else ())


def _group(run_id: str, name: str, members: list[Row]) -> tuple[Entry, ...]:
    served = [row["group_percent"] for row in members if row["group_percent"] is not None]
    return (
        Entry(run_id),
        Entry(name),
        Entry(count(len(members))),
        Entry(count(sum(row["delivered"] for row in members))),
        Entry(brief(min(served)) if served else NOT_KNOWN),
        Entry(brief(max(served)) if served else NOT_KNOWN),
    )


def session_failures(results: Results) -> Table:
    """One row per run and event with a failure."""
    columns = (text("Run"), text("Event"), number("Events"), number("Failures"))
    rows = tuple(_failure(row) for row in results.sessions if row["failures"])
    return Table(columns, (rows,) if rows else ())


def _failure(row: Row) -> tuple[Entry, ...]:
    return (
        Entry(row["run_id"]),
        Entry(row["event"]),
        Entry(count(row["n"])),
        Entry(count(row["failures"]), mark="warn"),
    )
