"""The bars of a classification: the weights of a broker's features, one after the other, and what is in doubt."""

import altair as alt

from brokerlab.report.charts import Figure, drawn_figure
from brokerlab.report.look import INK, PALETTE, styled
from brokerlab.report.quality_results import QualityResults
from brokerlab.report.quality_tables import words
from brokerlab.report.results import Row

_DOUBT = "in doubt"
_COLOURS = (*PALETTE[:7], "#7FA31C", "#3B4A8A", "#A04668")  # without the grey, which is the doubt


def score_figure(results: QualityResults, sheets: str, *, name: str) -> Figure:
    """Figure 13 of paper 000, for any set of sheets."""
    rows = score_bars(results, sheets)
    features = [words(feature) for feature in results.features]
    brokers = [row["broker"] for row in results.scores if row["sheets"] == sheets]
    most = max(row["most"] for row in results.scores if row["sheets"] == sheets)
    colours = [_COLOURS[i % len(_COLOURS)] for i in range(len(features))]
    bars = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(stroke=INK, strokeOpacity=0.25, strokeWidth=0.5)
        .encode(
            y=alt.Y("broker:N").sort(brokers).axis(title=None, labelFontSize=12, grid=False, ticks=False, domain=False),
            x=alt.X("begin:Q").scale(domain=[0, most]).axis(title=f"score, of {most}", tickCount=most),
            x2="end:Q",
            color=alt.Color("part:N")
            .scale(domain=[*features, _DOUBT], range=[*colours, "#BBBBBB"])
            .legend(title=None, columns=5, symbolType="square", symbolSize=120),
            opacity=alt.condition(f"datum.part == '{_DOUBT}'", alt.value(0.35), alt.value(0.9)),
            tooltip=[alt.Tooltip("broker:N"), alt.Tooltip("part:N"), alt.Tooltip("weight:Q", format=".2f")],
        )
    )
    chart = styled(bars.properties(width=860, height=max(80, 24 * len(brokers))))
    return drawn_figure(name, chart, f"Score of every broker of {sheets}, feature by feature, and what is in doubt.")


def score_bars(results: QualityResults, sheets: str) -> list[Row]:
    """One row per bar: the sure part of each feature from the left, then all that is in doubt."""
    bars: list[Row] = []
    for score in (row for row in results.scores if row["sheets"] == sheets):
        begin = 0.0
        own = [row for row in results.quality if (row["sheets"], row["broker"]) == (sheets, score["broker"])]
        for row in own:
            bars.append(_bar(score["broker"], words(row["feature"]), begin, row["weight_low"]))
            begin += row["weight_low"]
        doubt = score["score_high"] - score["score_low"]
        if doubt > 1e-9:
            bars.append(_bar(score["broker"], _DOUBT, begin, doubt))
    return bars


def _bar(broker: str, part: str, begin: float, weight: float) -> Row:
    return {"broker": broker, "part": part, "begin": round(begin, 6), "end": round(begin + weight, 6), "weight": weight}
