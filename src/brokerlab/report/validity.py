"""Which runs count and why the others do not; and what the meter says of itself."""

from brokerlab.record.reasons import in_short
from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, brief, count, known, listed, plural, significant
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_ABOUT = (number("Order"), text("Run"), text("Started", "UTC"), text("Verdict"))
_REASONS = (text("Reasons"),)
_LOAD = (number("Schedule lag p99", "ms"), number("Generator CPU", "% of a core"))
_VERDICT_MARKS = {"valid": "good", "invalid": "bad", "collapsed": "bad"}


def runs_not_counted(results: Results) -> Table:
    return _runs([row for row in results.runs if row["verdict"] != "valid"])


def runs_counted(results: Results) -> Table:
    return _runs([row for row in results.runs if row["verdict"] == "valid"])


def _runs(rows: list[Row]) -> Table:
    """One row per run; the column of reasons stands only where somebody has one."""
    has_reasons = any(row["reasons"] for row in rows)
    columns = (*_ABOUT, *(_REASONS if has_reasons else ()), *_LOAD)
    return Table(columns, (tuple(_run(row, has_reasons) for row in rows),) if rows else ())


def _run(row: Row, has_reasons: bool) -> tuple[Entry, ...]:
    return (
        Entry(count(row["order"])),
        Entry(row["run_id"]),
        Entry((row["started_at"] or NOT_KNOWN)[:19].replace("T", " ")),
        Entry(row["verdict"], mark=_VERDICT_MARKS.get(row["verdict"], "")),
        *((Entry(in_short(row["reasons"] or [])),) if has_reasons else ()),
        Entry(significant(row["schedule_lag_p99_ms"])),
        Entry(significant(row["generator_cpu_percent"])),
    )


_GUARDS = {
    "generator_cpu_percent": "a publishing process used more than {} % of a core",
    "subscriber_cpu_percent": "a subscribing one more than {} %",
    "schedule_lag_p99_ms": "messages left more than {} ms late (p99)",
    "receive_lag_p99_ms": "arrived bytes waited more than {} ms to be read (p99)",
    "steal_percent": "the host took more than {} % of the cores away",
    "clock_step_ms": "the wall clock stepped by more than {} ms",
    "throttled_percent": "a CPU quota held a worker back for more than {} % of a core",
    "stalled_percent": "a publishing worker of a closed loop lost more than {} % of the time by waking late",
}


def guards_text(results: Results) -> str:
    """The limits that made a run invalid, as the manifests state them; those of an older version say fewer."""
    stated = next((manifest["guards"] for manifest in results.manifests.values() if "guards" in manifest), None)
    if stated is None:
        return ""
    limits = [rule.format(brief(stated[name])) for name, rule in _GUARDS.items() if name in stated]
    others = ", or when swap grew or sockets filled up" if "swap_growth_bytes" in stated else ""
    return f"A run is invalid when {listed(limits, last='or')}{others}: then the meter was the limit, not the broker."


def meter(results: Results, compared: list[Group]) -> Table:
    """The meter beside what it measured: for each cell the worst of its runs."""
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        number("Latency p50", "ms"),
        number("Receive resolution, mean", "ms"),
        number("Receive resolution, max", "ms"),
        number("Schedule lag p99", "ms"),
        number("Generator CPU", "% of a core"),
        number("Zero latencies"),
        number("Negative latencies"),
    )
    blocks = tuple(tuple(_meter_row(cell, results) for cell in group.cells) for group in compared)
    return Table(columns, blocks)


def _meter_row(cell: CellResult, results: Results) -> tuple[Entry, ...]:
    latency = [row for row in results.latency if row["cell"] == cell.id]
    median = cell.estimates.get("latency.p50")
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        Entry(NOT_KNOWN if median is None else median.mean_text, mark="quiet"),
        Entry(significant(_worst(latency, "resolution_mean_ms"))),
        Entry(significant(_worst(latency, "resolution_max_ms"))),
        Entry(significant(_worst(cell.runs, "schedule_lag_p99_ms"))),
        Entry(significant(_worst(cell.runs, "generator_cpu_percent"))),
        _oddity(_worst(latency, "zero_count")),
        _oddity(_worst(latency, "negative_count")),
    )


def _oddity(value: float | None) -> Entry:
    return Entry(count(value), mark="warn" if value else "quiet")


def _worst(rows: list[Row] | tuple[Row, ...], column: str) -> float | None:
    return max((value for row in rows if (value := known(row[column])) is not None), default=None)


def threats(results: Results, compared: list[Group]) -> list[tuple[str, str]]:
    """What these numbers cannot say: (what, why)."""
    most = max((cell.valid_runs for group in compared for cell in group.cells), default=0)
    presets = sorted({m["broker"]["preset"] for m in results.manifests.values() if "preset" in m.get("broker", {})})
    setup = f"the preset {' and '.join(presets)}" if presets else "one configuration each"
    found = [
        _where(results),
        (
            f"At most {plural(most, 'valid run')} per cell.",
            "The interval describes runs like these on this machine on this day, not other machines. "
            "With few runs it is wide; it assumes that run values scatter like a normal distribution.",
        ),
        (
            "Black box.",
            "Latency runs from the intended time of sending to the reading of the message by the subscriber: "
            "generator, kernel and broker together. The time inside the broker is not separated.",
        ),
        ("Survivors only.", "A lost message has no latency; read latency together with loss."),
        ("One configuration.", f"Brokers ran with {setup}; a tuned broker may behave differently."),
        ("Memory", "is the resident set of the broker's processes at its largest, shared pages included."),
    ]
    if results.study.topology == "loopback":
        loopback = "No delay, no limit of bandwidth, no loss of packets: nothing here is about a real network."
        return [("Loopback only.", loopback), *found]
    return found


def _where(results: Results) -> tuple[str, str]:
    """What broker and generator have in common; a manifest without a meter is of a run that came to no load."""
    sharing = {m["meter"].get("shares_cores_with_broker", True) for m in results.manifests.values() if "meter" in m}
    if sharing and not any(sharing):
        has_own = any(m["meter"].get("cores") for m in results.manifests.values() if "meter" in m)
        apart = "had cores of their own" if has_own else "did not run on the same machine"
        common = (
            "memory, caches and operating system" if has_own else "the way between them, which is part of all times"
        )
        return "Apart.", f"Broker and load generator {apart}; they share {common}."
    cores = sorted({row["cores"] for row in results.runs if row["cores"]})
    shared = f"the same {plural(cores[0], 'core')}" if len(cores) == 1 else "the cores of the same machine"
    some = " in some runs" if False in sharing else ""
    return (
        "One machine.",
        f"Broker, load generator and operating system share {shared}{some}; under load they slow each other.",
    )
