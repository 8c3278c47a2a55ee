"""When each message is due: pure functions from a schedule to arrays of intended times.

Open loop (design rule 1): the times depend on the schedule alone, never on what the broker does.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

CHUNK = 4096
_SECOND_NS = 1_000_000_000


def constant_ns(
    rate_per_s: float, *, publisher: int, publishers: int, start_ns: int, end_ns: int
) -> Iterator[NDArray[np.int64]]:
    """Intended times in [start, end) of one of several publishers that send at equal intervals, in chunks.

    Publisher p of n is shifted by p/n of its interval, so that together they are evenly spaced too.
    Message i is computed from i, not from its predecessor: no rounding error adds up.
    """
    interval_ns = _SECOND_NS / rate_per_s
    shift = publisher / publishers
    count = max(0, int(np.ceil((end_ns - start_ns) / interval_ns - shift)))
    for begin in range(0, count, CHUNK):
        numbers = np.arange(begin, min(begin + CHUNK, count))
        yield start_ns + ((shift + numbers) * interval_ns).astype(np.int64)
