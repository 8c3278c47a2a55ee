"""The controller alone: an injected clock and brokers that are a formula of the window."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.load.spec import Progress
from brokerlab.load.widening import FIRST, LONG_S, MOST, NEAR, STEP_NS, Widening
from brokerlab.load.window import Window

pytestmark = pytest.mark.unit

LOOK_NS = 1_000_000


def drive(rate_of, *, seconds=5.0, lost_of=lambda _: 0, fan_out=1.0):
    """Lets a broker deliver `rate_of(window)` messages a second and lose others, looking every millisecond."""
    widening, delivered, lost = Widening(fan_out=fan_out), 0.0, 0.0
    for now in range(0, int(seconds * 1e9), LOOK_NS):
        window = widening.look(now, int(delivered), int(lost))
        delivered += rate_of(window) * LOOK_NS / 1e9
        lost += lost_of(window) * LOOK_NS / 1e9
    return widening


def drive_far(way_s, most_per_s, *, seconds, most=MOST):
    """A broker that delivers what was in the window when a message that comes now was sent."""
    widening, delivered, sizes = Widening(most=most), 0.0, []
    for now in range(0, int(seconds * 1e9), LOOK_NS):
        sizes.append(widening.look(now, int(delivered)))
        then = len(sizes) - 1 - int(way_s * 1e9 / LOOK_NS)
        delivered += min(most_per_s, sizes[then] / way_s if then >= 0 else 0) * LOOK_NS / 1e9
    return widening


@pytest.mark.parametrize(("way_s", "most_per_s"), [(0.04, 3_000), (0.12, 5_000), (0.3, 3_000)])
def test_window_is_as_wide_as_the_way_to_a_broker_far_away_is_long(way_s, most_per_s):
    """Through a window of 64 messages take 0.3 s there too: 213 a second, whatever the broker can do."""
    widening = drive_far(way_s, most_per_s, seconds=30)

    assert widening.settled_ns is not None
    assert way_s * most_per_s <= widening.size <= 4 * way_s * most_per_s


@pytest.mark.parametrize(("seconds", "is_cut_short"), [(0.2, True), (3, True), (30, False)])
def test_search_that_ends_while_the_rate_still_grows_says_so(seconds, is_cut_short):
    widening = drive_far(0.3, 3_000, seconds=seconds)
    widening.stop()

    assert widening.is_cut_short is is_cut_short


def test_search_that_ends_early_where_wider_brings_nothing_is_not_cut_short():
    widening = drive(lambda window: 100 * min(window, 200), seconds=0.5)
    widening.stop()

    assert len(widening.steps) > 2
    assert widening.settled_ns is None
    assert not widening.is_cut_short


@pytest.mark.parametrize(
    ("way_s", "most_per_s", "is_narrow"), [(0.3, 3_000, True), (0.3, 1_000, False), (0.001, 20_000, False)]
)
def test_the_widest_window_says_so_where_messages_hardly_wait_in_the_broker(way_s, most_per_s, is_narrow):
    """512 messages over 0.3 s are 1,707 a second: less than one of the brokers can do, more than the other."""
    widening = drive_far(way_s, most_per_s, seconds=30, most=512)

    assert (widening.settled_ns is not None, widening.is_widest_narrow) == (True, is_narrow)


def test_first_message_that_takes_long_does_not_make_the_search_long():
    slept = iter(range(200))

    widening = drive(lambda window: 0 if next(slept, None) is not None else 100 * min(window, 200))

    assert widening.size == 1024
    assert widening.settled_ns < 4e9


def test_window_stops_where_the_broker_delivers_no_more():
    widening = drive(lambda window: 100 * min(window, 200))

    assert [window for window, _ in widening.steps] == [64, 128] + [256, 512, 1024, 2048] * 3
    assert widening.size == 1024
    assert widening.steps[0][1] == pytest.approx(6_400, rel=0.01)
    assert widening.steps[-1][1] == pytest.approx(20_000, rel=0.01)
    assert widening.settled_ns is not None


@pytest.mark.parametrize("slow", [256, 512, 1024])
def test_slow_intervals_of_one_pass_change_nothing(slow):
    seen = []

    def rate(window):
        if window == slow and len(seen) < STEP_NS // LOOK_NS:
            seen.append(window)
            return 1_000
        return 100 * min(window, 256)

    assert drive(rate, seconds=5).size == 2048


@pytest.mark.parametrize("fast", [128, 256])
def test_a_fast_interval_of_one_pass_changes_nothing(fast):
    """What a broker delivers late of the size before may double what is seen of an interval."""
    seen = []

    def rate(window):
        if window == fast and len(seen) < STEP_NS // LOOK_NS:
            seen.append(window)
            return 40_000
        return 20_000

    assert drive(rate).size == 1024


def test_sizes_that_differ_less_than_intervals_of_one_size_are_alike():
    """On a host that others use too: 1,024 messages take 56 ms, and bring an eighth less than 512."""
    visits, last = Counter(), []

    def rate(window):
        if last != [window]:
            last[:] = [window]
            visits[window] += 1
        noise = (0.85, 1.15, 1.0)[(visits[window] - 1) % 3]
        return noise * (17_500 if window >= 1024 else 20_000)

    assert drive(rate).size == 1024
    assert drive(lambda window: 17_500 if window >= 1024 else 20_000).size == 512


def test_broker_that_a_wider_window_slows_down_gets_the_best_one():
    assert drive(lambda window: 1e6 / window).size == FIRST


def test_window_ends_where_messages_take_long_through_it():
    widening = drive(lambda _: 2_000)

    assert max(window for window, _ in widening.steps) == 256
    assert widening.size == 128  # 64 ms


def test_window_never_passes_half_of_the_packet_identifiers():
    widening = drive(lambda window: 1_000 * window)

    assert (widening.size, widening.settled_ns is None, widening.is_widest_narrow) == (MOST, False, True)


def test_sizes_at_which_messages_got_lost_are_out():
    widening = drive(lambda window: 1_000 * window, lost_of=lambda window: 100_000 if window > 256 else 0)

    assert [window for window, _ in widening.steps] == [64, 128, 256, 512, 256, 256]
    assert widening.size == 256


def test_one_message_that_comes_late_ends_no_search():
    late = iter([2_000])  # two messages at one look

    widening = drive(lambda window: 1_000 * window, lost_of=lambda window: next(late, 0) if window == 128 else 0)

    assert (widening.size, 128 in dict(widening.steps)) == (MOST, True)


def test_search_that_is_stopped_keeps_the_best_so_far_and_says_that_it_did_not_settle():
    widening = drive(lambda window: 1_000 * window, seconds=3.5 * STEP_NS / 1e9)

    assert widening.stop() == widening.stop() == 256
    assert widening.look(10**10, 10**9) == 256
    assert widening.settled_ns is None


def test_broker_that_delivers_nothing_keeps_the_first_window():
    widening = drive(lambda _: 0)

    assert widening.size == FIRST
    assert all(rate == 0 for _, rate in widening.steps)


@settings(deadline=None, max_examples=15)
@given(st.floats(1_000, 1e6), st.integers(1, 10_000), st.sets(st.integers(1, 8)))
def test_no_look_changes_the_size_before_it_says_so(per_place, most_useful, lossy):
    widening, delivered, lost, changes = Widening(), 0.0, 0.0, 0
    for now in range(0, 5_000_000_000, LOOK_NS):
        size, next_ns = widening.size, widening.next_ns()
        widening.look(now, int(delivered), int(lost))
        if widening.size != size:
            assert next_ns is not None
            assert next_ns <= now
            changes += 1
        delivered += per_place * min(widening.size, most_useful) * LOOK_NS / 1e9
        lost += 10.0 if len(widening.steps) in lossy else 0.0

    assert changes > 0
    assert (widening.next_ns() is None) is (widening.settled_ns is not None)


def test_looks_at_the_times_that_it_says_find_the_same_sizes_as_many_looks():
    """Two of each size, and some at the beginning, when the first delivery may come at any moment."""
    widening, delivered, now, looks = Widening(), 0.0, 0, 0
    while (next_ns := widening.next_ns()) is not None:
        later = max(now + LOOK_NS, next_ns)
        delivered += 100 * min(widening.size, 200) * (later - now) / 1e9
        now = later
        widening.look(now, int(delivered))
        looks += 1
        assert looks < 1_000

    often = drive(lambda window: 100 * min(window, 200))
    assert [size for size, _ in widening.steps] == [size for size, _ in often.steps]
    assert (widening.size, widening.next_ns()) == (often.size, often.next_ns())
    assert looks <= 2 * len(widening.steps) + 5


def test_before_the_first_delivery_any_look_may_be_the_one():
    widening = Widening()
    for now in range(0, STEP_NS, LOOK_NS):
        assert widening.next_ns() == 0
        widening.look(now, 0)

    widening.look(STEP_NS, 1)
    assert widening.next_ns() > STEP_NS
    widening.stop()
    assert widening.next_ns() is None


@settings(deadline=None, max_examples=30)
@given(st.floats(1_000, 1e6), st.integers(1, 10_000))
def test_window_reached_brings_nearly_the_highest_rate(per_place, most_useful):
    widening = drive(lambda window: per_place * min(window, most_useful))

    highest = per_place * most_useful
    assert widening.settled_ns is not None
    assert per_place * min(widening.size, most_useful) >= NEAR * min(highest, per_place * widening.steps[-1][0])
    assert widening.size <= max(FIRST, 2 * most_useful, 2 * LONG_S * highest)


def test_of_sizes_that_bring_as_much_the_first_is_kept_through_which_messages_take_50_ms():
    """At 100,000 a second that are 5,000 messages; with ten subscribers to each a tenth of that."""
    assert drive(lambda _: 100_000).size == 8192
    assert drive(lambda _: 100_000, fan_out=10.0).size == 512
    assert drive(lambda _: 20_000, fan_out=10.0).size == 128


def test_of_sizes_that_are_all_left_soon_the_largest_is_kept():
    widening = drive(lambda window: 1e6 if window < 512 else 1e5)

    assert widening.size == 256


def test_room_follows_the_widening():
    counts = [0, 0, 0, 0]
    window = Window(Widening(), fan_out=1.0, counts=counts, progress=Progress((0,), (1,), (2,), 3))
    assert window.room(0) == FIRST

    counts[:2] = [1000, 1000]
    for now in range(0, 2 * STEP_NS, LOOK_NS):
        counts[0] += 10
        counts[1] += 10
        window.room(now)

    assert window.room(2 * STEP_NS) == window.size > FIRST
