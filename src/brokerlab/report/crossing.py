"""Latency within one node of an ensemble and between two, beside each other: one row per run and way."""

from collections.abc import Iterable, Mapping

from brokerlab.report.numbers import count, latency_text
from brokerlab.report.results import Row
from brokerlab.report.table import Entry, Table, number, text

LOCAL, CROSSING = "local", "crossing"
_NAMES = {LOCAL: "within one node", CROSSING: "from one node to another"}
_TIMES = ("mean_ms", "p50_ms", "p99_ms", "max_ms")


def crossing(latency: Iterable[Row], delivery: Iterable[Row]) -> Table:
    """What stayed at a node and what crossed; lost is of all messages of a run, warm-up included."""
    columns = (
        text("Run"), text("Way"), number("Messages"), number("Mean", "ms"), number("p50", "ms"),
        number("p99", "ms"), number("Max", "ms"), number("Lost"),
    )  # fmt: skip
    lost = _lost(delivery)
    found = tuple(_row(row, lost) for row in latency)
    return Table(columns, (found,) if found else ())


def _lost(delivery: Iterable[Row]) -> dict[tuple[str, str], int]:
    """By run and way, over all QoS that were granted."""
    lost: dict[tuple[str, str], int] = {}
    for row in delivery:
        if row.get("crossing_expected") is None:
            continue
        crossed = row["crossing_expected"] - row["crossing_delivered"]
        for way, missing in ((CROSSING, crossed), (LOCAL, row["lost"] - crossed)):
            lost[row["run_id"], way] = lost.get((row["run_id"], way), 0) + missing
    return lost


def _row(row: Row, lost: Mapping[tuple[str, str], int]) -> tuple[Entry, ...]:
    missing = lost.get((row["run_id"], row["group"]))
    return (
        Entry(row["run_id"]),
        Entry(_NAMES[row["group"]]),
        Entry(count(row["n"])),
        *(Entry(latency_text(row, name)) for name in _TIMES),
        Entry(count(missing), mark="warn" if missing else "quiet"),
    )
