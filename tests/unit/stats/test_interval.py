import math

import pytest

from brokerlab.stats.interval import Interval, bootstrap_interval, mean_interval, t_factor

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("n", "t"), [(2, 12.706), (3, 4.303), (5, 2.776), (10, 2.262), (31, 2.042)])
def test_t_factor_is_the_printed_quantile_over_root_n(n, t):
    """From any table of Student's distribution, two-sided 95 %."""
    assert t_factor(n) * math.sqrt(n) == pytest.approx(t, abs=5e-4)


def test_t_factor_of_another_confidence():
    assert t_factor(3, confidence_percent=90) * math.sqrt(3) == pytest.approx(2.920, abs=5e-4)


def test_mean_interval_by_hand():
    """Mean 10, sd 10, half width 4.303 · 10 / √3 = 24.84."""
    interval = mean_interval([0, 10, 20])

    assert (interval.n, interval.mean, interval.sd) == (3, 10, 10)
    assert interval.low == pytest.approx(-14.84, abs=0.01)
    assert interval.high == pytest.approx(34.84, abs=0.01)


def test_mean_interval_of_equal_values_has_no_width():
    assert mean_interval([4.0, 4.0]) == Interval(n=2, mean=4.0, low=4.0, high=4.0, sd=0.0)


def test_mean_interval_of_one_value_has_no_bounds():
    assert mean_interval([4.0]) == Interval(n=1, mean=4.0, low=None, high=None, sd=None)


def test_mean_interval_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])


@pytest.mark.parametrize("confidence_percent", [0, 100, -5, 120])
def test_impossible_confidence_is_refused(confidence_percent):
    with pytest.raises(ValueError, match="between 0 and 100"):
        t_factor(3, confidence_percent=confidence_percent)


def test_one_value_has_no_t_factor():
    with pytest.raises(ValueError, match="two values"):
        t_factor(1)


def test_bootstrap_of_many_runs_is_near_students():
    values = [float(n % 10) for n in range(100)]
    resampled, plain = bootstrap_interval(values), mean_interval(values)

    assert (resampled.low, resampled.high) == pytest.approx((plain.low, plain.high), abs=0.1)
    assert resampled == bootstrap_interval(values)


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0]])
def test_bootstrap_needs_values_that_differ(values):
    interval = bootstrap_interval(values)

    assert (interval.mean, interval.low, interval.high) == (3.0, None, None)
