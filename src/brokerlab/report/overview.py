"""The facts under the title and the main table: one row per cell."""

from collections.abc import Iterable

from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.contract import Contract, contract_of
from brokerlab.report.numbers import NOT_KNOWN, brief, plural
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Column, Entry, Table, number, text

# Columns of numbers, and whether the best of a group is worth a mark: at a given rate,
# everybody who keeps up delivers the same.
_MEASURES = (
    (number("Latency p50", "ms"), "latency.p50", True),
    (number("Latency p99", "ms"), "latency.p99", True),
    (number("Delivered", "1/s"), "throughput.delivered_per_s", True),
    (number("Lost", "%"), "delivery.failure_percent", False),
    (number("Duplicated", "per run"), "delivery.duplicated", False),
)
_COSTS = (
    (number("Broker CPU", "% of a core"), "resources.broker_cpu_percent", True),
    (number("Memory", "MiB"), "resources.broker_rss_max_mib", True),
    (number("CPU per delivery", "µs"), "resources.cpu_us_per_delivery", True),
)
_COUNTED = ("delivery.failure_percent", "delivery.duplicated")


def factor_columns(factors: list[str]) -> tuple[Column, ...]:
    return tuple(text("QoS" if name == "qos" else name) for name in factors)


def overview(results: Results, compared: list[Group]) -> Table:
    """The main table; a block is a group, whose rows may be compared."""
    factors = varying_factors(results)
    shows_qos = "qos" not in factors
    columns = (
        text("Broker"),
        *((text("QoS"),) if shows_qos else ()),
        *factor_columns(factors),
        number("QoS granted"),
        *(column for column, _, _ in _MEASURES),
        text("Contract"),
        *(column for column, _, _ in _COSTS),
        number("Valid runs"),
    )
    blocks = tuple(tuple(_row(cell, group, results, shows_qos) for cell in group.cells) for group in compared)
    return Table(columns, blocks)


def _row(cell: CellResult, group: Group, results: Results, shows_qos: bool) -> tuple[Entry, ...]:
    contract = contract_of(cell, results)
    return (
        Entry(cell.broker, f"{cell.version}, {cell.preset}"),
        *((Entry(NOT_KNOWN if cell.qos is None else str(cell.qos)),) if shows_qos else ()),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        _granted(contract),
        *(_measure(cell, group, metric, is_marked) for _, metric, is_marked in _MEASURES),
        _contract(contract),
        *(_measure(cell, group, metric, is_marked) for _, metric, is_marked in _COSTS),
        _valid(cell),
    )


def _measure(cell: CellResult, group: Group, metric: str, is_marked: bool) -> Entry:
    estimate = cell.estimates.get(metric)
    if estimate is None:
        return Entry(NOT_KNOWN, mark="quiet")
    if metric in _COUNTED:  # mostly zero: a symmetric interval would reach below nothing
        return Entry(estimate.mean_text, mark="warn" if estimate.mean > 0 else "")
    return Entry(estimate.mean_text, estimate.below, "best" if is_marked and _stands_out(cell, group, metric) else "")


def _stands_out(cell: CellResult, group: Group, metric: str) -> bool:
    """Best or not told apart from the best, in a group where somebody is told apart."""
    found = group.best_and_ties(metric)
    if found is None:
        return False
    best, ties = found
    leaders = [best, *ties]
    measured = sum(metric in other.estimates for other in group.cells)
    return len(leaders) < measured and any(cell is leader for leader in leaders)


def _granted(contract: Contract) -> Entry:
    """The lowest QoS that a subscriber was granted."""
    if contract.granted_qos is None:
        return Entry(NOT_KNOWN, mark="quiet")
    return Entry(str(contract.granted_qos), mark="warn" if contract.was_granted_less else "")


def _contract(contract: Contract) -> Entry:
    marks = {"kept": "good", "broken": "bad", "unknown": "warn", "": "quiet"}
    return Entry(contract.verdict or NOT_KNOWN, contract.remark, marks[contract.verdict])


def _valid(cell: CellResult) -> Entry:
    valid, total = cell.valid_runs, len(cell.runs)
    return Entry(f"{valid}/{total}", mark="" if valid == total else "bad" if valid == 0 else "warn")


def facts(results: Results) -> list[tuple[str, str]]:
    """What was done, at a glance: (label, value)."""
    runs = results.runs
    valid = len(results.valid_runs)
    return [
        ("Brokers", ", ".join(sorted({row["broker"] for row in runs if row["broker"]})) or NOT_KNOWN),
        ("Runs", f"{len(runs)} in {plural(len({row['cell'] for row in runs}), 'cell')}, {valid} valid"),
        ("Load", _one_of(_load(row) for row in runs)),
        ("Clients", _one_of(_clients(row) for row in runs)),
        ("Payload", _one_of(_payload(row) for row in runs)),
        ("Measured", _one_of(_measured(row) for row in runs)),
        ("Network", results.study.topology),
        ("Made", _when(runs)),
    ]


def _one_of(texts: Iterable[str | None]) -> str:
    """What all runs have in common; a run that was cut off early may know nothing of itself."""
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    if len(distinct) < 2:
        return distinct[0] if distinct else NOT_KNOWN
    return f"varies: {', '.join(distinct[:4])}{' …' if len(distinct) > 4 else ''}"


def _load(row: Row) -> str | None:
    if row["rate_per_s"] is not None:
        return f"{brief(row['rate_per_s'])}/s per publisher, {row['arrivals']}"
    return row["arrivals"] if row["window"] is None else f"{row['arrivals']}, window of {row['window']}"


def _clients(row: Row) -> str | None:
    if row["publishers"] is None or row["subscribers"] is None:
        return None
    return f"{plural(row['publishers'], 'publisher')}, {plural(row['subscribers'], 'subscriber')}"


def _payload(row: Row) -> str | None:
    return "of several sizes" if row["payload_bytes"] is None else f"{row['payload_bytes']:,} B"


def _measured(row: Row) -> str | None:
    seconds = (row["phases"] or {}).get("measure")
    return None if seconds is None else f"{brief(round(seconds, 1))} s per run, after warm-up"


def _when(runs: list[Row]) -> str:
    starts = sorted(row["started_at"] for row in runs if row["started_at"])
    if not starts:
        return NOT_KNOWN
    first, last = _minute(starts[0]), _minute(starts[-1])
    return f"{first} UTC" if first == last else f"{first} to {last.removeprefix(first[:11])} UTC"


def _minute(started_at: str) -> str:
    return started_at[:16].replace("T", " ")
