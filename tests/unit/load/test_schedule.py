import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.load.schedule import Span, intended_ns, left_of
from brokerlab.study.values import Arrivals, Schedule

pytestmark = pytest.mark.unit

SECOND = 1_000_000_000
START = 10**15
WITHOUT_LIMIT = settings(deadline=None)  # the machine may be busy

RATES = st.floats(0.5, 5_000)
SCHEDULES = st.one_of(
    st.builds(Schedule, st.sampled_from([Arrivals.CONSTANT, Arrivals.POISSON]), RATES),
    st.builds(Schedule, st.just(Arrivals.JITTER), RATES, jitter_percent=st.floats(0.1, 50)),
    st.builds(Schedule, st.just(Arrivals.BURST), RATES, burst=st.integers(1, 60)),
    st.builds(Schedule, st.just(Arrivals.RAMP), RATES, to_per_s=RATES),
    st.builds(Schedule, st.just(Arrivals.STEP), rates_per_s=st.lists(RATES, min_size=1, max_size=5).map(tuple)),
    st.builds(Schedule, st.just(Arrivals.CONTACT), RATES, store_s=st.floats(2, 3), within_s=st.just(0.25)),
)  # fmt: skip
PLACES = st.tuples(st.integers(1, 8), st.integers(0, 7)).filter(lambda place: place[1] < place[0])


def span(seconds=1.0, *, publisher=0, publishers=1, measure_s=0.0, seed=1, chunk=4096):
    end = START + int(seconds * SECOND)
    return Span(START, end, START + int(measure_s * SECOND), publisher, publishers, seed, chunk)


def times(schedule, where):
    """Nanoseconds since the start, all chunks together."""
    chunks = list(intended_ns(schedule, where))
    assert all(0 < chunk.size <= where.chunk for chunk in chunks)
    return np.concatenate(chunks) - START if chunks else np.empty(0, dtype=np.int64)


def milliseconds(schedule, where):
    return (times(schedule, where) / 1e6).tolist()


def test_four_a_second_are_due_at_every_quarter():
    assert milliseconds(Schedule(rate_per_s=4), span()) == [0, 250, 500, 750]


def test_publishers_take_turns():
    assert milliseconds(Schedule(rate_per_s=2), span(publisher=1, publishers=4)) == [125, 625]


def test_bursts_of_three_at_six_a_second_come_every_half_second():
    schedule = Schedule(Arrivals.BURST, 6, burst=3)

    assert milliseconds(schedule, span()) == [0, 0, 0, 500, 500, 500]
    assert milliseconds(schedule, span(publisher=1, publishers=2)) == [250, 250, 250, 750, 750, 750]


@pytest.mark.parametrize(
    ("schedule", "where", "count"),
    [
        (Schedule(rate_per_s=29), span(), 29),  # 10**9 / (10**9 / 29) is more than 29 in floats
        (Schedule(rate_per_s=58), span(publishers=3), 58),
        (Schedule(Arrivals.BURST, 139, burst=10), span(publisher=9, publishers=10), 130),
        (Schedule(Arrivals.RAMP, 15, to_per_s=391), span(1.3, publisher=9, publishers=10), 263),
        (Schedule(Arrivals.STEP, rates_per_s=(415, 67, 266, 399, 288)), span(), 287),
    ],
)  # fmt: skip
def test_what_is_due_at_the_end_is_not_due_before_it(schedule, where, count):
    assert times(schedule, where).size == count


@pytest.mark.parametrize("jitter", [1, 20, 50])
def test_publishers_with_jitter_send_at_the_rate_from_the_start(jitter):
    """A thousand at one a second: 500 of them are in the middle of an interval when the schedule begins."""
    schedule = Schedule(Arrivals.JITTER, 1, jitter_percent=jitter)
    every = np.concatenate([times(schedule, span(2, publisher=each, publishers=1000)) for each in range(1000)])

    assert every.size == pytest.approx(2000, abs=100)
    assert np.count_nonzero(every < SECOND) == pytest.approx(1000, abs=100)


@given(st.integers(1, 20_000), st.integers(1, 50), st.integers(1, 400), PLACES)
@WITHOUT_LIMIT
def test_bursts_are_counted_as_in_whole_numbers(rate, burst, tenths, place):
    publishers, publisher = place
    due = Fraction(tenths, 10) * rate / burst - Fraction(publisher, publishers)

    where = span(tenths / 10, publisher=publisher, publishers=publishers)
    assert times(Schedule(Arrivals.BURST, rate, burst=burst), where).size == burst * max(0, math.ceil(due))


def test_ramp_from_two_to_six_a_second_follows_its_integral():
    due = times(Schedule(Arrivals.RAMP, 2, to_per_s=6), span())

    # 2t + 2t² messages are due before t: message i at (sqrt(1 + 2i) - 1) / 2
    assert (due / SECOND).round(4).tolist() == [0, 0.3660, 0.6180, 0.8229]


def test_ramp_may_fall_and_may_stay():
    falling = times(Schedule(Arrivals.RAMP, 30, to_per_s=10), span())

    assert falling.size == 20
    assert np.all(np.diff(np.diff(falling)) > 0)
    assert milliseconds(Schedule(Arrivals.RAMP, 4, to_per_s=4), span()) == [0, 250, 500, 750]


