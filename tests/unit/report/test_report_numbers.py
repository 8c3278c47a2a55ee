import math

import pytest

from brokerlab.report.metrics import METRICS, Estimate
from brokerlab.report.numbers import brief, count, listed, significant

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
