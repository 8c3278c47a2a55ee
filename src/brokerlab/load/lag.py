"""How late the generator itself was in the measure phase: histograms of sent less intended, or read less arrived."""

import numpy as np
from numpy.typing import NDArray

from brokerlab.stats.histogram import bucket_index

_NOTED = 4096


class Lag:
    """Counts per log-linear bucket; mergeable between workers."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.max_ns = 0
        self._noted: list[int] = []

    def add(self, lag_ns: NDArray[np.int64]) -> None:
        if not lag_ns.size:
            return
        buckets, counts = np.unique(bucket_index(lag_ns), return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.max_ns = max(self.max_ns, int(lag_ns.max()))

    def note(self, lag_ns: int) -> None:
        """Takes one value; values are counted many at a time, which costs less."""
        self._noted.append(lag_ns)
        if len(self._noted) >= _NOTED:
            self._count_noted()

    def _count_noted(self) -> None:
        self.add(np.array(self._noted, dtype=np.int64))
        self._noted.clear()

    def buckets(self) -> tuple[tuple[int, int], ...]:
        self._count_noted()
        return tuple(sorted(self._counts.items()))
