"""How late the generator itself was: a histogram of sent less intended in the measure phase."""

import numpy as np
from numpy.typing import NDArray

from brokerlab.stats.histogram import bucket_index


class Lag:
    """Counts per log-linear bucket; mergeable between workers."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.max_ns = 0

    def add(self, lag_ns: NDArray[np.int64]) -> None:
        if not lag_ns.size:
            return
        buckets, counts = np.unique(bucket_index(lag_ns), return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.max_ns = max(self.max_ns, int(lag_ns.max()))

    def buckets(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(self._counts.items()))
