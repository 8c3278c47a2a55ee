import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerlab.load.schedule import constant_ns

pytestmark = pytest.mark.unit

SECOND = 1_000_000_000


def times(rate_per_s, publisher=0, publishers=1, start=10**15, seconds=1.0):
    end = start + int(seconds * SECOND)
    chunks = list(constant_ns(rate_per_s, publisher=publisher, publishers=publishers, start_ns=start, end_ns=end))
    return np.concatenate(chunks) - start if chunks else np.empty(0)


def test_four_a_second_are_due_at_every_quarter():
    assert times(4).tolist() == [0, 250_000_000, 500_000_000, 750_000_000]


def test_publishers_take_turns():
    second = times(2, publisher=1, publishers=4)

    assert second.tolist() == [125_000_000, 625_000_000]


@given(st.floats(0.5, 50_000), st.integers(1, 8), st.floats(0.01, 2))
def test_all_times_lie_in_the_schedule_and_the_count_is_the_rate(rate_per_s, publishers, seconds):
    every = [times(rate_per_s, number, publishers, seconds=seconds) for number in range(publishers)]
    together = np.sort(np.concatenate(every))

    assert abs(together.size - rate_per_s * seconds * publishers) <= publishers
    assert together.size == 0 or (together[0] >= 0 and together[-1] < seconds * SECOND)


def test_no_rounding_error_adds_up_over_ten_million_messages():
    last = None
    for chunk in constant_ns(3_333.3, publisher=0, publishers=1, start_ns=0, end_ns=3_000 * SECOND):
        last = chunk[-1]

    count = int(np.ceil(3_000 * 3_333.3))
    assert last == int((count - 1) * SECOND / 3_333.3)
