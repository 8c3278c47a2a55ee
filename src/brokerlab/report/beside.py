"""What was timed beside the load: the latency probe, and of devices the way there and their own time."""

from collections.abc import Iterable

from brokerlab.report.numbers import count, latency_text
from brokerlab.report.results import Row
from brokerlab.report.table import Entry, Table, number, text

_TIMES = ("mean_ms", "p50_ms", "p99_ms", "max_ms")
_NAMES = {
    "there": "to the device",
    "device": "kept by the device",
    "intended": "probe, since it was due",
    "sent": "probe, since it left",
}


def beside(rows: Iterable[Row]) -> Table:
    """One row per run and what was timed."""
    columns = (
        text("Run"), text("Timed"), number("Messages"), number("Mean", "ms"), number("p50", "ms"),
        number("p99", "ms"), number("Max", "ms"),
    )  # fmt: skip
    found = tuple(_row(row) for row in rows)
    return Table(columns, (found,) if found else ())


def _row(row: Row) -> tuple[Entry, ...]:
    is_bound = row["kind"] != "device"  # whose time is longer if the message came earlier than is known
    return (
        Entry(row["run_id"]),
        Entry(_NAMES[row["kind"]]),
        Entry(count(row["n"])),
        *(Entry(latency_text(row, name, is_bound=is_bound)) for name in _TIMES),
    )
