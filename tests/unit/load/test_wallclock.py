"""Stamps of a wall clock that is set meanwhile, on a clock of this test's own."""

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerlab.load import readwalk, wallclock

pytestmark = pytest.mark.unit

START, AHEAD = 1_000_000_000, 1_700_000_000_000_000_000
SECOND = 1_000_000_000
steps = st.integers(-SECOND, SECOND).filter(lambda ns: abs(ns) > 2 * wallclock.CLOSE_ENOUGH_NS)


def placed(*, looks, step_at, step, arrived, read):
    """Where a message is placed that arrived and was read then; the wall clock was set at `step_at`."""
    state = array("q", [0] * 5)

    def ahead(at):
        return AHEAD + (step if at >= step_at else 0)

    for at in [START - 1, *looks, read]:  # the first is that of who asks for stamps
        wallclock.note(state, ahead(at), at)
    return wallclock.place(state, arrived + ahead(arrived), read)


@given(
    looks=st.lists(st.integers(START, START + SECOND), max_size=20).map(sorted),
    step_at=st.integers(START, START + SECOND),
    step=steps,
    arrived=st.integers(START, START + SECOND),
    wait=st.integers(0, SECOND),
)
def test_nothing_arrives_before_it_did_nor_later_than_by_the_step(looks, step_at, step, arrived, wait):
    read = max([arrived, *looks]) + wait
    found = placed(looks=looks, step_at=step_at, step=step, arrived=arrived, read=read)

    assert arrived <= found <= min(arrived + abs(step), read)


@given(step=steps, wait=st.integers(0, SECOND))
def test_a_stamp_is_exact_that_can_be_of_one_side_only(step, wait):
    """Looks at 1 and 2 ms with the step in between; messages that are far enough from both."""
    looks, step_at = [START + 1_000_000, START + 2_000_000], START + 1_500_000
    far = abs(step) + 1
    before, after = looks[0] - far, looks[1] + far
    for arrived in (before, after):
        read = max([arrived, *looks]) + wait
        assert placed(looks=looks, step_at=step_at, step=step, arrived=arrived, read=read) == arrived


@given(noise=st.lists(st.integers(-1_500, 1_500), min_size=1, max_size=20))
def test_what_a_reading_is_off_by_is_no_step(noise):
    state = array("q", [0] * 5)
    for number, off in enumerate(noise):
        wallclock.note(state, AHEAD + off, START + number)

    now = START + SECOND
    assert wallclock.place(state, AHEAD + START, now) == START - noise[0]


def test_many_small_steps_are_noticed_together():
    state = array("q", [0] * 5)
    for number in range(100):
        wallclock.note(state, AHEAD + 1_000 * number, START + 1_000_000 * number)

    now = START + 99_000_000
    assert abs(wallclock.place(state, now + AHEAD + 99_000, now) - now) <= wallclock.CLOSE_ENOUGH_NS


def test_a_look_keeps_the_state_that_compiled_reads_use():
    now = wallclock.look()
    wallclock.refresh(now)

    assert readwalk.CLOCKS.tolist() == list(wallclock.STATE)
    assert abs(wallclock.place(readwalk.CLOCKS, now + wallclock.wall_less_monotonic_ns(), now) - now) < SECOND


@given(step=steps, stamp=st.integers(START, START + SECOND))
def test_compiled_and_not_are_the_same(step, stamp):
    plain, arrays = array("q", [0] * 5), np.zeros(5, dtype=np.int64)
    for at, ahead in ((START, AHEAD), (START + SECOND // 2, AHEAD + step)):
        wallclock.note(plain, ahead, at)
        readwalk.note(arrays, ahead, at)

    assert arrays.tolist() == list(plain)
    now = START + SECOND
    assert readwalk.place(arrays, stamp + AHEAD, now) == wallclock.place(plain, stamp + AHEAD, now)
