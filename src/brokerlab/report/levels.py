"""Levels beside each other, and how much of each metric is due to which factor."""

from brokerlab.report.cells import is_within_resolution, level_text
from brokerlab.report.metrics import METRICS
from brokerlab.report.numbers import NOT_KNOWN, brief, known, no_finer, significant, time_text
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_MARKS = {"better": "good", "worse": "bad", "equivalent": "quiet", "not distinguishable": "quiet"}
_LEAST_P = 0.001


def comparisons(results: Results) -> Table:
    """Every pair of levels by the metric that the study ranks by; a block is one factor in one context."""
    unit = next((row["unit"] for row in results.comparisons if row["metric"] == results.study.rank_by), "") or ""
    columns = (
        text("Level"), text("beside"), text("at"), number("Difference", unit), number("of the second", "%"),
        number("Hedges’ g"), number("p, corrected"), number("Noise floor", unit), text("The first is"),
    )  # fmt: skip
    blocks: dict[tuple[str, str], list[tuple[Entry, ...]]] = {}
    for row in results.comparisons:
        if row["metric"] == results.study.rank_by:
            blocks.setdefault((row["factor"], row["within"]), []).append(_comparison(row))
    return Table(columns, tuple(tuple(rows) for rows in blocks.values()))


def _comparison(row: Row) -> tuple[Entry, ...]:
    both = (row["level_a"], row["level_b"])
    levels = both if row["factor"] == "broker" else [level_text(row["factor"], level) for level in both]
    is_tie = bool(row["is_tie"])
    resolution = known(row.get("resolution"))
    said = "the same broker under two names" if row["same"] else "within the noise floor: a tie" if is_tie else ""
    if not said and is_within_resolution(row):
        said = f"within the resolution of {significant(resolution, digits=2)} {row['unit']}"
    return (
        *(Entry(level) for level in levels),
        Entry(_context(row)),
        Entry(
            time_text(row["difference"], resolution, is_bound=False),
            _bounds(row["low"], row["high"], resolution=resolution),
        ),
        Entry(significant(row["difference_percent"], digits=2)),
        Entry(significant(row["hedges_g"], digits=2), _bounds(row["g_low"], row["g_high"], digits=2)),
        Entry(p_text(row["corrected_p"])),
        Entry(significant(row["floor"])),
        Entry(row["answer"], said, "warn" if is_tie and not row["same"] else _MARKS[row["answer"]]),
    )


def _context(row: Row) -> str:
    if row["method"] == "paired":
        return f"all {row['n_a']} settings, in pairs"
    return ", ".join(level_text(name, value) for name, value in (row["levels"] or {}).items()) or NOT_KNOWN


def _bounds(low: object, high: object, *, digits: int = 3, resolution: float | None = None) -> str:
    if known(low) is None or known(high) is None:
        return ""
    return " … ".join(no_finer(end, resolution, digits=digits) for end in (low, high))


def p_text(value: object) -> str:
    p = known(value)
    if p is None:
        return NOT_KNOWN
    return f"< {_LEAST_P}" if p < _LEAST_P else f"{p:.3f}"


def effects(results: Results) -> Table:
    """One row per metric: the share of its variance that each factor and pair of factors explains."""
    names = list(dict.fromkeys(row["effect"] for row in sorted(results.effects, key=lambda row: row["place"])))
    names.sort(key=lambda name: name == "residual")
    by_metric: dict[str, dict[str, Row]] = {}
    for row in results.effects:
        if row["share_percent"] is not None:
            by_metric.setdefault(row["metric"], {})[row["effect"]] = row
    columns = (text("Metric"), *(number(_title(name), "%") for name in names), number("Runs"))
    rows = tuple(_effect(metric, own, names) for metric, own in by_metric.items() if metric in METRICS)
    return Table(columns, (rows,) if rows else ())


def _title(effect: str) -> str:
    return " × ".join("QoS" if factor == "qos" else factor for factor in effect.split(" × "))


def _effect(metric: str, own: dict[str, Row], names: list[str]) -> tuple[Entry, ...]:
    entries = []
    for name in names:
        row = own.get(name)
        if row is None or row["degrees"] == 0:
            entries.append(Entry(NOT_KNOWN, mark="quiet"))
            continue
        said = f"p {p_text(row['p'])}" if row["p"] is not None else ""
        entries.append(Entry(brief(round(row["share_percent"], 1)), said))
    return (Entry(METRICS[metric].label), *entries, Entry(str(max(row["n"] for row in own.values()))))
