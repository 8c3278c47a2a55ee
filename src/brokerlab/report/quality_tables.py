"""The tables of a classification's report."""

from brokerlab.report.numbers import NOT_KNOWN, brief, count, fixed, listed
from brokerlab.report.quality_results import PAPER, QualityResults
from brokerlab.report.results import Row
from brokerlab.report.table import Entry, Table, number, text

_SAME = 1e-9
_TABLES = {f"000/table{number}": f"Table {number}" for number in range(4, 9)}


def span(low: float | None, high: float | None, *, places: int = 2) -> str:
    """One number, or the two ends of what is possible."""
    if low is None or high is None:
        return NOT_KNOWN
    return fixed(low, places) if high - low < _SAME else f"{fixed(low, places)} to {fixed(high, places)}"


def words(name: str) -> str:
    return name.replace("_", " ")


def ranking(results: QualityResults, sheets: str) -> Table:
    """One row per broker of the set, the best first."""
    columns = (
        number("Rank"), text("Broker"), number("Score"), number("Possible ranks"),
        number("Features in doubt"), text("Chosen"),
    )  # fmt: skip
    rows = tuple(_rank_row(row) for row in results.scores if row["sheets"] == sheets)
    return Table(columns, (rows,) if rows else ())


def _rank_row(row: Row) -> tuple[Entry, ...]:
    places = (row["rank_best"], row["rank_worst"])
    chosen = ("yes", "best") if row["selection_is_certain"] else ("yes, if the unknown allows", "warn")
    return (
        Entry(count(row["rank"])),
        Entry(row["broker"], row["version"] or ""),
        Entry(span(row["score_low"], row["score_high"])),
        Entry(count(places[0]) if places[0] == places[1] else f"{places[0]} to {places[1]}"),
        Entry(count(row["unknown"]), mark="warn" if row["unknown"] else "quiet"),
        Entry(*(chosen[0], "", chosen[1])) if row["selected"] else Entry(""),
    )


def weights(results: QualityResults, sheets: str) -> Table:
    """One row per broker, one column per feature: its weight."""
    own = [row for row in results.quality if row["sheets"] == sheets]
    columns = (text("Broker"), *(number(words(feature).capitalize()) for feature in results.features))
    by_broker = {(row["broker"], row["feature"]): row for row in own}
    brokers = [row["broker"] for row in results.scores if row["sheets"] == sheets]
    rows = tuple(
        (Entry(name), *(_weight(by_broker.get((name, each))) for each in results.features)) for name in brokers
    )
    return Table(columns, (rows,) if rows else ())


def _weight(row: Row | None) -> Entry:
    if row is None:
        return Entry(NOT_KNOWN, mark="quiet")
    mark = "warn" if row["differs"] else "quiet" if row["level_low"] is None else ""
    below = "measured" if row["measured"] is not None else ""
    return Entry(span(row["weight_low"], row["weight_high"]), below, mark)


def differences(results: QualityResults) -> Table:
    """Where what was measured is not what the sheet says."""
    columns = (
        text("Broker"),
        text("Feature"),
        number("Sheet"),
        number("Measured"),
        text("Listed"),
        text("Seen"),
        text("By"),
    )
    rows = tuple(
        (
            Entry(row["broker"]),
            Entry(words(row["feature"])),
            Entry(span(row["sheet_low"], row["sheet_high"], places=0)),
            Entry(brief(row["measured"])),
            Entry("; ".join(row["facts"]) or NOT_KNOWN),
            Entry("; ".join(row["measured_facts"]) or NOT_KNOWN),
            Entry(next((source for source in row["sources"] if source.startswith(("driver of", "probe of"))), "")),
        )
        for row in results.quality
        if row["differs"]
    )
    return Table(columns, (rows,) if rows else ())


def shares(results: QualityResults, sheets: str) -> Table:
    """Outcomes of every feature in % of the brokers; of the paper beside what it prints."""
    own = [row for row in results.levels if row["sheets"] == sheets]
    is_paper = sheets == PAPER
    printed = (text("Printed in"), number("Printed", "%"), text("")) if is_paper else ()
    columns = (text("Feature"), text("Outcome"), number("Brokers"), number("Share", "%"), *printed)
    blocks = []
    for feature in dict.fromkeys(row["feature"] for row in own):
        blocks.append(tuple(_share_row(row, is_paper) for row in own if row["feature"] == feature))
    return Table(columns, tuple(blocks))


def _share_row(row: Row, is_paper: bool) -> tuple[Entry, ...]:
    found = (
        Entry(words(row["feature"])),
        Entry(row["label"]),
        Entry(count(row["brokers"])),
        Entry(count(row["percent"])),
    )
    if not is_paper:
        return found
    verdict = Entry("agrees", mark="good") if row["agrees"] else Entry(_disagreement(row), mark="bad")
    printed = Entry(NOT_KNOWN if row["printed_percent"] is None else count(row["printed_percent"]))
    return (*found, Entry(_TABLES.get(row["table"], row["table"] or "")), printed, verdict)