def test_steps_have_equal_shares_of_the_schedule():
    schedule = Schedule(Arrivals.STEP, rates_per_s=(2.0, 4.0))

    assert milliseconds(schedule, span(2.0)) == [0, 500, 1000, 1250, 1500, 1750]
    assert milliseconds(schedule, span(2.0, publisher=1, publishers=2)) == [250, 750, 1125, 1375, 1625, 1875]


def test_contact_sends_a_day_of_readings_within_its_window_in_the_measure_phase():
    schedule = Schedule(Arrivals.CONTACT, 1 / 3600, store_s=24 * 3600, within_s=1.2)

    due = milliseconds(schedule, span(5.0, measure_s=2.0))

    assert due == [2000 + 50 * number for number in range(24)]


def test_jitter_keeps_each_message_near_the_middle_of_its_interval():
    due = times(Schedule(Arrivals.JITTER, 100, jitter_percent=20), span(50.0))

    off = due / 1e7 - (np.arange(due.size) + 0.5)
    assert due.size == 5000
    assert -0.2 <= off.min() < -0.19
    assert 0.19 < off.max() <= 0.2


def test_poisson_gaps_are_exponential():
    gaps = np.diff(times(Schedule(Arrivals.POISSON, 1000), span(100.0))) / 1e6

    assert gaps.mean() == pytest.approx(1, rel=0.02)
    assert gaps.std() == pytest.approx(1, rel=0.02)
    assert np.mean(gaps > 1) == pytest.approx(np.exp(-1), abs=0.01)


@pytest.mark.parametrize("schedule", [Schedule(Arrivals.POISSON), Schedule(Arrivals.JITTER, jitter_percent=20)])
def test_random_times_depend_on_seed_and_publisher_alone(schedule):
    first = times(schedule, span(5.0, publishers=4, publisher=2))

    assert np.array_equal(first, times(schedule, span(5.0, publishers=4, publisher=2)))
    assert not np.array_equal(first[:100], times(schedule, span(5.0, publishers=4, publisher=2, seed=2))[:100])
    other = times(schedule, span(5.0, publishers=4, publisher=3))
    size = min(first.size, other.size)
    assert abs(np.corrcoef(np.diff(first[:size]), np.diff(other[:size]))[0, 1]) < 0.2


@WITHOUT_LIMIT
@given(SCHEDULES, PLACES, st.floats(0.3, 2), st.integers(0, 2**53))
def test_times_lie_in_the_schedule_in_order(schedule, place, seconds, seed):
    due = times(schedule, span(seconds, publishers=place[0], publisher=place[1], seed=seed))

    assert due.size == 0 or (due[0] >= 0 and due[-1] < int(seconds * SECOND))
    assert np.all(np.diff(due) >= 0)


@WITHOUT_LIMIT
@given(SCHEDULES, PLACES, st.floats(0.3, 2), st.integers(1, 500))
def test_size_of_chunks_changes_nothing(schedule, place, seconds, chunk):
    where = span(seconds, publishers=place[0], publisher=place[1])

    assert np.array_equal(times(schedule, where), times(schedule, replace(where, chunk=chunk)))


@WITHOUT_LIMIT
@given(SCHEDULES, st.floats(0.3, 2), st.integers(1, 5))
def test_mean_rate_of_all_publishers_holds(schedule, seconds, publishers):
    count = sum(
        times(schedule, span(seconds, publishers=publishers, publisher=each)).size for each in range(publishers)
    )

    expected, tolerance = expectation(schedule, seconds)
    noise = 6 * (expected * publishers) ** 0.5 if schedule.arrivals is Arrivals.POISSON else 0
    assert abs(count - expected * publishers) <= publishers * tolerance + noise + 1e-6


def expectation(schedule, seconds):
    """Messages of one publisher, and by how many it may be off because the schedule ends where it does."""
    match schedule.arrivals:
        case Arrivals.RAMP:
            return (schedule.rate_per_s + schedule.to_per_s) / 2 * seconds, 1
        case Arrivals.STEP:
            return sum(schedule.rates_per_s) / len(schedule.rates_per_s) * seconds, 1
        case Arrivals.CONTACT:
            return round(schedule.rate_per_s * schedule.store_s), 0
        case Arrivals.POISSON:
            return schedule.rate_per_s * seconds, 1 + 10  # the tail of so few messages is longer than six deviations
    return schedule.rate_per_s * seconds, schedule.burst + 1


def test_no_rounding_error_adds_up_over_ten_million_messages():
    last = None
    for chunk in intended_ns(Schedule(rate_per_s=3_333.3), Span(0, 3_000 * SECOND, 0)):
        last = chunk[-1]

    count = int(np.ceil(3_000 * 3_333.3))
    assert last == int((count - 1) * SECOND / 3_333.3)


def test_closed_loops_have_no_times():
    assert list(intended_ns(Schedule(Arrivals.SATURATE), span())) == []


@pytest.mark.parametrize("arrivals", [Arrivals.CONSTANT, Arrivals.POISSON])
def test_what_is_left_of_a_schedule_is_counted(arrivals):
    span = Span(0, 1_000_000_000, 0, seed=3, chunk=7)
    every = sum(each.size for each in intended_ns(Schedule(arrivals, rate_per_s=100.0), span))
    times = intended_ns(Schedule(arrivals, rate_per_s=100.0), span)

    assert next(times).size == 7
    assert left_of(times) == every - 7
    assert left_of(iter(())) == 0
    assert left_of(intended_ns(Schedule(rate_per_s=1e15), span)) == 10**15  # which nobody could make
