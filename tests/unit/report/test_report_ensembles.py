"""Ensembles as paper 001 draws them: what its figures are made of (B-12, B-14, B-20, B-21, B-22)."""

from types import SimpleNamespace

from brokerlab.report.cells import CellResult, Group
from brokerlab.report.ensemble_charts import charts
from brokerlab.report.metrics import METRICS, Estimate
from brokerlab.report.networks import overhead
from brokerlab.report.placements import placements


def cell(name, levels, mean_ms):
    estimates = {
        metric: Estimate(METRICS[metric], "", 2, value, value - 1, value + 1)
        for metric, value in (("latency.mean", mean_ms), ("resources.broker_cpu_percent", 4.0))
    }
    runs = ({"run_id": f"{name}/1", "levels": dict(levels), "verdict": "valid"},)
    return CellResult(name, "nats", 1, tuple(levels.items()), runs, estimates)


def traffic(name, phase, bits_per_s, above):
    return {"cell": name, "run_id": f"{name}/1", "phase": phase, "is_between_sites": True, "bits_per_s": bits_per_s,
            "above_idle_bits_per_s": above}  # fmt: skip


def use(name, phase):
    return {"cell": name, "run_id": f"{name}/1", "node": "broker/0", "phase": phase, "cpu_percent": 3.0,
            "rss_mean_mib": 20.0}  # fmt: skip


def results_of(*cells, manifest):
    phases = {"idle": None, "subscribe": None, "measure": None}
    return SimpleNamespace(
        runs=[{**run, "phases": phases} for each in cells for run in each.runs],
        manifests={f"{each.id}/1": manifest for each in cells},
        overhead=[
            traffic(each.id, *row)
            for each in cells
            for row in (("idle", 8_000.0, None), ("subscribe", 10_000.0, 2_000.0), ("measure", 40_000.0, 32_000.0))
        ],
        resources=[use(each.id, phase) for each in cells for phase in ("idle", "subscribe", "measure")],
    )


def values(chart):
    (found,) = chart.to_dict()["datasets"].values()
    return found


def test_delay_traffic_and_use_are_drawn_of_an_ensemble():
    near, far = cell("near", {"locality": "100.0"}, 2.0), cell("far", {"locality": "0.0"}, 30.0)
    results = results_of(near, far, manifest={"crossing": {}})

    drawn = {name: chart for name, chart, _, _ in charts(results, [Group((), (near, far))])}

    assert set(drawn) == {"delay", "between", "use"}
    assert [(row["locality"], row["value"]) for row in values(drawn["delay"])] == [("100 %", 2.0), ("0 %", 30.0)]
    stacked = [(row["phase"], row["value"]) for row in values(drawn["between"]) if row["group"] == "locality 0 %"]
    assert stacked == [
        ("control (idle)", 8.0),
        ("subscriptions, above idle", 2.0),
        ("publications, above idle", 32.0),
    ]
    assert len(values(drawn["use"])) == 6


def test_rates_are_drawn_where_they_vary():
    slow, fast = cell("slow", {"rate": "1.0"}, 2.0), cell("fast", {"rate": "100.0"}, 3.0)
    results = results_of(slow, fast, manifest={"crossing": {}})

    drawn = {name: chart for name, chart, _, _ in charts(results, [Group((), (slow, fast))])}

    delays = [(row["rate"], row["value"]) for row in values(drawn["rates"]) if row["group"].startswith("mean latency")]
    assert delays == [(1.0, 2.0), (100.0, 3.0)]


def test_a_single_node_is_drawn_by_none_of_them():
    alone = cell("alone", {"locality": "100.0"}, 2.0)

    assert charts(results_of(alone, manifest={}), [Group((), (alone,))]) == []


def test_overhead_stands_with_and_without_the_idle_ensemble():
    one = cell("one", {}, 2.0)

    table = overhead(results_of(one, manifest={}), [Group((), (one,))])

    ((_, idle, subscribe, measure),) = table.blocks[0]
    assert (idle.text, idle.below) == ("8.00", "")
    assert (subscribe.text, subscribe.below) == ("10.0", "above idle: 2.00")
    assert (measure.text, measure.below) == ("40.0", "above idle: 32.0")


def test_delay_stands_with_its_interval_and_its_deviation_over_placements():
    """B-20, B-23: ten runs of one cell, of another only one."""
    near, far = cell("near", {"locality": "100.0"}, 2.0), cell("far", {"locality": "0.0"}, 30.0)
    results = results_of(near, far, manifest={"crossing": {}})
    results.confidence_percent = 95.0
    results.cells = [
        {"cell": "near", "metric": "latency.mean", "n": 10, "mean": 2.0, "low": 1.5, "high": 2.5, "sd": 0.7},
        {"cell": "far", "metric": "latency.mean", "n": 1, "mean": 30.0, "low": None, "high": None, "sd": None},
        {"cell": "far", "metric": "latency.p50", "n": 1, "mean": 29.0, "low": None, "high": None, "sd": None},
    ]

    table = placements(results, [Group((), (near, far))])

    assert [[entry.text for entry in row[-5:]] for row in table.blocks[0]] == [
        ["100 %", "2.00", "1.50 to 2.50", "0.700", "10"],
        ["0 %", "30.0", "–", "–", "1"],
    ]
    results.manifests = {"near/1": {}}
    assert placements(results, [Group((), (near, far))]).row_count == 0
