"""The charts, as Vega-Lite specifications and as static SVG.

The live chart and the static one come from one specification, so that they say the same.
"""

import re
from dataclasses import dataclass

import altair as alt
import vl_convert

from brokerlab.record.manifest import Json
from brokerlab.report import cloud_charts, ensemble_charts, gateway_charts, trace_charts
from brokerlab.report.cells import Group
from brokerlab.report.distribution import curves
from brokerlab.report.load_chart import load_chart, load_points
from brokerlab.report.look import DASHES, INK, colour, cycle, faceted, latency_axis
from brokerlab.report.numbers import NOT_KNOWN, known
from brokerlab.report.results import Results, Row

_SHARES = (1, 0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001, 0.000001)


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    spec: Json
    svg: str
    description: str
    caption: str = ""  # of those that a paper draws alike; the page has that of the others


def figures(results: Results, compared: list[Group]) -> list[Figure]:
    """The charts that these results allow: none without latencies."""
    brokers = sorted({cell.broker for group in compared for cell in group.cells})
    found = []
    points = curves(results, compared)
    if points:
        text = "Share of messages delivered within a latency, one curve per valid run."
        found.append(drawn_figure("distribution", _distribution_chart(points, brokers), text))
    summaries = _summaries(results, compared)
    if summaries:
        text = "Median and 99th percentile of latency with intervals, per broker."
        found.append(drawn_figure("summary", _summary_chart(summaries, brokers), text))
    trials = load_points(results, compared)
    if trials:
        text = "p99 of latency over the rate that was asked, one point per trial of a search, one curve per valid run."
        found.append(drawn_figure("load", load_chart(trials, brokers), text))
    return found


def paper_figures(results: Results, compared: list[Group]) -> list[Figure]:
    """Charts as papers draw them, where these results are of such a study."""
    made = [*ensemble_charts.charts(results, compared), *gateway_charts.charts(results, compared)]
    made += [*trace_charts.charts(results, compared), *cloud_charts.charts(results, compared)]
    return [drawn_figure(name, chart, description, caption) for name, chart, description, caption in made]


def drawn_figure(name: str, chart: alt.TopLevelMixin, description: str, caption: str = "") -> Figure:
    spec: Json = chart.to_dict()
    spec.pop("$schema")  # an address that nothing needs to read
    svg: str = vl_convert.vegalite_to_svg(spec)
    return Figure(name, spec, _tidied(svg, name), description, caption)


def _tidied(svg: str, name: str) -> str:
    """Shorter paths, and identifiers that do not clash with those of another chart on the page."""
    svg = re.sub(r' d="[^"]+"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match.group()), svg)
    return re.sub(r"(id=\"|url\(#)(clip|gradient)", rf"\1{name}-\2", svg)


def _distribution_chart(points: list[Row], brokers: list[str]) -> alt.TopLevelMixin:
    picked = alt.selection_point(fields=["broker"], bind="legend", name="picked")
    x_domain = [min(p["latency_ms"] for p in points), max(p["latency_ms"] for p in points)]
    lowest = min(p["slower"] for p in points)
    lines = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=1.6, strokeJoin="round", interpolate="linear")
        .encode(
            x=latency_axis("latency_ms", x_domain),
            y=alt.Y("slower:Q")
            .scale(type="log", reverse=True, domain=[lowest, 1], nice=False)
            .axis(
                values=[share for share in _SHARES if share >= lowest * 0.99],
                labelExpr="format(100 * (1 - datum.value), '.4~f') + ' %'",
                title="delivered within",
            ),
            color=colour(brokers).legend(title=None),
            strokeDash=alt.StrokeDash("broker:N")
            .scale(domain=brokers, range=cycle(DASHES, brokers))
            .legend(title=None),
            detail="run:N",
            opacity=alt.when(picked).then(alt.value(0.85)).otherwise(alt.value(0.1)),
            tooltip=[alt.Tooltip("broker:N"), alt.Tooltip("run:N")],
        )
        .add_params(picked)
    )
    return faceted(lines, points, height=250)


def _summaries(results: Results, compared: list[Group]) -> list[Row]:
    """Rows of kind "cell" (mean and interval) and of kind "run" (one value), as the tables hold them."""
    rows: list[Row] = []
    for group in compared:
        for cell in group.cells:
            for metric, column, name in (("latency.p50", "p50_ms", "p50"), ("latency.p99", "p99_ms", "p99")):
                estimate = cell.estimates.get(metric)
                if estimate is None or estimate.mean <= 0:
                    continue  # a logarithmic axis has no place for zero; the table shows it
                about = {"group": group.label, "broker": cell.broker, "quantile": name}
                interval = {"low": estimate.least, "high": estimate.high, "n": estimate.n}
                said = {"mean": estimate.mean_text, "interval": estimate.below or NOT_KNOWN}
                rows.append({**about, "kind": "cell", "value": estimate.mean, **interval, **said})
                rows.extend({**about, "kind": "run", "value": value} for value in _run_values(results, cell.id, column))
    return rows


def _run_values(results: Results, cell: str, column: str) -> list[float]:
    valid = results.valid_runs
    rows = [row for row in results.latency if row["cell"] == cell and row["run_id"] in valid]
    return [value for row in rows if (value := known(row[column])) is not None and value > 0]


def _summary_chart(rows: list[Row], brokers: list[str]) -> alt.TopLevelMixin:
    domain = _summary_domain(rows)
    for row in rows:
        if row.get("low") is not None:
            row["drawn_low"] = max(row["low"], domain[0])  # the axis ends before zero: cut there
            row["drawn_high"] = min(row["high"], domain[1])
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("broker:N").sort(brokers).axis(title=None, labelFontSize=12, grid=False, ticks=False, domain=False),
        yOffset=alt.YOffset("quantile:N").sort(["p50", "p99"]),
        color=colour(brokers).legend(None),
    )
    is_mean = "datum.kind == 'cell'"
    ranges = base.transform_filter(f"{is_mean} && isValid(datum.drawn_low)").mark_rule(strokeWidth=2, opacity=0.75)
    single = base.transform_filter("datum.kind == 'run'").mark_tick(thickness=1.5, size=9, opacity=0.75)
    means = base.transform_filter(is_mean).mark_point(size=75, filled=True, opacity=1)
    layers = alt.layer(
        ranges.encode(x=latency_axis("drawn_low", domain), x2="drawn_high:Q"),
        single.encode(x=latency_axis("value", domain)),
        means.encode(
            x=latency_axis("value", domain),
            shape=alt.Shape("quantile:N")
            .scale(domain=["p50", "p99"], range=["circle", "diamond"])
            .legend(title=None, symbolSize=75, symbolFillColor=INK, symbolStrokeColor=INK),
            tooltip=[
                alt.Tooltip("broker:N"),
                alt.Tooltip("quantile:N"),
                alt.Tooltip("mean:N", title="mean, ms"),
                alt.Tooltip("interval:N", title="interval, ms"),
                alt.Tooltip("n:Q", title="valid runs"),
            ],
        ),
    )
    return faceted(layers, rows, height=max(60, 44 * len(brokers)))


def _summary_domain(rows: list[Row]) -> list[float]:
    """From below the smallest value to above the largest; a wide interval may not squeeze everything else."""
    values = [row["value"] for row in rows]
    lows = [row["low"] for row in rows if row.get("low") is not None and row["low"] > 0]
    highs = [row["high"] for row in rows if row.get("high") is not None]
    low = max(min(values + lows), min(values) / 3)
    high = min(max(values + highs), max(values) * 3)
    return [low / 1.15, high * 1.15]
