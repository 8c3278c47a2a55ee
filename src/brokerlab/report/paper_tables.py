"""The papers' own tables of these runs, printed values next to ours: 000's equations, 002's Tables 6 to 11."""

from collections.abc import Iterable, Iterator, Sequence

from brokerlab.published.values import broker_name
from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, count, significant
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

PROJECTED, LATENCY = "projected_message_rate", "average_latency"
_STRESS = ("peak_message_rate", "average_cpu_usage", PROJECTED, LATENCY)
_TABLES = {
    ("non-scalable", "local"): "Table 6",
    ("non-scalable", "cloud"): "Table 7",
    ("scalable", "local"): "Table 8",
    ("scalable", "cloud"): "Table 9",
}
_THREE = ("ALL(3)", ("mosquitto", "hivemq", "rabbitmq"))  # how 000's values name all of its brokers
_RANKED = {PROJECTED: "projected rate", LATENCY: "latency"}
# Columns of the equations: title, unit, equation, whether as printed, and the metric that the paper prints of it.
_EQUATIONS = (
    ("Eq. 7, corrected", "ms", "7", False, ""),
    ("as printed", "ms", "7", True, ""),
    ("Eq. 8, to broker", "1/s", "8", False, ""),
    ("Eq. 9, to clients", "1/s", "9", False, "throughput_brk_to_sub"),
    ("Eq. 10, corrected", "%", "10", False, "failure_rate"),
    ("as printed", "1/s", "10", True, ""),
    ("Eq. 11, corrected", "%", "11", False, ""),
    ("as printed", "ratio", "11", True, ""),
    ("Availability", "%", "availability", False, "availability"),
    ("Lost a month", "of 100,000 a day", "month of 100000 a day", False, "undelivered_messages"),
    ("Lost a month", "of 218,772 a day", "month of 218772 a day", False, ""),
    ("Out of step", "h a month", "hours of a month", False, "unsynchronised_hours"),
)


def equations(results: Results, compared: list[Group]) -> Table:
    """One row per run, also those that are not valid; below a value what the paper prints of it."""
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        number("Run"),
        *(number(title, unit) for title, unit, *_ in _EQUATIONS),
    )
    found: dict[str, dict[str, Row]] = {}
    for row in results.equations:
        found.setdefault(row["run_id"], {})[row["equation"]] = row
    blocks = (
        tuple(
            _equations_of(results, cell, run, found[run["run_id"]])
            for cell in group.cells
            for run in cell.runs
            if run["run_id"] in found
        )
        for group in compared
    )
    return Table(columns, tuple(block for block in blocks if block))


def _equations_of(results: Results, cell: CellResult, run: Row, own: dict[str, Row]) -> tuple[Entry, ...]:
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        Entry(run["run_id"].rsplit("/", 1)[-1], "" if run["verdict"] == "valid" else "not valid"),
        *(
            Entry(
                significant(own[name]["as_printed" if is_printed else "corrected"]),
                _printed(results.published, metric, run) if metric else "",
            )
            for _, _, name, is_printed, metric in _EQUATIONS
        ),
    )


def _printed(rows: Iterable[Row], metric: str, run: Row) -> str:
    """What paper 000 prints of this broker at this QoS, each value once."""
    driver, qos = run.get("driver") or run["broker"], str(run["qos"])
    said = dict.fromkeys(
        f"{row['printed']} {row['unit']}" + (f" ({row['statistic']})" if row["statistic"] in ("min", "max") else "")
        for row in rows
        if row["source"].startswith("000/") and row["metric"] == metric and row["printed"]
        if broker_name(row["printed_broker"]) == driver or (row["printed_broker"] == _THREE[0] and driver in _THREE[1])
        if row["qos"] is None or qos in row["qos"].split("|")
    )
    return f"000: {', '.join(said)}" if said else ""


def stress_tables(rankings: Sequence[Row]) -> list[tuple[str, Table]]:
    """002's Tables 6 to 9 with their latencies (Tables 10 and 11), each with ours of that class beside it."""
    printed = [row for row in rankings if row["of"] == "002"]
    environments = dict.fromkeys(row["circumstances"] for row in printed)
    return [
        (f"{_TABLES[kind, environment]}: {kind} brokers, {environment}, and ours", table)
        for kind, environment in _TABLES
        if environment in environments
        if (table := _stress_table(rankings, kind, environment)).row_count
    ]


