import math

import pytest

from brokerlab.stats.agreement import kendall_w

pytestmark = pytest.mark.unit


def test_concordance_by_hand():
    """M-17: ranks add up to 3, 7 and 8; S = 14, W = 12 · 14 / (9 · 24); with two degrees of freedom p = exp(-χ²/2)."""
    found = kendall_w([[1, 2, 3], [1, 2, 3], [1, 3, 2]])

    assert found.w == pytest.approx(7 / 9)
    assert found.p == pytest.approx(math.exp(-3 * 2 * 7 / 9 / 2))


def test_one_order_is_full_agreement_whatever_the_numbers():
    assert kendall_w([[1, 5, 9], [10, 20, 21]]).w == pytest.approx(1)


def test_ties_share_their_ranks_and_do_not_lower_the_most_there_can_be():
    assert kendall_w([[1, 1, 2], [3, 3, 5]]).w == pytest.approx(1)


def test_raters_who_tell_nothing_apart():
    assert kendall_w([[3, 3], [4, 4]]).w is None


def test_one_rater_agrees_with_nobody():
    with pytest.raises(ValueError, match="two raters"):
        kendall_w([[1, 2, 3]])
