"""Where a series settles: what comes before is warm-up and belongs in no mean.

MSER-5 (White 1997; White, Cobb and Spratt 2000): the values are put together in batches of five, and the beginning is
cut where the standard error of what is left is smallest. A cut in the second half says that the series never settled.
"""

from collections.abc import Sequence

import numpy as np

BATCH = 5
_FEWEST_BATCHES = 4


def steady_from(values: Sequence[float]) -> int | None:
    """The place of the first value of the steady part; None where the series is too short or does not settle."""
    count = len(values) // BATCH
    if count < _FEWEST_BATCHES:
        return None
    batches = np.asarray(values[: count * BATCH], dtype=np.float64).reshape(count, BATCH).mean(axis=1)
    left = count - np.arange(count - 1)
    sums, squares = (np.cumsum(part[::-1])[::-1][:-1] for part in (batches, batches**2))
    error = np.maximum(squares - sums**2 / left, 0) / left**2
    cut = int(np.argmin(error[: count - 2]))
    return None if cut > count // 2 else cut * BATCH
