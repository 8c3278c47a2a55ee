"""Whether messages pile up: how many are under way, early and late in a stretch of time.

A message is under way from its intended time to its first arrival. The mean number under way over a quarter of
the stretch is the time that all messages spent under way within that quarter, divided by the quarter (Little's law):

    start |   first   |  second   |   third   |   last    | end
                      ^ compared with ^-------^

The first quarter is left out, because the load begins in it. A load that is carried keeps the number as it is; of one
that is not, what is not carried adds up over the half stretch between the two.
"""

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

QUARTERS = 4
_STABLE_PERCENT = 1.0
_HICCUP_S = 0.01  # as much as a busy machine may keep a process waiting


def under_way(intended_ns: Longs, received_ns: Longs, *, start_ns: int, end_ns: int) -> tuple[float, float]:
    """Of these messages, the mean number under way in the second and in the last quarter; portions add up."""
    quarter_ns = (end_ns - start_ns) / QUARTERS
    second, last = (
        _within(
            intended_ns,
            received_ns,
            from_ns=start_ns + place * quarter_ns,
            until_ns=start_ns + (place + 1) * quarter_ns,
        )
        for place in (1, QUARTERS - 1)
    )
    return second / quarter_ns, last / quarter_ns


def stable_percent(seconds: float) -> float:
    """Growth up to this is none: one per cent of what was due between the two quarters, or 10 ms of the load."""
    return max(_STABLE_PERCENT, 100 * _HICCUP_S / (seconds / 2))


def _within(intended_ns: Longs, received_ns: Longs, *, from_ns: float, until_ns: float) -> float:
    """The time that the messages were under way within a stretch, together."""
    spent = np.minimum(received_ns, int(until_ns)) - np.maximum(intended_ns, int(from_ns))
    return float(np.maximum(spent, 0).sum(dtype=np.float64))


def growth_percent(second: float, last: float, *, due_per_s: float, seconds: float) -> float:
    """How much the number under way grew from the second to the last quarter, of what was due in that half stretch."""
    return 100 * (last - second) / (due_per_s * seconds / 2)