def _stress_table(rankings: Sequence[Row], kind: str, environment: str) -> Table:
    columns = (
        text("Broker"), text("QoS"),
        number("Peak", "1/s, printed"), number("ours", "1/s published"),
        number("CPU", "%, printed"), number("ours", "%"),
        number("Projected", "1/s, printed"), number("ours", "1/s delivered"),
        number("Latency", "ms, printed"), number("ours", "ms, probe"),
    )  # fmt: skip
    shown = [row for row in rankings if row["kind"] == kind and row["metric"] in _STRESS]
    theirs = [row for row in shown if row["of"] == "002" and row["circumstances"] == environment]
    ours = [row for row in shown if row["of"] == "ours"]
    levels = sorted({row["qos"] for row in theirs + ours if row["qos"] is not None})
    blocks = (tuple(_stress_rows(theirs, ours, qos)) for qos in levels)
    return Table(columns, tuple(block for block in blocks if block))


def _stress_rows(theirs: Sequence[Row], ours: Sequence[Row], qos: str) -> Iterator[tuple[Entry, ...]]:
    """Brokers of the paper first, each with every name and environment of ours that is the same broker."""
    printed = {(row["broker"], row["metric"]): row for row in theirs if row["qos"] == qos}
    own: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in ours:
        if row["qos"] == qos:
            own.setdefault((row["broker"], row["name"], row["circumstances"] or ""), {})[row["metric"]] = row
    both = dict.fromkeys([*(broker for broker, _ in printed), *(broker for broker, _, _ in own)])
    for broker in both:
        left = {metric: printed.get((broker, metric)) for metric in _STRESS}
        for name, where, right in [(key[1], key[2], own[key]) for key in own if key[0] == broker] or [("", "", {})]:
            yield _stress_row(left, right, name, where, qos)


def _stress_row(
    left: dict[str, Row | None], right: dict[str, Row], name: str, where: str, qos: str
) -> tuple[Entry, ...]:
    first = next((row for row in left.values() if row is not None), None)
    mine = next(iter(right.values()), None)
    title = name or (f"{first['name']}, not here" if first else NOT_KNOWN)
    below = [f"{row['name']} {row['version'] or ''}".strip() for row in (first, mine) if row is not None]
    pairs = [entry for metric in _STRESS for entry in (_value(left[metric]), _value(right.get(metric)))]
    return (Entry(title, " beside ".join(below) + (f", {where}" if where else "")), Entry(qos), *pairs)


def _value(row: Row | None) -> Entry:
    if row is None:
        return Entry(NOT_KNOWN, mark="quiet")
    shown = f"{row['value']:,}".removesuffix(".0") if row["of"] != "ours" else significant(row["value"])
    return Entry(shown, "extrapolation" if row["extrapolates"] else "", "warn" if row["extrapolates"] else "")


def stress_rankings(rankings: Sequence[Row]) -> Table:
    """One row per metric, QoS and whose it is: the brokers in their order, ties marked."""
    columns = (text("Ranked by"), text("QoS"), text("Whose"), text("Order, the best first"))
    is_beside = any(row["of"] == "002" for row in rankings)
    ranked = [row for row in rankings if is_beside and row["metric"] in _RANKED and row["of"] in ("002", "ours")]
    blocks: dict[tuple[str, str], dict[tuple[str, str], list[Row]]] = {}
    for row in ranked:
        if row["qos"] is not None:
            whose = ("" if row["of"] == "ours" else "printed", row["circumstances"] or "")
            blocks.setdefault((row["metric"], row["qos"]), {}).setdefault(whose, []).append(row)
    return Table(
        columns,
        tuple(
            tuple(
                (Entry(_RANKED[metric]), Entry(qos), Entry(", ".join(part for part in whose if part) or "ours"), order)
                for whose, rows in block.items()
                for order in (_order(rows),)
            )
            for (metric, qos), block in blocks.items()
            if any(not printed for printed, _ in block)
        ),
    )


def _order(rows: list[Row]) -> Entry:
    placed = sorted(rows, key=lambda row: (row["place"], row["name"]))
    parts = [
        f"{row['name']} {count(row['value']) if row['value'] >= 100 else significant(row['value'])}" for row in placed
    ]
    joined = parts[0] + "".join(
        (" = " if row["is_tie"] else " > ") + part for row, part in zip(placed[1:], parts[1:], strict=True)
    )
    floor = next((row["floor"] for row in placed if row["floor"] is not None), None)
    unit = placed[0]["unit"] or ""
    below = f"=: within the noise floor of {significant(floor)} {unit}" if floor is not None else ""
    return Entry(joined, below)