def _disagreement(row: Row) -> str:
    return f"printed for “{row['printed_for']}”: the rows are swapped" if row["printed_for"] else "differs"


def groups(results: QualityResults, sheets: str) -> Table:
    """One row per group: who is in it, who is not, and of whom it is not known."""
    columns = (text("Group"), number("Members"), text("Brokers"), text("Not known"))
    own = [row for row in results.groups if row["sheets"] == sheets]
    rows = []
    for group in dict.fromkeys(row["group"] for row in own):
        members = [row["broker"] for row in own if row["group"] == group and row["member"]]
        unknown = [row["broker"] for row in own if row["group"] == group and row["member"] is None]
        rows.append(
            (
                Entry(words(group)),
                Entry(count(len(members))),
                Entry(", ".join(members)),
                Entry(", ".join(unknown), mark="quiet"),
            )
        )
    return Table(columns, (tuple(rows),) if rows else ())


def agreement(results: QualityResults) -> Table:
    columns = (
        text("Set"),
        text("Feature"),
        number("Raters"),
        number("Judged by two or more"),
        number("Alpha"),
        number("Interval"),
        text(""),
    )
    rows = tuple(
        (
            Entry(row["sheets"]),
            Entry(words(row["feature"])),
            Entry(count(row["raters"])),
            Entry(count(row["units"])),
            Entry(NOT_KNOWN if row["alpha"] is None else fixed(row["alpha"], 2)),
            Entry(span(row["low"], row["high"])),
            Entry(row["why_not"] or "", mark="quiet"),
        )
        for row in results.agreement
        if row["sheets"] != PAPER
    )
    return Table(columns, (rows,) if rows else ())


def mapping(features: list[Row]) -> Table:
    """The model: every feature with its place in the standard."""
    columns = (
        text("Feature"),
        text("Characteristic"),
        text("Sub-characteristic"),
        text("Group"),
        text("Weight"),
        text("Metric from"),
    )
    rows = tuple(
        tuple(
            Entry(str(row[name]))
            for name in ("title", "characteristic", "subcharacteristic", "group", "weight", "formula")
        )
        for row in features
    )
    return Table(columns, (rows,) if rows else ())


def sources(results: QualityResults, sheets: str) -> Table:
    """Every answer with its source."""
    columns = (text("Broker"), text("Feature"), number("Level"), text("Listed"), text("Because"), text("Source"))
    rows = tuple(
        (
            Entry(row["broker"]),
            Entry(words(row["feature"])),
            Entry(span(row["level_low"], row["level_high"], places=0)),
            Entry("; ".join(row["facts"])),
            Entry("; ".join(row["because"])),
            Entry("; ".join(row["sources"])),
        )
        for row in results.quality
        if row["sheets"] == sheets
    )
    return Table(columns, (rows,) if rows else ())


def claims(results: QualityResults) -> Table:
    columns = (text("Section"), text("The paper says"), text(""), text("Its numbers say"))
    marks = {"holds": "good", "does not hold": "bad", "undecided": "warn"}
    rows = tuple(
        (
            Entry(row["section"]),
            Entry(row["text"]),
            Entry(row["verdict"], mark=marks[row["verdict"]]),
            Entry(row["numbers"] or ""),
        )
        for row in results.claims
    )
    return Table(columns, (rows,) if rows else ())


def passes(results: QualityResults) -> Table:
    """One row per word of the audit, pass by pass."""
    columns = (number("Pass"), text("At", "UTC"), text("By"), text("Audit"), text("Reasons"))
    rows = tuple(
        (
            Entry(count(one["pass"])),
            Entry(word["at"][:19].replace("T", " ")),
            Entry(word["by"]),
            Entry("satisfactory", mark="good")
            if word["satisfactory"]
            else Entry(f"back to step {word['back_to']}", mark="bad"),
            Entry("; ".join(word["reasons"])),
        )
        for one in results.passes
        for word in one["audits"]
    )
    return Table(columns, (rows,) if rows else ())


def lead(results: QualityResults) -> str:
    """The answer in a sentence: of the first set that is not the paper's own."""
    name = results.sets[0]
    chosen = [row for row in results.scores if row["sheets"] == name and row["selected"]]
    told = listed([f"{row['broker']} ({span(row['score_low'], row['score_high'])})" for row in chosen])
    total = sum(row["sheets"] == name for row in results.scores)
    most = chosen[0]["most"] if chosen else 0
    return f"Of {total} brokers, {told} {'comes' if len(chosen) == 1 else 'come'} first, of {most} possible."
