"""Comparisons, effects and the noise floor on the page (F-21, F-23)."""

from dataclasses import replace

import pytest
from report_values import results_of

from brokerlab.report.answer import answer
from brokerlab.report.cells import groups
from brokerlab.report.levels import comparisons, effects, p_text

pytestmark = pytest.mark.unit

ESTIMATES = {("a", 0): (1.0, 0.9, 1.1), ("again", 0): (1.3, 1.2, 1.4), ("c", 0): (1.25, 1.2, 1.3)}


def compared(level_a, level_b, said, **columns):
    known = {
        "factor": "broker", "level_a": level_a, "level_b": level_b, "within": "", "levels": {},
        "metric": "latency.p99", "unit": "ms", "method": "welch", "n_a": 3, "n_b": 3, "difference": -0.3,
        "low": -0.4, "high": -0.2, "difference_percent": -23.0, "hedges_g": -2.5, "g_low": -5.0, "g_high": -0.1,
        "corrected_p": 0.0002, "same": False, "floor": 0.3, "is_tie": False, "answer": said,
    }  # fmt: skip
    return known | columns


def results(*rows):
    return replace(results_of(ESTIMATES), comparisons=rows)


def test_differences_within_the_noise_floor_are_ties_in_the_answer():
    """c's interval lies apart from a's, and the difference is less than that of a with itself."""
    same = compared("a", "again", "not distinguishable", same=True, is_tie=True)
    tie = compared("a", "c", "not distinguishable", difference=-0.25, is_tie=True)
    found = results(same, tie)
    said = answer(found, groups(found))

    assert said.points[0].remarks == (
        "not told apart by these 3 runs each: c and again",
        "within the noise floor: c and again",
    )
    assert said.floor == (
        "Noise floor: a and again are the same broker under several names, and chance alone puts their p99 latency up "
        "to 0.300 ms apart; smaller differences are ties."
    )


def test_the_answer_goes_by_the_comparisons_and_not_by_intervals():
    found = results(compared("a", "again", "better", floor=None), compared("c", "a", "not distinguishable", floor=None))
    said = answer(found, groups(found))

    assert said.points[0].remarks == ("not told apart by these 3 runs each: c",)
    assert said.floor == ""


def test_differences_that_arrival_times_cannot_show_are_said_to_be_so():
    """However small the p: 0.3 ms apart, and every message may have come 0.5 ms earlier than it seems."""
    near = {"floor": None, "is_tie": None, "resolution": 0.5}
    found = results(
        compared("a", "again", "not distinguishable", **near),
        compared("a", "c", "better", floor=None, is_tie=None, resolution=0.1),
    )
    said, rows = answer(found, groups(found)), comparisons(found).blocks[0]

    assert said.lead.endswith("not told apart from again by these 3 runs each; again is within the resolution.")
    assert said.points[0].remarks[1] == "nearer than times of arrival are known: again"
    assert [(row[3].text, row[-1].below) for row in rows] == [
        ("−0.3 ± 0.5", "within the resolution of 0.50 ms"),
        ("−0.3 ± 0.1", ""),
    ]


def test_comparisons_of_other_settings_say_nothing_here():
    elsewhere = compared("a", "c", "not distinguishable", levels={"rate": "100"})
    over_all = compared("a", "c", "not distinguishable", method="paired", within="all")
    found = results(elsewhere, over_all)

    assert answer(found, groups(found)).lead.endswith("told apart from every other broker.")


def test_a_row_per_pair_of_levels():
    over_all = compared("a", "c", "worse", method="paired", within="all", hedges_g=None, g_low=None, g_high=None)
    tie = compared("a", "c", "not distinguishable", is_tie=True)
    other = compared("a", "c", "better", metric="latency.p50")
    table = comparisons(results(compared("a", "again", "equivalent", same=True), tie, over_all, other))
    rows = [[entry.text for entry in row] for block in table.blocks for row in block]

    assert [len(block) for block in table.blocks] == [2, 1]
    assert rows[0] == ["a", "again", "–", "−0.300", "−23", "−2.5", "< 0.001", "0.300", "equivalent"]
    assert rows[2][2:6] == ["all 3 settings, in pairs", "−0.300", "−23", "–"]
    assert table.blocks[0][0][3].below == "−0.400 … −0.200"
    assert [row[-1].below for row in table.blocks[0]] == [
        "the same broker under two names",
        "within the noise floor: a tie",
    ]


def test_levels_say_what_they_are_levels_of():
    table = comparisons(results(compared("0", "1", "worse", factor="qos", within="broker=a", levels={"broker": "a"})))

    assert [entry.text for entry in table.blocks[0][0]][:3] == ["QoS 0", "QoS 1", "broker a"]


def term(place, effect, metric, share, p=None, degrees=1):
    columns = {"place": place, "effect": effect, "metric": metric, "unit": "ms", "n": 8}
    return columns | {"degrees": degrees, "share_percent": share, "f": None, "p": p}


def test_a_row_of_shares_per_metric_with_the_residual_last():
    rows = (
        term(0, "broker", "latency.p50", 90.04, p=0.00001),
        term(1, "residual", "latency.p50", 9.96, degrees=6),
        term(0, "broker", "latency.p99", 60.0, p=0.016),
        term(1, "qos", "latency.p99", 0.0, degrees=0),
        term(2, "residual", "latency.p99", 40.0, degrees=5),
        term(0, "broker", "delivery.duplicated", None),
        term(0, "broker", "latency.mean", 100.0),
        term(1, "residual", "latency.mean", 0.0, degrees=0),  # a run of each: nobody knows what runs differ in
    )
    table = effects(replace(results_of(ESTIMATES), effects=rows))

    assert [column.title for column in table.columns] == ["Metric", "broker", "QoS", "residual", "Runs"]
    assert [[entry.text for entry in row] for row in table.blocks[0]] == [
        ["median latency", "90", "–", "10", "8"],
        ["p99 latency", "60", "–", "40", "8"],
        ["mean latency", "100", "–", "–", "8"],
    ]
    assert [row[1].below for row in table.blocks[0]] == ["p < 0.001", "p 0.016", ""]


def test_nothing_to_compare():
    found = results_of(ESTIMATES)

    assert (comparisons(found).row_count, effects(found).row_count) == (0, 0)


@pytest.mark.parametrize(("p", "said"), [(None, "–"), (0.0, "< 0.001"), (0.001, "0.001"), (0.25, "0.250")])
def test_p_as_people_read_it(p, said):
    assert p_text(p) == said
