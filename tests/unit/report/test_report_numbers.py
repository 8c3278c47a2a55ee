import math

import pytest

from brokerlab.report.metrics import METRICS, Estimate
from brokerlab.report.numbers import brief, count, listed, significant, time_text

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.031, "0.0310"),
        (1.2345, "1.23"),
        (12345.6, "12,346"),
        (0, "0"),
        (-0.0, "0"),
        (-1.5, "−1.50"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_significant_shows_three_digits(value, text):
    assert significant(value) == text


def test_brief_drops_zeros_at_the_end():
    assert [brief(value) for value in (95.0, 250.0, 0.5, 99.9, None)] == ["95", "250", "0.5", "99.9", "–"]


def test_count_shows_thousands():
    assert [count(12000), count(None)] == ["12,000", "–"]


def test_listed_joins_names():
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"


def estimate(mean, low, high):
    return Estimate(METRICS["latency.p99"], "ms", 3, mean, low, high)


def test_interval_narrower_than_the_mean_shows_gets_more_decimals():
    narrow = estimate(500.0, 499.96, 500.04)

    assert (narrow.mean_text, narrow.interval_text) == ("500.00", "499.96 – 500.04")


def test_interval_without_width_shows_the_mean_as_usual():
    assert estimate(0.0, 0.0, 0.0).interval_text == "0 – 0"


def test_interval_of_one_run_is_not_known():
    assert estimate(1.0, None, None).interval_text == "–"


@pytest.mark.parametrize(
    ("value", "resolution", "text"),
    [
        (34.567, 0.0, "34.6"),  # a stamp of its own
        (34.567, None, "34.6"),  # not known: as it stands, and said beside it
        (34.567, 0.03, "34.6"),
        (0.2012, 0.031, "0.20"),
        (34.567, 2.0, "35"),
        (34.567, 6.0, "35"),
        (34.567, 12.0, "≤ 35"),
        (1234.5, 120.0, "1,200"),
        (110.5, 22.0, "110"),
        (110.5, 22.1, "≤ 120"),  # a fifth of it
        (34.567, 34.0, "≤ 35"),
        (98.929, 50.6, "≤ 99"),
        (101.2, 60.0, "≤ 110"),
        (1.1, 1.0, "≤ 1.1"),
        (0.0123, 0.01, "≤ 0.013"),
        (0.0, 0.5, "≤ 0"),
        (None, 0.5, "–"),
    ],
)
def test_a_time_is_shown_as_exactly_as_it_is_known(value, resolution, text):
    assert time_text(value, resolution) == text


@pytest.mark.parametrize(
    ("value", "resolution", "text"),
    [(8.4, 12.0, "8 ± 12"), (-0.31, 0.4, "−0.3 ± 0.4"), (8.4, 1.2, "8"), (-8.4, 0.0, "−8.40")],
)
def test_a_time_that_may_be_more_as_well_as_less_says_by_how_much(value, resolution, text):
    assert time_text(value, resolution, is_bound=False) == text


def test_the_interval_of_a_latency_reaches_down_by_its_resolution():
    """Every message may have come that much earlier, and none later."""
    coarse = Estimate(METRICS["latency.p99"], "ms", 3, 34.6, 33.1, 36.1, 2.0)
    both_ways = Estimate(METRICS["jitter.rfc3550"], "ms", 3, 34.6, 33.1, 36.1, 2.0)

    assert (coarse.mean_text, coarse.interval_text, coarse.below) == ("35", "31 – 36", "31 – 36; resolution 2.0")
    assert both_ways.interval_text == "33 – 36"


@pytest.mark.parametrize(("resolution", "overlap"), [(0.0, False), (4.0, False), (6.0, True)])
def test_latencies_nearer_than_their_resolution_overlap(resolution, overlap):
    low, high = (Estimate(METRICS["latency.p99"], "ms", 3, at, at - 1, at + 1, resolution) for at in (10.0, 17.0))

    assert low.overlaps(high) == high.overlaps(low) == overlap


def test_a_resolution_that_is_not_known_is_not_taken_for_none():
    times = [Estimate(METRICS["latency.p99"], "ms", 1, 3.0, None, None, known) for known in (None, 0.0, 0.25)]
    rate = Estimate(METRICS["throughput.delivered_per_s"], "1/s", 1, 3.0, None, None)

    assert [time.below for time in times] == ["resolution not known", "", "resolution 0.25"]
    assert rate.below == ""
