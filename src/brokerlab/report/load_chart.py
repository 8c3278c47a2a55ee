"""The load-latency curve of a search: p99 of every trial over the rate that was asked, one curve per valid run."""

import altair as alt

from brokerlab.report.cells import Group
from brokerlab.report.look import DASHES, INK, colour, cycle, faceted, log_ticks
from brokerlab.report.numbers import known, time_text
from brokerlab.report.results import Results, Row

_OUTCOMES = {True: "passed", False: "failed", None: "generator was the limit"}


def load_points(results: Results, compared: list[Group]) -> list[Row]:
    """One row per trial with a latency of a valid run, in the order of the rates."""
    valid = results.valid_runs
    limits = {run["run_id"]: run.get("p99_limit_ms") for run in results.runs}
    resolutions = {row["run_id"]: known(row.get("resolution_mean_ms")) for row in results.latency}
    points = []
    for group in compared:
        for cell in group.cells:
            trials = [row for row in results.capacity if row["cell"] == cell.id and row["run_id"] in valid]
            for row in sorted(trials, key=lambda row: (row["run_id"], row["asked_per_s"], row["trial"])):
                if known(row["latency_p99_ms"]) and row["latency_p99_ms"] > 0:
                    points.append(
                        _point(group, cell.broker, row, limits.get(row["run_id"]), resolutions.get(row["run_id"]))
                    )
    return points


def _point(group: Group, broker: str, row: Row, limit_ms: float | None, resolution_ms: float | None) -> Row:
    """The resolution is that of the measure phase at the capacity: a trial has none of its own."""
    return {
        "group": group.label,
        "broker": broker,
        "run": row["run_id"],
        "trial": row["phase"],
        "asked": row["asked_per_s"],
        "delivered": row["delivered_per_s"],
        "p50": row["latency_p50_ms"],
        "p99": row["latency_p99_ms"],
        "p50_text": time_text(row["latency_p50_ms"], resolution_ms),
        "p99_text": time_text(row["latency_p99_ms"], resolution_ms),
        "limit": limit_ms,
        "outcome": _OUTCOMES[row["passed"]],
        "why": "; ".join(row["why_not"]),
    }


def load_chart(points: list[Row], brokers: list[str]) -> alt.TopLevelMixin:
    rates, latencies = [row["asked"] for row in points], [row["p99"] for row in points]
    limits = [row["limit"] for row in points if row["limit"]]
    x_domain = [min(rates) / 1.1, max(rates) * 1.1]
    y_domain = [min(latencies + limits) / 1.3, max(latencies + limits) * 1.3]
    x = alt.X("asked:Q", scale=alt.Scale(type="log", domain=x_domain, nice=False)).axis(
        values=log_ticks(*x_domain), format="~s", title="asked, messages per second (log scale)"
    )
    y = alt.Y("p99:Q", scale=alt.Scale(type="log", domain=y_domain, nice=False)).axis(
        values=log_ticks(*y_domain), format="~r", title="p99 of latency, ms (log scale)"
    )
    base = alt.Chart(alt.InlineData(values=points)).encode(x=x, y=y, color=colour(brokers).legend(title=None))
    lines = base.mark_line(strokeWidth=1.4, opacity=0.7).encode(
        detail="run:N",
        order="asked:Q",
        strokeDash=alt.StrokeDash("broker:N").scale(domain=brokers, range=cycle(DASHES, brokers)).legend(title=None),
    )
    limit = base.mark_rule(strokeDash=[6, 4], color=INK, opacity=0.6).encode(
        x=alt.X(), y=alt.Y("limit:Q"), color=alt.value(INK), detail="limit:N"
    )
    return faceted(alt.layer(limit, lines, _marks(base)), points, height=300)


def _marks(base: alt.Chart) -> alt.Chart:
    outcomes = list(_OUTCOMES.values())
    marks: alt.Chart = base.mark_point(size=60, filled=True, opacity=0.9).encode(
        shape=alt.Shape("outcome:N")
        .scale(domain=outcomes, range=["circle", "cross", "triangle-up"])
        .legend(title=None, symbolSize=70, symbolFillColor=INK, symbolStrokeColor=INK),
        tooltip=[
            alt.Tooltip("broker:N"),
            alt.Tooltip("run:N"),
            alt.Tooltip("trial:N"),
            alt.Tooltip("asked:Q", title="asked, 1/s", format=",.5~r"),
            alt.Tooltip("delivered:Q", title="delivered, 1/s", format=",.5~r"),
            alt.Tooltip("p50_text:N", title="p50, ms"),
            alt.Tooltip("p99_text:N", title="p99, ms"),
            alt.Tooltip("outcome:N"),
            alt.Tooltip("why:N", title="why not"),
        ],
    )
    return marks
