"""Ensembles as BORDER draws them (paper 001): delay by locality, traffic by phase, CPU over memory, and by rate.

Its Figures 4 to 8 have no printed values; what it says of them in words is `brokerlab published 001 intext`.
"""

from collections.abc import Iterable

import altair as alt

from brokerlab.report.cells import CellResult, Group, level_text, level_value
from brokerlab.report.look import INK, PALETTE, colour, faceted, styled
from brokerlab.report.numbers import known
from brokerlab.report.results import Results, Row

_PHASES = {"idle": "control (idle)", "subscribe": "subscriptions, above idle", "measure": "publications, above idle"}
_PER_RATE = (
    ("latency.mean", "mean latency, ms"),
    ("resources.broker_cpu_percent", "CPU of all nodes, % of a core"),
    ("resources.broker_rss_max_mib", "memory of all nodes, MiB"),
)
Chart = tuple[str, alt.TopLevelMixin, str, str]  # name, chart, description for who cannot see it, caption


def charts(results: Results, compared: list[Group]) -> list[Chart]:
    """Those that these results allow: none of a single node."""
    cells = [cell for group in compared for cell in group.cells]
    if not any("crossing" in manifest for manifest in results.manifests.values()):
        return []
    brokers = sorted({cell.broker for cell in cells})
    made = (_delay(cells, brokers), _traffic(results, cells), _resources(results, cells, brokers))
    return [chart for chart in (*made, _rates(cells, brokers)) if chart is not None]


def _others(cell: CellResult, *without: str) -> str:
    """The levels of a cell but some, as the title of a panel."""
    return ", ".join(level_text(name, value) for name, value in cell.levels if name not in without) or "all"


def _level(cell: CellResult, name: str) -> str | None:
    value = dict(cell.levels).get(name)
    return None if value is None else level_value(name, value)


# -- Figure 4 ---------------------------------------------------------------------------------------------------------


def _delay(cells: Iterable[CellResult], brokers: list[str]) -> Chart | None:
    rows: list[Row] = []
    for cell in cells:
        estimate, locality = cell.estimates.get("latency.mean"), _level(cell, "locality")
        if estimate is not None and locality is not None:
            limits = {"low": estimate.least, "high": estimate.high, "n": estimate.n, "mean": estimate.mean_text}
            about = {"group": _others(cell, "locality"), "broker": cell.broker, "locality": locality}
            rows.append({**about, "value": estimate.mean, **limits})
    if not rows:
        return None
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("locality:N")
        .sort(_in_order(rows, "locality"))
        .axis(title="delivered at the publisher's node", labelAngle=0),
        xOffset=alt.XOffset("broker:N").sort(brokers),
        color=colour(brokers).legend(title=None),
    )
    bars = base.mark_bar(opacity=0.85).encode(
        y=alt.Y("value:Q").axis(title="mean delay, ms"),
        tooltip=["broker:N", "locality:N", alt.Tooltip("mean:N"), alt.Tooltip("n:Q", title="runs")],
    )
    limits = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5, color=INK)
        .encode(y="low:Q", y2="high:Q", color=alt.value(INK))
    )
    caption = (
        "As Figure 4 of paper 001: mean delay from end to end over valid runs, with its interval where a cell has more "
        "than one, by the share of messages that stay at one node. Every panel has a scale of its own."
    )
    return "delay", _independent(alt.layer(bars, limits), rows), "Mean delay by locality and broker.", caption


def _in_order(rows: list[Row], column: str) -> list[str]:
    return sorted({str(row[column]) for row in rows}, key=lambda text: (len(text), text))


# -- Figure 5 ---------------------------------------------------------------------------------------------------------


def _traffic(results: Results, cells: Iterable[CellResult]) -> Chart | None:
    totals: dict[tuple[str, str, str], float] = {}  # by cell, run and phase, all routers together
    for row in results.overhead:
        if row["is_between_sites"] and row["phase"] in _PHASES:
            value = known(row["bits_per_s" if row["phase"] == "idle" else "above_idle_bits_per_s"])
            if value is not None:
                key = (row["cell"], row["run_id"], row["phase"])
                totals[key] = totals.get(key, 0.0) + value / 1000
    rows: list[Row] = []
    for cell in cells:
        bars = [(run, phase, value) for (name, run, phase), value in totals.items() if name == cell.id]
        rows += [
            {"group": _others(cell, "qos"), "broker": cell.broker, "QoS": str(cell.qos),
             "bar": f"QoS {cell.qos}, run {run.rpartition('/')[2]}",
             "phase": _PHASES[phase], "place": list(_PHASES).index(phase), "value": max(value, 0.0)}
            for run, phase, value in bars
        ]  # fmt: skip
    if not rows:
        return None
    phases = list(_PHASES.values())
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("broker:N").axis(title=None, labelAngle=0),
            xOffset=alt.XOffset("bar:N"),
            y=alt.Y("value:Q").stack("zero").axis(title="between sites, kbit/s"),
            color=alt.Color("phase:N").scale(domain=phases, range=list(PALETTE[: len(phases)])).legend(title=None),
            order="place:O",
            tooltip=["broker:N", "QoS:N", "phase:N", alt.Tooltip("value:Q", format=".4~r", title="kbit/s")],
        )
    )
    caption = (
        "As Figure 5 of paper 001: what routers got from other routers, by phase, over the time of the phase; one bar "
        "for each run, QoS 0 to 2 from left to right. What an idle ensemble says is taken off the phases after it, "
        "where that leaves more than nothing."
    )
    return "between", faceted(chart, rows, height=200), "Traffic between sites by phase and broker.", caption


