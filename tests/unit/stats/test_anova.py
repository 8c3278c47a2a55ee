"""Analysis of variance by hand, and against statsmodels where the design is unbalanced."""

import pytest

from brokerlab.stats.anova import anova

pytestmark = pytest.mark.unit

# Means 2, 6, 4 and 12 of four cells with two runs each, one below and one above: the whole mean is 6.
BALANCED = ([1, 3, 5, 7, 3, 5, 11, 13], {"broker": list("aaaabbbb"), "qos": list("00110011")})
VALUES = [12.0, 14.0, 20.0, 23.0, 15.0, 16.0, 31.0, 30.0, 9.0, 13.0, 19.0]
X, Y, Z = list("aaaabbbbccc"), list("00110011001"), list("pqpqqpqppqp")


def table(terms):
    return {term.name: (term.degrees, term.sum_of_squares, term.f, term.p) for term in terms}


def test_balanced_design_by_hand():
    terms = anova(*BALANCED)

    assert [(t.name, t.degrees) for t in terms] == [("broker", 1), ("qos", 1), ("broker × qos", 1), ("residual", 4)]
    assert [t.sum_of_squares for t in terms] == pytest.approx([32, 72, 8, 8])
    assert [t.f for t in terms[:3]] == pytest.approx([16, 36, 4])
    assert [t.share_percent for t in terms] == pytest.approx([100 * part / 120 for part in (32, 72, 8, 8)])
    assert terms[0].p == pytest.approx(0.01613, abs=1e-5)
    assert terms[3].f is None


def test_order_of_runs_does_not_matter():
    values, factors = BALANCED
    backwards = anova(values[::-1], {name: levels[::-1] for name, levels in factors.items()})

    assert [t.sum_of_squares for t in backwards] == pytest.approx([t.sum_of_squares for t in anova(values, factors)])


def test_unbalanced_design_agrees_with_statsmodels():
    """statsmodels 0.15: anova_lm(ols("v ~ C(x) * C(y)"), typ=2)."""
    found = table(anova(VALUES, {"x": X, "y": Y}))

    assert found["x"] == pytest.approx((2, 112.3770833, 18.12533602, 0.005115021223), rel=1e-8)
    assert found["y"] == pytest.approx((1, 311.7604167, 100.5678763, 0.0001686418693), rel=1e-8)
    assert found["x × y"] == pytest.approx((2, 28.15625, 4.541330645, 0.07511266585), rel=1e-8)
    assert found["residual"][:2] == pytest.approx((5, 15.5))


def test_three_factors_agree_with_statsmodels():
    """The same with all three pairs: anova_lm(..., typ=2)."""
    found = table(anova(VALUES, {"x": X, "y": Y, "z": Z}))

    assert found["x"] == pytest.approx((2, 100.8472222, 403.3888889, 0.03518471595), rel=1e-6)
    assert found["z"] == pytest.approx((1, 8.1, 64.8, 0.07868163838), rel=1e-6)
    assert found["x × z"] == pytest.approx((2, 7.208333333, 28.83333333, 0.130558242), rel=1e-6)
    assert found["y × z"] == pytest.approx((1, 1.125, 9, 0.2048327647), rel=1e-6)
    assert found["residual"][:2] == pytest.approx((1, 0.125))


def test_a_missing_cell_takes_a_degree_of_freedom():
    """A broker without QoS 2: of the interaction's two degrees one is left."""
    factors = {"broker": list("aaaaaabbbb"), "qos": list("0011220011")}

    degrees = {term.name: term.degrees for term in anova([1, 2, 3, 4, 6, 8, 2, 3, 7, 9], factors)}

    assert degrees == {"broker": 1, "qos": 2, "broker × qos": 1, "residual": 5}


def test_one_run_per_cell_has_shares_and_no_test():
    terms = anova([1, 2, 3, 5], {"broker": list("aabb"), "qos": list("0101")})

    assert terms[-1].degrees == 0
    assert all(term.f is None and term.p is None for term in terms)
    assert terms[0].share_percent == pytest.approx(100 * 6.25 / 8.75)


def test_factors_that_do_not_vary_are_no_terms():
    assert anova([1, 2], {"broker": ["a", "a"]}) == []
    assert anova([], {"broker": []}) == []
    assert [term.name for term in anova([1, 2, 4], {"broker": list("aab"), "qos": list("000")})] == [
        "broker",
        "residual",
    ]


def test_equal_values_have_no_variance_to_share():
    assert [(t.share_percent, t.f) for t in anova([2, 2, 2, 2], {"broker": list("aabb")})] == [(None, None)] * 2
