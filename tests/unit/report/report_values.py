"""Results in memory, with exactly the estimates that a test asks for."""

from report_example import CONTRACTS, empty_table

from brokerlab.report.results import Results, Row, StudyText
from brokerlab.report.table import Table

Interval = tuple[float, float | None, float | None]


def results_of(
    p99_ms: dict[tuple[str, int], Interval],
    *,
    runs: int = 3,
    rank_by: str = "latency.p99",
    invalid: dict[tuple[str, int], int] | None = None,
    delivery: list[Row] | None = None,
) -> Results:
    """One cell per (broker, QoS) with this mean and interval of `rank_by`; `invalid` counts further, invalid runs."""
    rows: list[Row] = []
    cells: list[Row] = []
    for (broker, qos), (mean, low, high) in p99_ms.items():
        bad = (invalid or {}).get((broker, qos), 0)
        rows += [run_row(broker, qos, number, "valid") for number in range(1, runs + 1)]
        rows += [run_row(broker, qos, number, "invalid") for number in range(runs + 1, runs + 1 + bad)]
        cells.append(cell_row(broker, qos, rank_by, (mean, low, high), runs))
    return Results(
        study=StudyText("s", "Which?", rank_by, "7", "loopback", "study: s\n"),
        runs=rows,
        cells=cells,
        delivery=delivery or [],
        latency=[],
        counters=[],
        histogram=empty_table("histogram"),
        manifests={},
        unreadable=(),
        planned=frozenset(),
        left_out=(),
    )


def cell_id(broker: str, qos: int) -> str:
    return f"broker-{broker}.qos-{qos}"


def run_row(broker: str, qos: int, number: int, verdict: str) -> Row:
    cell = cell_id(broker, qos)
    levels = {"broker": broker, "qos": str(qos)}
    about = {"run_id": f"{cell}/{number}", "cell": cell, "broker": broker, "qos": qos, "levels": levels}
    load = {"rate_per_s": 100.0, "window": None, "arrivals": "constant", "publishers": 1, "subscribers": 1}
    meter = {"schedule_lag_p99_ms": 0.1, "generator_cpu_percent": 5.0, "cores": 2, "payload_bytes": 64}
    reasons = [] if verdict == "valid" else ["cut off: no verdict"]
    return (
        about
        | load
        | meter
        | {"order": number, "verdict": verdict, "reasons": reasons, "started_at": None, "phases": {}}
    )


def cell_row(broker: str, qos: int, metric: str, interval: Interval, n: int) -> Row:
    mean, low, high = interval
    about = {"cell": cell_id(broker, qos), "broker": broker, "qos": qos, "metric": metric, "unit": "ms"}
    return about | {"n": n, "mean": mean, "low": low, "high": high, "confidence_percent": 95.0}


def delivery_row(broker: str, qos: int, number: int, verdict: str, *, granted: int | None = None) -> Row:
    granted = qos if granted is None else granted
    about = {"run_id": f"{cell_id(broker, qos)}/{number}", "cell": cell_id(broker, qos)}
    counts = dict.fromkeys(
        ("published", "acknowledged", "expected", "delivered", "never_acknowledged", "lost", "acknowledged_lost"), 0
    )
    more = dict.fromkeys(("duplicated", "duplicated_flagged", "reordered", "unexpected"), 0)
    contract = {"qos_asked": qos, "qos_granted": granted, "contract": CONTRACTS[granted], "verdict": verdict}
    return about | counts | more | contract


def said(table: Table, column: str) -> list[str]:
    """What stands in a column, from top to bottom."""
    place = [each.title for each in table.columns].index(column)
    return [row[place].text for block in table.blocks for row in block]
