"""Latency of one kind, tallied: sums for the moments, counts for the histogram; both merge by adding."""

import numpy as np

from brokerlab.pipeline.reduce.raw import NOT_TOLD, Longs
from brokerlab.stats.histogram import (
    BUCKETS,
    NEGATIVE_BUCKET,
    ZERO_BUCKET,
    bucket_bounds,
    bucket_counts,
    histogram_quantile,
)


def unknown_ns(resolution_ns: Longs, *, of: Longs) -> Longs:
    """How much less each of some durations up to an arrival may be; NOT_TOLD where that is not known.

    No more than the whole of it, however late the arrival was read: nothing comes before it is sent.
    """
    return np.minimum(resolution_ns, np.maximum(of, 0))


class Tally:
    """Takes durations in any portions."""

    def __init__(self, *, ends_with_arrival: bool = True) -> None:
        """`ends_with_arrival`: whether the arrival whose resolution is given is the end of each duration."""
        self._ends_with_arrival = ends_with_arrival
        self.n = 0
        self.sum_ns = self.sum_of_squares_ns2 = self.resolution_sum_ns = 0.0
        self.min_ns = self.max_ns = self.resolution_max_ns = 0  # without meaning while n is 0
        self.is_resolution_told = True  # of every duration
        self._counts = np.zeros(BUCKETS, dtype=np.int64)

    def add(self, ns: Longs, *, resolution_ns: Longs) -> None:
        if ns.size == 0:
            return
        if self._ends_with_arrival:
            resolution_ns = unknown_ns(resolution_ns, of=ns)
        least, most, coarsest = int(ns.min()), int(ns.max()), int(resolution_ns.max())
        self.min_ns = min(self.min_ns, least) if self.n else least
        self.max_ns = max(self.max_ns, most) if self.n else most
        self.resolution_max_ns = max(self.resolution_max_ns, coarsest) if self.n else coarsest
        self.is_resolution_told &= int(resolution_ns.min()) != NOT_TOLD
        self.n += ns.size
        floats = ns.astype(np.float64)
        self.sum_ns += float(floats.sum())
        self.sum_of_squares_ns2 += float(np.square(floats).sum())
        self.resolution_sum_ns += float(resolution_ns.sum(dtype=np.float64))
        self._counts += bucket_counts(ns)

    def moments(self) -> dict[str, int | float | None]:
        """The columns of schemas.families.MOMENTS but kind and group; of a resolution that is not told nothing."""
        is_told = self.is_resolution_told
        return {
            "n": self.n,
            "sum_ns": self.sum_ns,
            "sum_of_squares_ns2": self.sum_of_squares_ns2,
            "min_ns": self.min_ns,
            "max_ns": self.max_ns,
            "resolution_sum_ns": self.resolution_sum_ns if is_told else None,
            "resolution_max_ns": self.resolution_max_ns if is_told else None,
            "zero_count": int(self._counts[ZERO_BUCKET - NEGATIVE_BUCKET]),
            "negative_count": int(self._counts[0]),
        }

    def median_ns(self) -> float:
        """Half of the durations are at or below it; without meaning while n is 0."""
        filled = np.flatnonzero(self._counts)
        return histogram_quantile(
            filled + NEGATIVE_BUCKET, self._counts[filled], quantile=0.5, min_ns=self.min_ns, max_ns=self.max_ns
        )

    def buckets(self) -> dict[str, list[int | None]]:
        """The columns of schemas.families.BUCKET but kind and group: buckets with a count, ascending."""
        filled = np.flatnonzero(self._counts)
        bucket = filled + NEGATIVE_BUCKET
        low, high = bucket_bounds(bucket)
        return {
            "bucket": bucket.tolist(),
            "low_ns": [None if at == NEGATIVE_BUCKET else int(bound) for at, bound in zip(bucket, low, strict=True)],
            "high_ns": high.tolist(),
            "n": self._counts[filled].tolist(),
        }
