"""Messages that come back, as paper 003 draws them: least, mean and largest latency (its Figure 8)."""

import altair as alt

from brokerlab.report.cells import CellResult, Group, level_text
from brokerlab.report.cloud import is_cloud
from brokerlab.report.ensemble_charts import Chart
from brokerlab.report.look import colour, faceted
from brokerlab.report.numbers import known
from brokerlab.report.results import Results, Row

_TIMES = ("min", "mean", "max")


def charts(results: Results, compared: list[Group]) -> list[Chart]:
    """None where nothing came back."""
    if not is_cloud(results):
        return []
    cells = {cell.id: cell for group in compared for cell in group.cells}
    rows: list[Row] = [
        {**_about(cells[row["cell"]]), **{name: row[f"{name}_ms"] for name in _TIMES}, "run": row["run_id"]}
        for row in results.latency
        if row["cell"] in cells and all(known(row[f"{name}_ms"]) for name in _TIMES)
    ]
    if not rows:
        return []
    brokers = sorted({row["broker"] for row in rows})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("setting:N").sort(list(dict.fromkeys(row["setting"] for row in rows))).axis(title=None, labelAngle=-30),
        xOffset=alt.XOffset("broker:N").sort(brokers),
        color=colour(brokers).legend(title=None),
    )
    time = alt.Scale(type="log")
    tooltip = ["broker:N", "run:N", *(alt.Tooltip(f"{name}:Q", format=".4~r") for name in _TIMES)]
    spans = base.mark_rule(strokeWidth=2).encode(
        y=alt.Y("min:Q").scale(time).axis(title="latency, ms (log scale)"), y2="max:Q"
    )
    means = base.mark_point(filled=True, size=45).encode(y=alt.Y("mean:Q").scale(time), tooltip=tooltip)
    caption = (
        "As Figure 8 of paper 003: least, mean (point) and largest latency of the messages of a run, by test, "
        "interval, QoS and messages in flight; every run, valid or not."
    )
    chart = faceted(alt.layer(spans, means), rows, height=230)
    return [("tests", chart, "Least, mean and largest latency by test, QoS and window.", caption)]


def _about(cell: CellResult) -> Row:
    levels = dict(cell.levels)
    setting = ", ".join(level_text(name, value) for name, value in cell.levels if name not in ("role", "rate"))
    group = ", ".join(level_text(name, levels[name]) for name in ("role", "rate") if name in levels)
    return {"group": group or "all", "setting": setting, "broker": cell.broker}
