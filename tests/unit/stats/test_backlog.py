"""Messages under way, counted on paper."""

import numpy as np
import pytest

from brokerlab.stats.backlog import growth_percent, stable_percent, under_way

pytestmark = pytest.mark.unit

SECOND_NS = 1_000_000_000
SPAN = {"start_ns": 0, "end_ns": 4 * SECOND_NS}  # quarters of a second each


def seconds(*values):
    return (np.array(values, dtype=float) * 1e9).astype(np.int64)


def test_a_message_counts_for_the_time_that_it_spends_in_a_quarter():
    """The second quarter is [1, 2): one is in it for 0.5 s, one for all of it, one for none; the last is [3, 4)."""
    assert under_way(seconds(0.5, 1, 2.2), seconds(1.5, 9, 2.9), **SPAN) == (1.5, 1.0)


def test_portions_add_up():
    intended, received = seconds(0, 1.1, 3.2, 3.3), seconds(2, 1.3, 3.4, 4.5)
    whole = under_way(intended, received, **SPAN)
    parts = [under_way(intended[part], received[part], **SPAN) for part in (slice(0, 1), slice(1, 4))]

    assert whole == pytest.approx(tuple(map(sum, zip(*parts, strict=True))))


def test_a_load_that_is_carried_does_not_grow():
    intended = np.arange(0, 4 * SECOND_NS, SECOND_NS // 100)
    second, last = under_way(intended, intended + 5_000_000, **SPAN)

    assert second == pytest.approx(0.5)
    assert growth_percent(second, last, due_per_s=100, seconds=4) == pytest.approx(0, abs=0.01)


def test_what_is_not_carried_adds_up_to_its_share():
    """100 a second are due, 90 a second arrive: message i is due at i/100 and arrives at i/90."""
    number = np.arange(400)
    second, last = under_way(seconds(*(number / 100)), seconds(*(number / 90)), **SPAN)

    assert growth_percent(second, last, due_per_s=100, seconds=4) == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize(("span_s", "percent"), [(3, 1), (20, 1), (2, 1), (1, 2), (0.2, 10)])
def test_ten_milliseconds_of_load_are_no_growth_however_short_the_trial(span_s, percent):
    assert stable_percent(span_s) == pytest.approx(percent)


def test_nothing_is_under_way_of_nothing():
    assert under_way(seconds(), seconds(), **SPAN) == (0, 0)
