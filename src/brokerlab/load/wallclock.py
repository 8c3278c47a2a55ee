"""The wall clock beside the monotonic one: the kernel stamps with the first, all our times are of the second.

Both run at one rate, also while NTP slews them, so their difference changes when the wall clock is set and not
otherwise. A virtual machine may have it set every second, by less than any guard of a run allows (lab/guards.py) and by
more than a message takes. So the difference is read with every stamp, and a step is known by the two readings that it
lies between: a stamp of before it is judged by the old difference, however late it is read, and one that may be of
either side by the one that makes it later. No message seems to arrive before it was sent.

`note` and `place` are compiled too (readwalk.py): they take the state as an argument, and nothing but numbers.
"""

import time
from array import array
from collections.abc import MutableSequence

CLOSE_ENOUGH_NS = 3_000  # between two readings of the monotonic clock around one of the wall clock
_ATTEMPTS = 20
_FRESH_NS = 50_000_000

# The state of a process: what the wall clock is ahead, and was before its last step; between which times that was;
# when the difference was last seen to hold.
_AHEAD, _BEFORE, _FROM, _TO, _SEEN = range(5)
STATE = array("q", [0] * 5)


def note(state: MutableSequence[int], ahead_ns: int, now: int) -> None:
    """The wall clock is so far ahead now."""
    if abs(ahead_ns - state[_AHEAD]) > CLOSE_ENOUGH_NS:
        state[_BEFORE] = state[_AHEAD] if state[_SEEN] else ahead_ns
        state[_FROM], state[_TO], state[_AHEAD] = state[_SEEN], now, ahead_ns
    state[_SEEN] = now


def place(state: MutableSequence[int], stamp_ns: int, now: int) -> int:
    """The monotonic time of a stamp that was read now."""
    by_old, by_new = stamp_ns - state[_BEFORE], stamp_ns - state[_AHEAD]
    if by_old <= state[_TO] and (by_new < state[_FROM] or by_new < by_old):
        return by_old
    return min(by_new, now)


def look() -> int:
    """The monotonic time; the difference is noted on the way, unless the process lost its core in between."""
    now = time.monotonic_ns()
    wall = time.time_ns()
    after = time.monotonic_ns()
    if after - now <= CLOSE_ENOUGH_NS:
        note(STATE, wall - (now + after) // 2, now)
    else:
        refresh(now)
    return now


def refresh(now: int) -> None:
    """For who cannot look often enough, and for clocks that take long to read."""
    if now - STATE[_SEEN] > _FRESH_NS:
        note(STATE, wall_less_monotonic_ns(), now)


def wall_less_monotonic_ns() -> int:
    """The difference of the two clocks, to 1.5 µs.

    The wall clock is read between two readings of the monotonic one. A process that loses its core in between
    would see them apart by milliseconds, so a reading counts only if both are close; of 20 the best is taken.
    """
    best_ns, difference = 1 << 62, 0
    before = time.monotonic_ns()
    for _ in range(_ATTEMPTS):
        wall = time.time_ns()
        after = time.monotonic_ns()
        if after - before < best_ns:
            best_ns, difference = after - before, wall - (before + after) // 2
        if best_ns <= CLOSE_ENOUGH_NS:
            break
        before = after
    return difference