# -- Figure 6 ---------------------------------------------------------------------------------------------------------


def _resources(results: Results, cells: Iterable[CellResult], brokers: list[str]) -> Chart | None:
    names = {cell.id: cell.broker for cell in cells}
    rows: list[Row] = [
        {"group": row["phase"], "broker": names[row["cell"]], "run": row["run_id"], "node": row["node"],
         "cpu": row["cpu_percent"], "memory": row["rss_mean_mib"]}
        for row in results.resources
        if row["node"].startswith("broker/") and row["phase"] in _PHASES and row["cell"] in names
        and known(row["cpu_percent"]) is not None and known(row["rss_mean_mib"])
    ]  # fmt: skip
    if not rows:
        return None
    rows.sort(key=lambda row: list(_PHASES).index(row["group"]))
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(size=28, opacity=0.6)
        .encode(
            x=alt.X("memory:Q").scale(type="log").axis(title="memory, MiB (log scale)"),
            y=alt.Y("cpu:Q").scale(type="symlog", constant=1).axis(title="CPU, % of a core"),
            color=colour(brokers).legend(title=None),
            shape=alt.Shape("broker:N").scale(domain=brokers).legend(title=None),
            tooltip=[
                "broker:N",
                "run:N",
                "node:N",
                alt.Tooltip("cpu:Q", format=".3~r"),
                alt.Tooltip("memory:Q", format=".4~r"),
            ],
        )
    )
    caption = (
        "As Figure 6 of paper 001: CPU over memory by phase, one point for each node of each run, bridges of our own "
        "among them. The best is lower left."
    )
    return "use", faceted(chart, rows, height=220), "CPU over memory of every node by phase.", caption


# -- Figures 7 and 8 --------------------------------------------------------------------------------------------------


def _rates(cells: Iterable[CellResult], brokers: list[str]) -> Chart | None:
    rows: list[Row] = []
    for cell in cells:
        rate = _number(dict(cell.levels).get("rate"))
        for metric, title in _PER_RATE if rate is not None else ():
            if (estimate := cell.estimates.get(metric)) is not None:
                rows.append({"group": title, "broker": cell.broker, "rate": rate, "value": estimate.mean,
                             "mean": estimate.mean_text, "low": estimate.least, "high": estimate.high,
                             "setting": _others(cell, "rate")})  # fmt: skip
    if not rows:
        return None
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("rate:Q").scale(type="log").axis(title="messages per second and publisher (log scale)", format="~r"),
        color=colour(brokers).legend(title=None),
        detail="setting:N",
    )
    y = alt.Y("value:Q").axis(title=None)
    tooltip: list[str | alt.Tooltip] = ["broker:N", "setting:N", "rate:Q", "mean:N"]
    layers = alt.layer(
        base.mark_line(opacity=0.7).encode(y=y),
        base.mark_point(filled=True, size=45).encode(y=y, tooltip=tooltip),
        base.transform_filter("isValid(datum.low)").mark_rule().encode(y="low:Q", y2="high:Q"),
    )
    caption = "As Figures 7 and 8 of paper 001: delay, CPU and memory over the rate of publishing."
    return "rates", _independent(layers, rows), "Delay and use of resources over the rate.", caption


def _number(level: str | None) -> float | None:
    try:
        return None if level is None else float(level)
    except ValueError:
        return None


def _independent(chart: alt.LayerChart | alt.FacetChart, rows: list[Row]) -> alt.TopLevelMixin:
    """Panels that share no axis: each has a unit or a size of its own."""
    labels = list(dict.fromkeys(row["group"] for row in rows))
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight="bold", labelColor=INK)
    sized = chart.properties(width=300, height=220)
    facet = sized.facet(alt.Facet("group:N").sort(labels).header(header), columns=3).resolve_scale(y="independent")
    return styled(facet)
