"""Jitter, growth and blocks on sequences that can be worked out on paper, and against SciPy's tests."""

import math

import numpy as np
import pytest
from scipy import stats

from brokerlab.stats.jitter import block_count, growth, rfc3550_jitter_ns

MS = 1_000_000


def ns(*latency_ms):
    return np.array([round(value * MS) for value in latency_ms], dtype=np.int64)


def test_jitter_of_three_messages_on_paper():
    """D = 16 ms, then 32 ms: J = 1 ms, then 1 + (32 - 1) / 16 = 2.9375 ms."""
    assert rfc3550_jitter_ns(ns(5, 21, 53)) == pytest.approx(2.9375 * MS)


def test_jitter_does_not_mind_the_sign_of_a_change():
    assert rfc3550_jitter_ns(ns(21, 5)) == rfc3550_jitter_ns(ns(5, 21)) == 1 * MS


def test_jitter_of_a_long_flow_is_the_recurrence():
    latency_ns = np.random.default_rng(7).integers(0, 50 * MS, 5000)
    jitter = 0.0
    for change in np.abs(np.diff(latency_ns)):
        jitter += (change - jitter) / 16

    assert rfc3550_jitter_ns(latency_ns) == pytest.approx(jitter, rel=1e-12)


def test_even_latency_has_no_jitter_and_no_growth():
    grown = growth(ns(*[4] * 20))

    assert rfc3550_jitter_ns(ns(*[4] * 20)) == 0.0
    assert (grown.slope_ns, grown.tau, grown.p, grown.is_monotone) == (0.0, 0.0, 1.0, False)


@pytest.mark.parametrize("latency_ns", [ns(), ns(3)])
def test_fewer_than_two_messages_say_nothing(latency_ns):
    assert rfc3550_jitter_ns(latency_ns) is None
    assert growth(latency_ns) is None
    assert block_count(latency_ns) == 0


def test_six_ascending_messages_are_growth():
    """S = 15 of 15 pairs, variance 6 * 5 * 17 / 18, z = 14 / sqrt(28.33) = 2.63."""
    grown = growth(ns(1, 2, 3, 4, 5, 6))

    assert (grown.slope_ns, grown.tau, grown.is_monotone) == (1 * MS, 1.0, True)
    assert grown.p == pytest.approx(0.5 * math.erfc(14 / math.sqrt(510 / 18) / math.sqrt(2)))
    assert grown.p == pytest.approx(0.0043, abs=1e-4)


def test_five_ascending_messages_may_be_chance():
    assert growth(ns(1, 2, 3, 4, 5)).is_monotone is False


def test_falling_latency_is_no_growth():
    fallen = growth(ns(*range(30, 0, -1)))

    assert (fallen.slope_ns, fallen.tau, fallen.is_monotone) == (-1 * MS, -1.0, False)
    assert fallen.p > 0.99


def test_a_sure_rise_that_is_small_beside_the_latency_is_no_growth():
    grown = growth(ns(*(100 + 0.1 * place for place in range(100))))

    assert grown.p < 1e-6
    assert grown.is_monotone is False


def test_a_long_flow_grows_at_the_same_slope_and_a_block_does_not_hide_it():
    latency_ns = np.arange(100_000) * 1000
    latency_ns[50_000] += 4487 * MS
    grown = growth(latency_ns)

    assert grown.is_monotone
    assert grown.slope_ns == pytest.approx(1000, rel=1e-6)


def test_noise_is_no_growth():
    grown = [growth(np.random.default_rng(seed).integers(0, 10 * MS, 2000)) for seed in range(50)]

    assert not any(one.is_monotone for one in grown)


@pytest.mark.parametrize("seed", range(5))
def test_growth_agrees_with_scipy(seed):
    latency_ns = np.random.default_rng(seed).permutation(90).astype(np.int64) * MS  # no ties: tau is tau-b
    place = np.arange(latency_ns.size)
    grown = growth(latency_ns)

    assert grown.slope_ns == pytest.approx(stats.theilslopes(latency_ns, place).slope, rel=1e-12)
    assert grown.tau == pytest.approx(stats.kendalltau(place, latency_ns).statistic, rel=1e-12)
    asymptotic = stats.kendalltau(place, latency_ns, method="asymptotic", alternative="greater").pvalue
    assert grown.p == pytest.approx(asymptotic, abs=0.01)  # SciPy does without the correction for continuity


def test_the_outlier_of_the_paper_is_a_block():
    """4487 ms among about 410 ms."""
    assert block_count(ns(*[400, 410, 420] * 10, 4487, *[400, 410, 420] * 10)) == 1


def test_neighbouring_outliers_are_one_block_and_others_count_apart():
    assert block_count(ns(*[1] * 20, 300, 200, *[1] * 5, 150, *[1] * 20)) == 2


def test_an_outlier_at_the_very_end_did_not_go_on():
    assert block_count(ns(*[1] * 20, 300)) == 0


def test_below_100_ms_above_the_median_nothing_is_a_block():
    assert block_count(ns(*[1] * 20, 101, *[1] * 20)) == 0
    assert block_count(ns(*[1] * 20, 101.1, *[1] * 20)) == 1


@pytest.mark.parametrize(
    ("apart_ms", "of", "still_ms"), [(100, 100, 4487), (100, 20, 600), (100, 20, 1000), (10, 200, 900)]
)
def test_messages_that_wait_for_a_flow_to_go_on_are_one_block(apart_ms, of, still_ms):
    """In an open loop all that is due meanwhile waits, so that up to half of a flow is late."""
    at = np.arange(of) * apart_ms
    since = of // 4 * apart_ms
    waited = np.where((at >= since) & (at < since + still_ms), since + still_ms - at, 0)

    assert block_count(ns(*(5 + at % 3 + waited))) == 1


def test_wide_scatter_needs_a_higher_outlier():
    """Quartiles 10 and 30 ms: the bound is 20 + 200 ms."""
    scatter = [10, 20, 30] * 21

    assert block_count(ns(*scatter, 210, *scatter)) == 0
    assert block_count(ns(*scatter, 230, *scatter)) == 1
