"""The look that the charts share: colours, axes, small multiples.

Text and grid are drawn in `currentColor`, so that one chart serves light, dark and paper.
Brokers differ in colour and in dash or place, so that no chart depends on colour alone.
"""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from brokerlab.report.results import Row

# Okabe and Ito's palette, safe for the common kinds of colour blindness; without its yellow, too pale on paper,
# and with a blue that is light enough for a dark page.
PALETTE = ("#1F83C0", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6D3B", "#7A7A7A")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [5, 2], [1, 3], [12, 3], [4, 4])
_PAGE_WIDTH = 1040  # of the plots of one row together, in pixels
_GAP = 26
INK = "currentColor"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def latency_axis(column: str, domain: list[float]) -> alt.X:
    scale = alt.Scale(type="log", domain=domain, nice=False)
    ticks = log_ticks(domain[0], domain[1])
    return alt.X(f"{column}:Q", scale=scale, axis=alt.Axis(values=ticks, format="~r", title="latency, ms (log scale)"))


def log_ticks(low: float, high: float) -> list[float]:
    """Round values on a logarithmic axis: 1, 2, 5 of each decade, or the decades alone where there are many."""
    low_decade, high_decade = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if math.log10(high / low) < 2.2 else (1, 3) if math.log10(high / low) < 3.6 else (1,)
    ticks = [float(f"{m}e{d}") for d in range(low_decade, high_decade + 1) for m in steps]
    return [tick for tick in ticks if low <= tick <= high]


def colour(brokers: list[str]) -> alt.Color:
    return alt.Color("broker:N").scale(domain=brokers, range=cycle(PALETTE, brokers))


def cycle(choices: Sequence[Any], brokers: list[str]) -> list[Any]:
    return [choices[i % len(choices)] for i in range(len(brokers))]


def faceted(chart: alt.Chart | alt.LayerChart | alt.FacetChart, rows: list[Row], *, height: int) -> alt.TopLevelMixin:
    """Small multiples, one per group, at most three in a row; a single group fills the width."""
    labels = list(dict.fromkeys(row["group"] for row in rows))
    columns = min(3, len(labels))
    sized = chart.properties(width=(_PAGE_WIDTH - _GAP * (columns - 1)) // columns, height=height)
    if len(labels) == 1:
        return styled(sized)
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight="bold", labelColor=INK)
    panels = sized.facet(alt.Facet("group:N").sort(labels).header(header), columns=columns, spacing=_GAP)
    return styled(panels)


def styled(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    axis = {"labelColor": INK, "titleColor": INK, "tickColor": INK, "domainColor": INK, "gridColor": INK}
    styled = chart.configure(background="transparent", font=_FONT)
    styled = styled.configure_axis(
        **axis,
        gridOpacity=0.13,
        domainOpacity=0.4,
        tickOpacity=0.4,
        labelFontSize=11,
        titleFontSize=12,
        titleFontWeight="normal",
    )
    styled = styled.configure_legend(
        orient="top",
        labelColor=INK,
        titleColor=INK,
        labelFontSize=12,
        symbolStrokeWidth=2.5,
        symbolSize=220,
        labelLimit=240,
    )
    whole: alt.TopLevelMixin = styled.configure_view(stroke=None)
    return whole
