"""Agreement of raters (M-17, F-04)."""

import pytest

from brokerlab.stats.raters import ordinal_agreement


def units(*columns):
    """Units from one string per rater; a blank is no answer."""
    raters = [f"r{number}" for number in range(len(columns))]
    return [
        {rater: float(level) for rater, level in zip(raters, levels, strict=True) if level != " "}
        for levels in zip(*columns, strict=True)
    ]


def test_all_agree():
    found = ordinal_agreement(units("12345", "12345"))

    assert (found.alpha, found.low, found.high) == (1.0, 1.0, 1.0)


def test_a_hand_computed_value():
    """Two raters, four units (1,1) (2,2) (3,3) (1,3).

    Levels occur n1=3, n2=2, n3=3 times, in 8 answers. Ordinal distances between levels, squared:
    d(1,2) = (3/2+2/2)² = 6.25, d(2,3) = 6.25, d(1,3) = (3/2+2+3/2)² = 25.
    Observed: only the unit (1,3) disagrees, twice of 8: 2·25/8 = 6.25.
    Expected: 2·(3·2·6.25 + 2·3·6.25 + 3·3·25)/(8·7) = 600/56.
    """
    found = ordinal_agreement(units("1231", "1233"))

    assert found.alpha == pytest.approx(1 - 6.25 / (600 / 56))


def test_a_missing_answer_leaves_its_unit_out_where_only_one_is_left():
    found = ordinal_agreement(units("12345", "1234 "))

    assert (found.units, found.alpha) == (4, 1.0)


def test_the_interval_holds_alpha_and_is_the_same_for_the_same_seed():
    said = units("123451234512345", "123451234512354", "223451134512345")

    one, again, other = (ordinal_agreement(said, seed=seed) for seed in (1, 1, 2))

    assert one == again
    assert one.low <= one.alpha <= one.high
    assert (one.low, one.high) != (other.low, other.high) or one.low == one.high


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (units("123"), "no broker was judged by two raters"),
        ([], "no broker was judged by two raters"),
        (units("333", "333"), "all gave the same level everywhere"),
    ],
)
def test_where_alpha_has_no_value_it_says_why(said, why):
    found = ordinal_agreement(said)

    assert (found.alpha, found.why_not) == (None, why)
