"""Single messages as paper 003 draws them: times between arrivals (its Figure 6) and each latency (its Figure 7)."""

from collections.abc import Iterable, Mapping

import altair as alt

from brokerlab.report.cells import CellResult, Group, level_text
from brokerlab.report.ensemble_charts import Chart
from brokerlab.report.look import DASHES, colour, cycle, faceted
from brokerlab.report.numbers import brief, known, listed
from brokerlab.report.results import Results, Row

_FEW = 25  # messages that the paper's Figure 6 shows
_FROM_THE_START_MS = 1000.0  # the interval at which it shows the first of them; at shorter ones the last
_FIGURE_7_MS = 500.0


def charts(results: Results, compared: list[Group]) -> list[Chart]:
    """Those of the tests that the study has; none of tables that hold no single messages."""
    traces: dict[str, list[Row]] = {}
    for row in results.traces:
        traces.setdefault(row["run_id"], []).append(row)
    cells = [cell for group in compared for cell in group.cells]
    made = (_arrivals(cells, traces), _latencies(cells, traces))
    return [chart for chart in made if chart is not None]


def _of_test(cells: Iterable[CellResult], role: str) -> list[tuple[CellResult, float]]:
    """The cells of a test, each with its interval in ms, the shortest first."""
    found = []
    for cell in cells:
        levels = _levels(cell)
        rate_per_s = float(levels.get("rate") or cell.runs[0].get("rate_per_s") or 0)
        if levels.get("role") == role and rate_per_s:
            found.append((cell, 1000 / rate_per_s))
    return sorted(found, key=lambda each: each[1])


def _levels(cell: CellResult) -> Mapping[str, str]:
    levels: Mapping[str, str] = cell.runs[0]["levels"] or {}
    return levels


def _first_run(cell: CellResult, traces: Mapping[str, list[Row]]) -> list[Row]:
    """The messages of the first run of a cell that has any, as they came: the paper has one run of each."""
    ids = sorted(str(run["run_id"]) for run in cell.runs if run["run_id"] in traces)
    return sorted(traces[ids[0]], key=lambda row: (row["subscriber"], row["publisher"], row["place"])) if ids else []


def _title(cell: CellResult, interval_ms: float, *without: str) -> str:
    others = [level_text(name, value) for name, value in cell.levels if name not in ("role", "rate", *without)]
    return ", ".join([f"every {brief(interval_ms)} ms", *others])


# -- Figure 6 ---------------------------------------------------------------------------------------------------------


def _arrivals(cells: list[CellResult], traces: Mapping[str, list[Row]]) -> Chart | None:
    rows: list[Row] = []
    for cell, interval_ms in _of_test(cells, "one-way"):
        if cell.qos == 0:  # as in the paper's test 1
            all_of_it = [row for row in _first_run(cell, traces) if known(row["apart_ms"]) is not None]
            shown = all_of_it[:_FEW] if interval_ms >= _FROM_THE_START_MS else all_of_it[-_FEW:]
            title = _title(cell, interval_ms, "qos", "inflight")
            about: Row = {"group": title, "broker": cell.broker, "interval_ms": interval_ms}
            rows += [{**about, "x": row["place"], "y": row["apart_ms"], "flow": _flow(row)} for row in shown]
    if not rows:
        return None
    intervals = listed([brief(each) for each in dict.fromkeys(row["interval_ms"] for row in rows)])
    caption = (
        "As Figure 6 of paper 003: the time between one arrival and the next, one way at QoS 0, here every "
        f"{intervals} ms: the last {_FEW} messages of a run at most, at an interval of 1,000 ms the first. The first "
        "run of each cell, valid or not."
    )
    y = alt.Y("y:Q").axis(title="since the arrival before it, ms")
    return "arrivals", _lines(rows, "arrival", y), "Time between arrivals, message by message.", caption


# -- Figure 7 ---------------------------------------------------------------------------------------------------------


def _latencies(cells: list[CellResult], traces: Mapping[str, list[Row]]) -> Chart | None:
    found = _of_test(cells, "echo")
    if not found:
        return None
    nearest_ms = min((interval_ms for _, interval_ms in found), key=lambda each: abs(each - _FIGURE_7_MS))
    rows: list[Row] = []
    for cell, interval_ms in found:
        if interval_ms == nearest_ms:
            about = {"group": _title(cell, interval_ms), "broker": cell.broker}
            rows += [
                {**about, "x": row["message"], "y": row["latency_ms"], "flow": _flow(row)}
                for row in _first_run(cell, traces)
                if (known(row["latency_ms"]) or 0) > 0  # a logarithmic axis has no place for others
            ]
    if not rows:
        return None
    other = "" if nearest_ms == _FIGURE_7_MS else f" (here {brief(nearest_ms)} ms, the study's nearest)"
    caption = (
        "As Figure 7 of paper 003: the latency of every message there and back through a device, at an interval of "
        f"{brief(_FIGURE_7_MS)} ms{other}. A line that climbs is a queue. The first run of each cell, valid or not; a "
        "message that did not come leaves no point."
    )
    y = alt.Y("y:Q").scale(type="log").axis(title="latency, ms (log scale)")
    return "messages", _lines(rows, "message", y), "Latency message by message, by QoS and window.", caption


def _flow(row: Row) -> str:
    return f"{row['publisher']} to {row['subscriber']}"


def _lines(rows: list[Row], counted: str, y: alt.Y) -> alt.TopLevelMixin:
    """One line per broker and flow over the number of what is counted."""
    brokers = sorted({row["broker"] for row in rows})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q").scale(zero=False, nice=False).axis(title=counted, tickMinStep=1),
        y=y,
        color=colour(brokers).legend(title=None, symbolType="stroke"),
        detail="flow:N",
    )
    tooltip = ["broker:N", alt.Tooltip("x:Q", title=counted), alt.Tooltip("y:Q", title="ms", format=".4~r")]
    dash = alt.StrokeDash("broker:N").scale(domain=brokers, range=cycle(DASHES, brokers)).legend(title=None)
    lines = base.mark_line(strokeWidth=1.5, opacity=0.85).encode(strokeDash=dash)
    points = base.mark_point(filled=True, size=16).encode(tooltip=tooltip)
    return faceted(alt.layer(lines, points), rows, height=200)
