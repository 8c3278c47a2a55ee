"""The papers' own figures of these runs, the printed panel next to ours: 000's 10 to 12, 002's 6 to 11.

Machines differ, so every panel has a scale of its own: what can be compared is how far brokers stand apart in it.
"""

from collections.abc import Iterable, Sequence

import altair as alt

from brokerlab.published.values import broker_name
from brokerlab.report.cells import CellResult, Group
from brokerlab.report.charts import Figure, drawn_figure
from brokerlab.report.look import INK, PALETTE, colour, cycle, faceted, latency_axis, styled
from brokerlab.report.paper_tables import LATENCY, PROJECTED
from brokerlab.report.results import Results, Row

# Figures of bars: name, what it stands for, metric, class of brokers.
_BARS = (
    ("002-fig6", "002's Figures 6 and 9: projected rate of non-scalable ones, 1/s", "002", PROJECTED, "non-scalable"),
    ("002-fig8", "002's Figures 8 and 11: projected rate of scalable brokers, 1/s", "002", PROJECTED, "scalable"),
    ("002-fig7", "002's Figures 7 and 10: average latency, ms", "002", LATENCY, ""),
    ("000-fig11", "000's Figure 11: rate to the clients, 1/s", "000", "throughput_brk_to_sub", ""),
    ("000-fig12", "000's Figure 12: memory, % of 8 GB as printed, MiB of the broker here", "000", "memory_used", ""),
)  # fmt: skip
_COLOURS = (*PALETTE, "#7FA31C", "#3B4A8A", "#A04668")  # a paper's brokers and ours are many
_PANEL_WIDTH, _PANEL_HEIGHT, _IN_A_ROW = 290, 170, 3


def published_figures(results: Results, compared: list[Group]) -> list[Figure]:
    """The figures of those papers beside which the study stands, in the papers' order."""
    found = []
    boxes = box_rows(results, compared)
    if boxes and any(row["source"].startswith("000/") for row in results.published):
        text = (
            "000's Figure 10: time from publisher to subscriber; box: quartiles, tick: median, whiskers: within 1.5 "
            "boxes, points: beyond, diamonds: minimum, median and maximum as the paper prints them."
        )
        found.append(drawn_figure("000-fig10", _box_chart(boxes), text))
    for name, text, paper, metric, kind in _BARS:
        rows = bar_rows(results.rankings, paper=paper, metric=metric, kind=kind)
        if rows:
            found.append(drawn_figure(name, _bar_chart(rows), text + "; every panel has a scale of its own."))
    return found


def bar_rows(rankings: Sequence[Row], *, paper: str, metric: str, kind: str) -> list[Row]:
    """Rows (panel, broker, qos, value) of a paper and of ours; none where one of the two has nothing."""
    shown = [
        row
        for row in rankings
        if row["metric"] == metric and row["of"] in (paper, "ours") and (not kind or row["kind"] == kind)
    ]
    if {row["of"] for row in shown} != {paper, "ours"}:
        return []
    return [
        {
            "panel": ", ".join(part for part in (_whose(row["of"]), row["circumstances"]) if part),
            "broker": row["name"] if row["of"] == "ours" else row["broker"],
            "qos": f"QoS {row['qos'].replace('|', ', ')}" if row["qos"] else "any QoS",
            "value": row["value"],
            "about": "extrapolation" if row["extrapolates"] else row["version"] or "",
        }
        for row in sorted(shown, key=_panel_order)
    ]


def _panel_order(row: Row) -> tuple[bool, bool, str, str]:
    """The paper before ours, and its local panel before the one of the cloud."""
    return row["of"] == "ours", row["circumstances"] != "local", row["circumstances"] or "", row["qos"] or ""


def _whose(of: str) -> str:
    return "ours" if of == "ours" else f"{of} printed"


