"""Searches played through on paper: what is tried in which order, and what is found."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerlab.lab.search import Attempt, Found, Outcome, found, next_rate
from brokerlab.study.values import Arrivals, Schedule

pytestmark = pytest.mark.unit

PASSED, FAILED, LIMITED = Outcome.PASSED, Outcome.FAILED, Outcome.LIMITED
MOST_TRIALS = 200


def terms(start=100, to=100_000, precision=5):
    return Schedule(
        Arrivals.SEARCH, p99_ms=10, from_per_s=float(start), to_per_s=float(to), precision_percent=precision
    )


def search(outcome_of, **changed):
    """All attempts of a search on a broker that is a function of the rate and of the number of the trial."""
    attempts = []
    while (rate := next_rate(attempts, terms(**changed))) is not None:
        attempts.append(Attempt(rate, outcome_of(rate, len(attempts) + 1)))
        assert len(attempts) < MOST_TRIALS, "does not end"
    return attempts


def carries(capacity):
    return lambda rate, _: PASSED if rate <= capacity else FAILED


def test_rates_double_until_two_trials_fail_then_the_gap_is_halved_and_the_end_confirmed():
    attempts = search(carries(500), precision=20)

    assert [(attempt.rate_per_s, attempt.outcome) for attempt in attempts] == [
        (100, PASSED), (200, PASSED), (400, PASSED), (800, FAILED), (800, FAILED),
        (565.7, FAILED), (565.7, FAILED), (475.7, PASSED), (475.7, PASSED),
    ]  # fmt: skip
    assert found(attempts) == Found(475.7, 475.7, 565.7)


@pytest.mark.parametrize("capacity", [100, 101, 333, 5_000, 77_777, 99_999])
@pytest.mark.parametrize("precision", [1, 5, 50])
def test_the_capacity_lies_in_an_interval_as_wide_as_the_precision_at_most(capacity, precision):
    result = found(search(carries(capacity), precision=precision))

    assert result.low_per_s <= capacity < result.high_per_s
    assert result.high_per_s / result.low_per_s <= 1 + precision / 100
    assert result.rate_per_s == result.low_per_s


def test_both_ends_were_seen_twice():
    attempts = search(carries(3_000))
    result = found(attempts)

    assert attempts.count(Attempt(result.low_per_s, PASSED)) == 2
    assert attempts.count(Attempt(result.high_per_s, FAILED)) == 2


@pytest.mark.parametrize("hiccup", range(1, 16))
def test_one_bad_moment_does_not_change_what_is_found(hiccup):
    def sometimes(rate, number):
        return FAILED if number == hiccup else carries(3_000)(rate, number)

    assert_same_rate_and_the_capacity_within(search(sometimes), 3_000)


@pytest.mark.parametrize("lucky", range(1, 16))
def test_one_lucky_trial_does_not_change_what_is_found(lucky):
    def sometimes(rate, number):
        return PASSED if number == lucky else carries(3_000)(rate, number)

    assert_same_rate_and_the_capacity_within(search(sometimes), 3_000)


def assert_same_rate_and_the_capacity_within(attempts, capacity):
    """Where a trial disagreed with others at its rate the interval is wider, and holds that rate."""
    plain, result = found(search(carries(capacity))), found(attempts)
    highest = result.high_per_s or math.inf

    assert result.rate_per_s == plain.rate_per_s
    assert result.low_per_s <= plain.low_per_s <= capacity < plain.high_per_s <= highest
    for end_per_s, outcome in ((result.low_per_s, PASSED), (highest, FAILED)):
        assert {each.outcome for each in attempts if each.rate_per_s == end_per_s} <= {outcome}


@pytest.mark.parametrize(
    ("measured", "low"), [(PASSED, 475.7), (FAILED, 400.0), (LIMITED, 475.7)], ids=["held", "not held", "disturbed"]
)
def test_what_does_not_hold_when_it_is_measured_is_within_the_interval_and_not_its_end(measured, low):
    attempts = search(carries(500), precision=20)

    assert found(attempts, [Attempt(475.7, measured)]) == Found(475.7, low, 565.7)


def test_a_rate_that_passed_once_of_three_times_is_within_the_interval():
    """800 failed first and last; above it nothing was tried, so the interval is open."""
    attempts = search(lambda rate, number: PASSED if number == 5 else carries(700)(rate, number), precision=50)

    assert [each.outcome for each in attempts if each.rate_per_s == 800] == [FAILED, PASSED, FAILED]
    assert found(attempts) == Found(565.7, 565.7, None)


def test_a_broker_that_carries_everything_has_no_upper_end():
    attempts = search(carries(10**9), to=700)

    assert [attempt.rate_per_s for attempt in attempts] == [100, 200, 400, 700, 700]
    assert found(attempts) == Found(700, 700, None)


def test_a_broker_that_does_not_carry_the_lowest_rate_has_no_capacity():
    assert found(search(carries(50))) == Found(None, 0, 100)


def test_a_generator_that_is_the_limit_four_times_ends_the_search_with_what_passed():
    attempts = search(lambda rate, _: LIMITED if rate > 300 else PASSED)

    assert [attempt.rate_per_s for attempt in attempts] == [100, 200, 400, 400, 400, 400]
    assert found(attempts) == Found(200, 200, None, is_limited=True)


def test_a_generator_that_was_disturbed_for_a_while_tries_again_and_finds_the_same():
    attempts = search(lambda rate, number: LIMITED if number in (2, 3, 4) else carries(500)(rate, number))

    assert [attempt.rate_per_s for attempt in attempts[:6]] == [100, 200, 200, 200, 200, 400]
    assert found(attempts) == found(search(carries(500)))


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 30]), st.floats(0, 1))
def test_every_search_ends_however_the_trials_come_out(seed, precision, share):
    chance = random.Random(seed)
    attempts = search(lambda rate, number: PASSED if chance.random() < share else FAILED, precision=precision)
    result = found(attempts)

    if result.rate_per_s is not None:
        assert result.low_per_s <= result.rate_per_s < (result.high_per_s or math.inf)
    for rate in {attempt.rate_per_s for attempt in attempts}:
        outcomes = [attempt.outcome for attempt in attempts if attempt.rate_per_s == rate]
        assert len(outcomes) <= 3
        assert all(len(list(same)) <= 2 for _, same in itertools.groupby(outcomes))
