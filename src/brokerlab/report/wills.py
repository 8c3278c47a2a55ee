"""What became of the wills of a run, from table `sessions`: one row per run that had some."""

from collections.abc import Iterable

from brokerlab.report.numbers import NOT_KNOWN, brief, count
from brokerlab.report.results import Row
from brokerlab.report.table import Entry, Table, number, text

_CAME, _FAILED = "will", "will failed: "
_TIMES = ("latency_p50_ms", "latency_p99_ms", "latency_max_ms")


def wills(sessions: Iterable[Row]) -> Table:
    """How many came in time and how long after the close, and what broke the promise."""
    columns = (
        text("Run"), number("In time"), number("p50", "ms"), number("p99", "ms"), number("Max", "ms"), text("Broken"),
    )  # fmt: skip
    rows = tuple(_row(run_id, own) for run_id, own in _by_run(sessions).items())
    return Table(columns, (rows,) if rows else ())


def wills_summary(sessions: Iterable[Row]) -> str:
    """The finding in one sentence."""
    runs = _by_run(sessions)
    broken = {run_id: what for run_id, own in runs.items() if (what := _broken(own))}
    if not broken:
        return f"In all {count(len(runs))} runs every will that was due came once, and no other."
    named = "; ".join(f"{run_id}: {what}" for run_id, what in broken.items())
    return f"In {count(len(broken))} of {count(len(runs))} runs the broker did not keep the promise of wills. {named}."


def _by_run(sessions: Iterable[Row]) -> dict[str, list[Row]]:
    runs: dict[str, list[Row]] = {}
    for row in sessions:
        if row["event"] == _CAME or row["event"].startswith(_FAILED):
            runs.setdefault(row["run_id"], []).append(row)
    return runs


def _broken(rows: list[Row]) -> str:
    return ", ".join(f"{count(row['n'])} {row['event'].removeprefix(_FAILED)}" for row in rows if row["event"] != _CAME)


def _row(run_id: str, rows: list[Row]) -> tuple[Entry, ...]:
    came = next((row for row in rows if row["event"] == _CAME), None)
    times = (None if came is None else came[name] for name in _TIMES)
    broken = _broken(rows)
    return (
        Entry(run_id),
        Entry(count(came["n"] if came else 0)),
        *(Entry(NOT_KNOWN if time is None else brief(time)) for time in times),
        Entry(broken or "nothing", mark="warn" if broken else "quiet"),
    )