def _bar_chart(rows: list[Row]) -> alt.TopLevelMixin:
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    brokers = sorted({row["broker"] for row in rows}, key=str.lower)
    bars = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("qos:N").axis(title=None, labelAngle=0, ticks=False),
            xOffset=alt.XOffset("broker:N").sort(brokers),
            y=alt.Y("value:Q").axis(title=None, format="~s", tickCount=5),
            color=alt.Color("broker:N")
            .scale(domain=brokers, range=cycle(_COLOURS, brokers))
            .legend(title=None, columns=6, symbolType="square", symbolSize=90),
            tooltip=["panel:N", "broker:N", "qos:N", alt.Tooltip("value:Q", format=",.4~r"), "about:N"],
        )
        .properties(width=_PANEL_WIDTH, height=_PANEL_HEIGHT)
    )
    header = alt.Header(title=None, labelFontSize=12, labelFontWeight="bold", labelColor=INK)
    facets = bars.facet(alt.Facet("panel:N").sort(panels).header(header), columns=_IN_A_ROW, spacing=40)
    return styled(facets.resolve_scale(y="independent", x="independent", xOffset="independent"))


def box_rows(results: Results, compared: list[Group]) -> list[Row]:
    """Rows of kind box, outlier and printed, one panel per group; a logarithmic axis has no place for zero."""
    boxes = {row["cell"]: row for row in results.boxes}
    rows: list[Row] = []
    for group in compared:
        for cell in group.cells:
            box = boxes.get(cell.id)
            if box is None or box["min_ms"] <= 0:
                continue
            about = {"group": group.label or "all", "broker": cell.broker}
            names = ("q1_ms", "median_ms", "q3_ms", "low_whisker_ms", "high_whisker_ms", "outliers", "n")
            rows.append({**about, "kind": "box", **{name: box[name] for name in names}})
            rows.extend({**about, "kind": "outlier", "value": value} for value in box["outliers_ms"] if value > 0)
            rows.extend({**about, "kind": "printed", **one} for one in _printed_times(results.published, cell))
    return rows


def _printed_times(rows: Iterable[Row], cell: CellResult) -> list[Row]:
    driver = cell.runs[0].get("driver") or cell.broker
    return [
        {"value": row["printed_value"], "statistic": f"{row['statistic']} as printed"}
        for row in {(row["statistic"], row["printed_value"]): row for row in rows if _is_time(row)}.values()
        if broker_name(row["printed_broker"]) == driver
        if row["qos"] is None or str(cell.qos) in row["qos"].split("|")
    ]


def _is_time(row: Row) -> bool:
    is_value = row["printed_value"] is not None and row["printed"][:1] not in "<>~"
    return is_value and row["source"].startswith("000/") and row["metric"] == "responsiveness_pub_to_sub"


def _box_chart(rows: list[Row]) -> alt.TopLevelMixin:
    brokers = sorted({row["broker"] for row in rows})
    edges = [row[name] for row in rows for name in ("low_whisker_ms", "high_whisker_ms", "value") if row.get(name)]
    domain = [min(edges) / 1.2, max(edges) * 1.2]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("broker:N").sort(brokers).axis(title=None, labelFontSize=12, grid=False, ticks=False, domain=False),
        color=colour(brokers).legend(None),
    )
    box, told = base.transform_filter("datum.kind == 'box'"), [alt.Tooltip("broker:N")]
    told += [alt.Tooltip(f"{name}_ms:Q", title=f"{name}, ms", format=".3~r") for name in ("q1", "median", "q3")]
    told += [alt.Tooltip("outliers:Q"), alt.Tooltip("n:Q", title="messages")]
    layers = alt.layer(
        box.mark_rule(strokeWidth=1.4).encode(x=latency_axis("low_whisker_ms", domain), x2="high_whisker_ms:Q"),
        box.mark_bar(height=14, opacity=0.55).encode(x=latency_axis("q1_ms", domain), x2="q3_ms:Q", tooltip=told),
        box.mark_tick(thickness=2.5, size=18).encode(x=latency_axis("median_ms", domain), tooltip=told),
        base.transform_filter("datum.kind == 'outlier'")
        .mark_point(size=5, opacity=0.45)
        .encode(x=latency_axis("value", domain)),
        base.transform_filter("datum.kind == 'printed'")
        .mark_point(size=70, shape="diamond", filled=False, strokeWidth=1.6)
        .encode(x=latency_axis("value", domain), color=alt.value(INK), tooltip=["broker:N", "statistic:N", "value:Q"]),
    )
    return faceted(layers, rows, height=max(60, 30 * len(brokers)))
