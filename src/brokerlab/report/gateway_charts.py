"""Gateways as paper 004 draws them: latency by payload (its Figures 4 to 6) and loss by gateway (7 to 9)."""

import re

import altair as alt

from brokerlab.report.cells import CellResult, Group, level_text
from brokerlab.report.ensemble_charts import Chart
from brokerlab.report.look import INK, PALETTE, faceted
from brokerlab.report.numbers import count, known, latency_text
from brokerlab.report.results import Results, Row

_PAYLOAD = re.compile(r"payload (\d+) B")
_TIMES = ("min", "p50", "p95", "max")
_LIVES = ("persistent", "per-message", "per-message-abrupt")


def charts(results: Results, compared: list[Group]) -> list[Chart]:
    """None where no bridge of ours carried anything."""
    if not any("bridging" in manifest for manifest in results.manifests.values()):
        return []
    cells = {cell.id: cell for group in compared for cell in group.cells}
    return [chart for chart in (_latency(results, cells), _loss(results, cells)) if chart is not None]


def _about(cell: CellResult) -> Row:
    levels = dict(cell.levels)
    others = [level_text(name, value) for name, value in cell.levels if name not in ("qos", "behaviour")]
    label = ", ".join([cell.broker, *others])
    return {"group": f"QoS {cell.qos}", "deployment": label, "behaviour": levels.get("behaviour", "persistent")}


def _latency(results: Results, cells: dict[str, CellResult]) -> Chart | None:
    rows: list[Row] = []
    for row in results.latency_by_payload:
        found = _PAYLOAD.fullmatch(row["group"])
        if found and row["cell"] in cells and row["run_id"] in results.valid_runs and known(row["p50_ms"]):
            times = {name: row[f"{name}_ms"] for name in _TIMES}
            times |= {f"{name}_text": latency_text(row, f"{name}_ms") for name in _TIMES}
            about = {**_about(cells[row["cell"]]), "size": int(found[1])}
            rows.append({**about, **times, "payload": f"{count(int(found[1]))} B"})
    if not rows:
        return None
    rows.sort(key=lambda row: (row["group"], row["size"]))
    sizes = list(dict.fromkeys(row["payload"] for row in sorted(rows, key=lambda row: row["size"])))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("payload:N").sort(sizes).axis(title=None, labelAngle=0),
        xOffset=alt.XOffset("behaviour:N").sort(list(_LIVES)),
        color=_life(),
        detail="deployment:N",
    )
    time = alt.Scale(type="log")
    whole = base.mark_rule(opacity=0.5).encode(
        y=alt.Y("min:Q").scale(time).axis(title="latency, ms (log scale)"), y2="max:Q"
    )
    box = base.mark_bar(opacity=0.35, size=7).encode(y=alt.Y("p50:Q").scale(time), y2="p95:Q")
    middle = base.mark_tick(thickness=2, size=9).encode(
        y=alt.Y("p50:Q").scale(time),
        tooltip=[
            "deployment:N",
            "behaviour:N",
            "payload:N",
            *(alt.Tooltip(f"{name}_text:N", title=name) for name in _TIMES),
        ],
    )
    caption = (
        "As Figures 4 to 6 of paper 004: latency of what arrived, by the payload that was published. Line: least to "
        "largest; bar: median to p95; tick: median; one of each for every run."
    )
    chart = faceted(alt.layer(whole, box, middle), rows, height=240)
    return "payloads", chart, "Latency by payload and QoS.", caption


def _loss(results: Results, cells: dict[str, CellResult]) -> Chart | None:
    rows: list[Row] = []
    for row in results.jitter:
        expected = (row["n"] or 0) + (row["lost"] or 0)
        if row["cell"] in cells and expected:
            workload = (results.manifests.get(row["run_id"]) or {}).get("workload") or {}
            sizes = (workload.get("payload") or {}).get("each") or [workload.get("payload_bytes") or 0]
            size = sizes[row["publisher"] % len(sizes)]
            about = {**_about(cells[row["cell"]]), "gateway": f"{row['publisher']}: {count(size)} B"}
            rows.append({**about, "percent": 100 * row["lost"] / expected, "lost": row["lost"], "expected": expected})
    if not rows:
        return None
    rows.sort(key=lambda row: (row["group"], row["gateway"]))
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True, size=60, opacity=0.7)
        .encode(
            x=alt.X("gateway:N").axis(title=None, labelAngle=0),
            xOffset=alt.XOffset("behaviour:N").sort(list(_LIVES)),
            y=alt.Y("percent:Q").scale(domain=[0, 100]).axis(title="lost, %"),
            color=_life(),
            shape=alt.Shape("behaviour:N").scale(domain=list(_LIVES)).legend(None),
            tooltip=["deployment:N", "behaviour:N", "gateway:N", "lost:Q", "expected:Q"],
        )
    )
    caption = (
        "As Figures 7 to 9 of paper 004, which printed 99.8 % for 125 and 35 KB at QoS 0: the share of messages of "
        "each gateway that did not arrive, one point for every run. The paper’s gateways closed at once (abrupt)."
    )
    return "loss", faceted(chart, rows, height=200), "Share of lost messages by gateway and QoS.", caption


def _life() -> alt.Color:
    return (
        alt.Color("behaviour:N")
        .scale(domain=list(_LIVES), range=list(PALETTE[:3]))
        .legend(title=None, symbolStrokeColor=INK)
    )
