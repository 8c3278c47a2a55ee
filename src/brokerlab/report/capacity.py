"""How much the brokers carry: what searches found, and what saturation reached, every run of it."""

from collections.abc import Callable

from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, brief, count, known, significant, time_text
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_SATURATE = "saturate"

RowOf = Callable[[CellResult, Row], tuple[Entry, ...] | None]


def capacities(results: Results, compared: list[Group]) -> Table:
    """One row per run of a search: the rate that it found, with its interval, and whether it held when measured."""
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        number("Run"),
        number("Capacity", "1/s, all publishers"),
        number("Limit of p99", "ms"),
        number("Trials"),
        text("Beyond it"),
        text("Held when measured"),
    )
    trials: dict[str, list[Row]] = {}
    for row in results.capacity:
        trials.setdefault(row["run_id"], []).append(row)
    resolutions = {row["run_id"]: known(row["resolution_mean_ms"]) for row in results.latency}

    def found(cell: CellResult, run: Row) -> tuple[Entry, ...] | None:
        return _capacity(cell, run, trials.get(run["run_id"], []), resolutions.get(run["run_id"]))

    return Table(columns, _blocks(compared, found))


def _capacity(cell: CellResult, run: Row, trials: list[Row], resolution_ms: float | None) -> tuple[Entry, ...] | None:
    """`resolution_ms` is that of the arrivals of the measure phase."""
    if not trials:
        return None
    tried = [row for row in trials if row["phase"] != "measure"]
    return (
        *_about(cell, run),
        _found(run, tried),
        Entry(brief(run["p99_limit_ms"])),
        Entry(count(len(tried))),
        _beyond(run, tried),
        _held([row for row in trials if row["phase"] == "measure"], resolution_ms),
    )


def _found(run: Row, tried: list[Row]) -> Entry:
    rate, high = known(run["capacity_per_s"]), known(run["capacity_high_per_s"])
    low = known(run.get("capacity_low_per_s", rate))  # tables of earlier versions have no such column
    if rate is None:
        failed = [row["asked_per_s"] for row in tried if row["passed"] is False]  # None: the generator was the limit
        return Entry(f"below {count(min(failed))}" if failed else NOT_KNOWN, mark="warn")
    if high is None:
        return Entry(count(rate), f"at least {count(low)}", "warn")
    return Entry(count(rate), f"{count(low)} – {count(high)}")


def _beyond(run: Row, tried: list[Row]) -> Entry:
    """What happened above the capacity, in the words of the last trial there."""
    high = known(run["capacity_high_per_s"])
    stopped = [row for row in tried if not row["passed"] and (high is None or known(row["asked_per_s"]) == high)]
    return Entry("; ".join(stopped[-1]["why_not"]) if stopped else NOT_KNOWN)


def _held(measured: list[Row], resolution_ms: float | None) -> Entry:
    if not measured or measured[-1]["passed"] is None:
        return Entry(NOT_KNOWN, mark="quiet")
    row = measured[-1]
    below = f"p99 {time_text(row['latency_p99_ms'], resolution_ms)} ms in {brief(row['seconds'])} s"
    return Entry("yes", below, "good") if row["passed"] else Entry("no", "; ".join(row["why_not"]), "warn")


def peaks(results: Results, compared: list[Group]) -> Table:
    """One row per run of a saturating load, also those that are not valid: no best one is chosen (S-06)."""
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        number("Run"),
        number("Delivered", "1/s"),
        number("Published", "1/s"),
        number("Window"),
        number("Written off"),
        number("Broker CPU", "% of a core"),
        number("Projected", "1/s"),
    )
    rates = {(row["run_id"], row["window"]): row for row in results.throughput}
    used = _used(results)

    def peak(cell: CellResult, run: Row) -> tuple[Entry, ...] | None:
        sent, arrived = rates.get((run["run_id"], "send")), rates.get((run["run_id"], "delivery"))
        if run["arrivals"] != _SATURATE or sent is None or arrived is None:
            return None
        broker = used.get(run["run_id"], {})
        return (
            *_about(cell, run),
            Entry(count(arrived["delivered_per_s"])),
            Entry(count(sent["published_per_s"])),
            Entry(count(run["window"])),
            _written_off(results, run),
            Entry(significant(broker.get("cpu_percent"))),
            _projected(broker),
        )

    return Table(columns, _blocks(compared, peak))


def _used(results: Results) -> dict[str, Row]:
    """By run what the broker used in the measure phase; the CPU of several nodes is added up."""
    used: dict[str, Row] = {}
    for row in results.resources:
        if not row["node"].startswith("broker/") or row["phase"] != "measure":
            continue
        before = used.get(row["run_id"])
        if before is None:
            used[row["run_id"]] = row
        else:
            both = [each["cpu_percent"] for each in (before, row) if each["cpu_percent"] is not None]
            used[row["run_id"]] = before | {"cpu_percent": sum(both) if both else None}
    return used


def _written_off(results: Results, run: Row) -> Entry:
    """Messages that the window stopped waiting for: the broker delivered nothing for a second.

    The run counts all the same, because the pause is the broker's; what did not come is in the ledger.
    """
    found = results.manifests.get(run["run_id"], {}).get("meter", {}).get("written_off")
    return Entry(count(found), mark="warn" if found else "quiet")


def _projected(broker: Row) -> Entry:
    below = "extrapolation" if broker.get("projection_is_extrapolation") else ""
    return Entry(count(broker.get("projected_per_s")), below)


def _about(cell: CellResult, run: Row) -> tuple[Entry, ...]:
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        Entry(run["run_id"].rsplit("/", 1)[-1], "" if run["verdict"] == "valid" else "not valid"),
    )


def _blocks(compared: list[Group], row_of: RowOf) -> tuple[tuple[tuple[Entry, ...], ...], ...]:
    blocks = (
        tuple(row for cell in group.cells for run in cell.runs if (row := row_of(cell, run)) is not None)
        for group in compared
    )
    return tuple(block for block in blocks if block)
