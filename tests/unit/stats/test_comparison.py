"""Two levels beside each other, on numbers that can be worked out on paper, and against SciPy and statsmodels."""

import math

import pytest
from scipy import stats

from brokerlab.stats.comparison import (
    Difference,
    Sample,
    answer_of,
    hedges_g,
    holm,
    noise_floor,
    paired,
    sample_of,
    welch,
)

pytestmark = pytest.mark.unit

ONE, OTHER = [1.0, 2.0, 3.0], [4.0, 6.0, 8.0]


def test_welch_by_hand():
    """Variances 1 and 4 over three runs: error √(5/3), 50/17 degrees of freedom."""
    found = welch(sample_of(ONE), sample_of(OTHER))
    half = stats.t.ppf(0.975, 50 / 17) * math.sqrt(5 / 3)

    assert found.value == -4
    assert (found.low, found.high) == pytest.approx((-4 - half, -4 + half), rel=1e-12)
    assert found.p == pytest.approx(stats.ttest_ind(ONE, OTHER, equal_var=False).pvalue, rel=1e-12)
    assert found.equivalent_p is None


def test_paired_takes_away_what_both_share():
    """Differences -1, -1, -4: mean -2, sd √3, error 1."""
    found = paired([1, 11, 20], [2, 12, 24])

    assert found.value == -2
    assert found.high == pytest.approx(-2 + 4.303, abs=1e-3)
    assert found.p == pytest.approx(stats.ttest_rel([1, 11, 20], [2, 12, 24]).pvalue, rel=1e-12)


def test_equivalence_agrees_with_statsmodels():
    """statsmodels 0.15: ttost_ind(a, b, -1.5, 1.5, usevar="unequal")."""
    found = welch(sample_of([20.1, 21.4, 19.8, 20.7]), sample_of([20.3, 20.0, 21.0]), margin=1.5)

    assert found.equivalent_p == pytest.approx(0.013327591331544443, rel=1e-9)


@pytest.mark.parametrize(("b", "p", "equivalent_p"), [(5.0, 1.0, 0.0), (5.2, 0.0, 0.0), (9.0, 0.0, 1.0)])
def test_runs_that_agree_to_the_last_digit_leave_nothing_to_chance(b, p, equivalent_p):
    found = welch(Sample(3, 5.0, 0.0), Sample(3, b, 0.0), margin=0.25)

    assert found == Difference(5.0 - b, 5.0 - b, 5.0 - b, p, equivalent_p)


def test_one_run_has_a_difference_and_no_more():
    assert welch(sample_of([3.0]), sample_of(ONE), margin=1) == Difference(1.0)
    assert paired([3.0], [1.0]) == Difference(2.0)


def test_holm_by_hand():
    """0.005·4, 0.01·3, 0.03·2; 0.04·1 is raised to the one before it. What is not known is not in the family."""
    assert holm([0.01, None, 0.04, 0.03, 0.005]) == [0.03, None, 0.06, 0.06, 0.02]
    assert holm([0.7, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_hedges_g_by_hand():
    """Two sds of 1.5811: d = -1.2649, times 0.9027 for eight degrees of freedom."""
    found = hedges_g(sample_of([1, 2, 3, 4, 5]), sample_of([3, 4, 5, 6, 7]))

    assert found.g == pytest.approx(-1.2649 * 0.9027, abs=1e-4)
    assert found.low < found.g < 0 < found.high


@pytest.mark.parametrize("apart", [0.5, 40.0, 5000.0])
def test_bounds_of_g_are_those_of_the_non_central_distribution(apart):
    """Under each bound, 2.5 % of all samples lie beyond the one that was seen; both ways round."""
    a, b = sample_of([1, 2, 3, 4]), sample_of([1 + apart, 2 + apart, 4 + apart])
    found, mirrored = hedges_g(a, b), hedges_g(b, a)
    pooled = math.sqrt((3 * a.sd**2 + 2 * b.sd**2) / 5)
    t = (a.mean - b.mean) / (pooled * math.sqrt(7 / 12))
    scale = found.g / t

    assert stats.nct.cdf(t, 5, found.low / scale) == pytest.approx(0.975, abs=1e-6)
    assert stats.nct.cdf(t, 5, found.high / scale) == pytest.approx(0.025, abs=1e-6)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), rel=1e-9)


def test_no_effect_size_without_a_spread():
    assert hedges_g(Sample(3, 1.0, 0.0), Sample(3, 2.0, 0.0)) is None
    assert hedges_g(Sample(1, 1.0, None), Sample(3, 2.0, 1.0)) is None


def test_noise_floor_by_hand():
    """Six deals of 1, 2, 3 and 4 lie 0, 0, 1, 1, 2 and 2 apart."""
    assert noise_floor([1, 4], [2, 3]) == 2
    assert noise_floor([1, 4], [2, 3], confidence_percent=50) == 1
    assert noise_floor([1, 2], [3, 4], confidence_percent=50) == 2  # that was seen
    assert noise_floor([5], [7]) == 2


def test_noise_floor_of_many_runs_is_drawn_the_same_each_time():
    a, b = [float(n % 7) for n in range(30)], [float(n % 5) for n in range(30)]

    assert noise_floor(a, b) == noise_floor(a, b) > 0


@pytest.mark.parametrize(
    ("p", "equivalent_p", "floor", "expected"),
    [
        (0.01, 0.9, None, "worse"),
        (0.01, 0.9, 1.0, "worse"),
        (0.01, 0.9, 2.5, "not distinguishable"),
        (0.2, 0.01, None, "equivalent"),
        (0.2, 0.2, None, "not distinguishable"),
        (None, None, None, "not distinguishable"),
    ],
)
def test_equivalent_and_not_distinguishable_are_told_apart(p, equivalent_p, floor, expected):
    """F-21: a difference within the floor of an A/A pair is a tie, however sure it is."""
    found = answer_of(
        Difference(2.0), larger_is_better=False, corrected_p=p, corrected_equivalent_p=equivalent_p, floor=floor
    )

    assert found == expected


@pytest.mark.parametrize(
    ("resolution", "margin", "equivalent_p", "expected"),
    [
        (None, 1.0, 0.9, "worse"),
        (1.9, 1.0, 0.9, "worse"),
        (2.0, 1.0, 0.9, "not distinguishable"),
        (2.0, 1.0, 0.01, "not distinguishable"),  # that they lie within a margin of 1 cannot be seen either
        (2.0, 2.5, 0.01, "equivalent"),
    ],
)
def test_what_is_coarser_than_the_difference_hides_it(resolution, margin, equivalent_p, expected):
    found = answer_of(
        Difference(2.0), larger_is_better=False, corrected_p=0.0, corrected_equivalent_p=equivalent_p,
        resolution=resolution, margin=margin,
    )  # fmt: skip

    assert found == expected


def test_better_depends_on_what_is_good():
    assert answer_of(Difference(2.0), larger_is_better=True, corrected_p=0.0) == "better"
    assert answer_of(Difference(-2.0), larger_is_better=True, corrected_p=0.0) == "worse"
