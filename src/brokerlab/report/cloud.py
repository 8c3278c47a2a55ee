"""Single flows as paper 003 tells them: latency, regularity and outcome, one row per cell (its Tables 2 to 4)."""

from collections import Counter

from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, known, plural, significant, time_text
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

OUTCOMES = {"ok": "ok", "collapse": "X", "lost data": "L.D.", "temporary block": "block", "growing": "growing"}
_PRINTED = {
    "one-way": ("003/table2", "inter_arrival_mean", "inter_arrival_std"),
    "echo": ("003/table3", "latency_mean", "latency_std"),
    "loop": ("003/table4", "latency_mean", "latency_std"),
}  # test: the paper's table, and its two metrics
_TIMES = ("mean_ms", "sd_ms", "min_ms", "max_ms")


def is_cloud(results: Results) -> bool:
    """Whether the study has the paper's tests: messages that come back, or by a device."""
    return any("role" in (row["levels"] or {}) for row in results.runs)


def cloud(results: Results, compared: list[Group]) -> Table:
    """Of all runs, valid or not: an outcome is one whatever the meter says of itself."""
    if not is_cloud(results):
        return Table((), ())
    columns = (
        text("Broker"), *factor_columns(varying_factors(results)), number("Mean", "ms"), number("sd", "ms"),
        number("Least", "ms"), number("Largest", "ms"), number("Between arrivals", "mean, ms"), number("sd", "ms"),
        number("Grows by", "ms a message"), text("Outcome"), text("Runs"),
        text("Printed for eight brokers", "mean, ms"), text("sd", "ms"),
    )  # fmt: skip
    blocks = tuple(tuple(_row(cell, results) for cell in group.cells) for group in compared)
    return Table(columns, blocks)


def _row(cell: CellResult, results: Results) -> tuple[Entry, ...]:
    latency = [row for row in results.latency if row["cell"] == cell.id]
    flows = [row for row in results.jitter if row["cell"] == cell.id]
    verdicts = Counter(str(run["verdict"]) for run in cell.runs)
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        *(_times(latency, name, is_bound=name != "sd_ms") for name in _TIMES),
        *(_times(flows, name, is_bound=False) for name in ("interarrival_mean_ms", "interarrival_sd_ms")),
        _span(flows, "growth_ms_per_message"),
        _outcome(flows),
        Entry(", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())),
        *_printed(cell, results),
    )


def _printed(cell: CellResult, results: Results) -> tuple[Entry, Entry]:
    """What the paper has for this test, QoS and interval: one way the time between arrivals, else the latency."""
    levels = cell.runs[0]["levels"] or {}
    source, *metrics = _PRINTED.get(str(levels.get("role")), ("", "", ""))
    interval_ms = f"{1000 / float(levels['rate']):g}" if levels.get("rate") else None
    here = [
        row
        for row in results.published
        if (row["source"], row["qos"], row["interval_ms"]) == (source, str(cell.qos), interval_ms)
    ]
    mean, sd = (_span([row for row in here if row["metric"] == metric], "printed_value") for metric in metrics)
    return mean, sd


def _span(rows: list[Row], column: str) -> Entry:
    """The least and the most over runs and flows, once where they look alike."""
    values = [value for row in rows if (value := known(row[column])) is not None]
    if not values:
        return Entry(NOT_KNOWN, mark="quiet")
    low, high = significant(min(values)), significant(max(values))
    return Entry(low if low == high else f"{low} to {high}")


def _times(rows: list[Row], column: str, *, is_bound: bool = True) -> Entry:
    """The same of times, none more exact than it is."""
    timed = [row for row in rows if known(row[column]) is not None]
    if not timed:
        return Entry(NOT_KNOWN, mark="quiet")
    ends = (min(timed, key=lambda row: row[column]), max(timed, key=lambda row: row[column]))
    low, high = (time_text(row[column], row.get("resolution_mean_ms"), is_bound=is_bound) for row in ends)
    return Entry(low if low == high else f"{low} to {high}")


def _outcome(flows: list[Row]) -> Entry:
    names = Counter(OUTCOMES.get(row["outcome"] or "", NOT_KNOWN) for row in flows)
    lost = sum(row["lost"] or 0 for row in flows)
    said = ", ".join(names) or NOT_KNOWN
    return Entry(said, f"{plural(lost, 'message')} lost" if lost else "", "" if said == "ok" else "warn")
