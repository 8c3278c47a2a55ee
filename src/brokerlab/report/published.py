"""What papers printed, next to what was measured here: ratios and places, and what stands behind those numbers."""

from collections.abc import Iterable

from brokerlab.published.library import paper
from brokerlab.report.numbers import NOT_KNOWN, fixed, known, no_finer, plural, time_text
from brokerlab.report.results import Row
from brokerlab.report.table import Entry, Table, number, text

_BLOCK = ("source", "metric", "environment", "qos", "interval_ms", "statistic", "variant", "our_qos", "others")


def published_values(rows: Iterable[Row], cells: Iterable[Row] = ()) -> Table:
    """One row per printed value with one of ours beside it; a block is what may be compared.

    `cells` is the table, which tells how exact ours are.
    """
    resolutions = {(row["cell"], row["metric"]): row.get("resolution") for row in cells}
    columns = (
        text("Table"), text("Metric"), text("QoS"), text("Broker, as printed"), number("Printed"), text("Ours"),
        number("Measured here"), number("Printed ratio"), number("Our ratio"), number("Printed place"),
        number("Our place"),
    )  # fmt: skip
    beside = [row for row in rows if row["cell"] is not None]
    blocks: dict[tuple[object, ...], list[tuple[Entry, ...]]] = {}
    for row in beside:
        key = tuple(row[name] for name in _BLOCK)
        blocks.setdefault(key, []).append(_row(row, known(resolutions.get((row["cell"], row["our_metric"])))))
    return Table(columns, tuple(tuple(block) for block in blocks.values()))


def _row(row: Row, resolution: float | None) -> tuple[Entry, ...]:
    ends = [no_finer(row[name], resolution) for name in ("our_low", "our_high")]
    interval = "" if row["our_low"] is None else " to ".join(ends)
    mark = "" if row["same_place"] is None else "good" if row["same_place"] else "warn"
    where = ", ".join(row[name] for name in ("environment", "statistic", "variant") if row[name])
    return (
        Entry(row["source"], where),
        Entry(row["metric"].replace("_", " "), row["our_metric"]),
        Entry(row["our_qos"] or row["qos"] or NOT_KNOWN),
        Entry(row["printed_broker"] or NOT_KNOWN, row["printed_version"] or ""),
        Entry(f"{row['printed']} {row['unit']}", row["note"] or "", "warn" if row["note"] else ""),
        Entry(row["our_broker"], ", ".join(part for part in (row["our_version"], row["others"]) if part)),
        Entry(time_text(row["our_value"], resolution, is_bound=row["our_metric"].startswith("latency.")), interval),
        Entry(_ratio(row["printed_ratio"])),
        Entry(_ratio(row["our_ratio"])),
        Entry(NOT_KNOWN if row["printed_rank"] is None else str(row["printed_rank"])),
        Entry(NOT_KNOWN if row["our_rank"] is None else str(row["our_rank"]), mark=mark),
    )


def _ratio(value: float | None) -> str:
    return NOT_KNOWN if value is None else fixed(value, 2)


def published_summary(rows: Iterable[Row]) -> str:
    """How many printed values have one of ours beside them, and how many of those stand in the same place."""
    told = list(rows)
    beside = [row for row in told if row["cell"] is not None]
    if not beside:
        return f"None of the {plural(len(told), 'printed row')} is a value that one of ours can stand beside."
    placed = [row for row in beside if row["same_place"] is not None]
    same = sum(bool(row["same_place"]) for row in placed)
    return (
        f"{plural(len(beside), 'value')} of ours beside {plural(len(told), 'printed row')}; "
        f"{same} of {len(placed)} stand in the same place among the brokers of both."
    )


def behind(rows: Iterable[Row]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Of every paper: what it is, where its numbers were measured, and what threatens them."""
    papers = dict.fromkeys(row["source"].split("/")[0] for row in rows)
    found = [paper(name) for name in papers]
    return [
        (
            f"{one.id}: {one.authors}, “{one.title}” ({one.where})",
            f"{one.environment}. Versions: {one.versions}.",
            one.threats,
        )
        for one in found
    ]
