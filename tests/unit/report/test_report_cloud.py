"""Flows as paper 003 tells them: mean, spread and outcome (C-05, C-06, C-07)."""

from types import SimpleNamespace

import pytest

from brokerlab.report.cells import CellResult, Group
from brokerlab.report.cloud import cloud
from brokerlab.report.cloud_charts import charts

TIMES = {"mean_ms": 50.0, "sd_ms": 2.0, "min_ms": 40.0, "max_ms": 90.0}
RUN = {"run_id": "c/1", "verdict": "valid", "levels": {"role": "echo", "qos": "1", "rate": "10.0"}}
PRINTED = [
    {"source": "003/table3", "qos": "1", "interval_ms": "100", "metric": metric, "printed_value": value}
    for metric, value in (("latency_mean", 7_600.0), ("latency_mean", 96_813.0), ("latency_std", 27_985.0))
]


def results_of(outcome, *, lost=0, levels=RUN["levels"]):
    flow = {"cell": "c", "outcome": outcome, "lost": lost, "interarrival_mean_ms": 100.0, "interarrival_sd_ms": 1.0,
            "growth_ms_per_message": 0.0}  # fmt: skip
    return SimpleNamespace(
        runs=[{**RUN, "levels": levels}],
        latency=[{"cell": "c", "run_id": "c/1", **TIMES}],
        jitter=[flow],
        published=[*PRINTED, {**PRINTED[0], "qos": "2", "printed_value": 1.0}],
    )


def group_of(results):
    return [Group((), (CellResult("c", "nats", 1, (), tuple(results.runs)),))]


@pytest.mark.parametrize(
    ("outcome", "lost", "said", "below"),
    [
        ("ok", 0, "ok", ""),
        ("collapse", 20, "X", "20 messages lost"),
        ("lost data", 15, "L.D.", "15 messages lost"),
        ("temporary block", 0, "block", ""),
    ],
)
def test_outcomes_are_the_paper_s(outcome, lost, said, below):
    results = results_of(outcome, lost=lost)

    ((row,),) = cloud(results, group_of(results)).blocks

    assert [entry.text for entry in row[1:5]] == ["50.0", "2.00", "40.0", "90.0"]
    assert (row[-4].text, row[-4].below) == (said, below)
    assert [entry.text for entry in row[-2:]] == ["7,600 to 96,813", "27,985"]


def test_least_mean_and_largest_are_drawn():
    results = results_of("ok")

    ((name, chart, _, _),) = charts(results, group_of(results))

    ((row,),) = chart.to_dict()["datasets"].values()
    assert (name, row["min"], row["mean"], row["max"]) == ("tests", 40.0, 50.0, 90.0)


def test_a_study_without_these_tests_has_no_such_table():
    results = results_of("ok", levels={"qos": "1"})

    assert cloud(results, group_of(results)).row_count == 0
