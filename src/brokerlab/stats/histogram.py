"""Log-linear histograms of nanoseconds: they merge by adding counts, without loss.

A bucket is the exponent and the top six bits of the fraction of a float64, got by one shift of its bits:
64 buckets per power of two, each at most 1/64 of its lower bound wide, so a bucket's middle is
within 0.8 % of every value in it.

    bucket   -2        -1   0       1 .. 63      64      65 ..
    values   < 0       0    1 ns    (empty)      2 ns    (empty below 3 ns) ..

A float64 holds whole numbers up to 2^53 exactly: 104 days. Longer durations may fall in the next bucket up.
Zero and negative durations have no logarithm; they are counted in buckets of their own, not dropped.
"""

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

PER_POWER_OF_TWO = 64
ZERO_BUCKET = -1
NEGATIVE_BUCKET = -2
BUCKETS = 2 + 63 * PER_POWER_OF_TWO + 1  # one more than int64 holds: its largest values round up to 2^63

_SHIFT = 52 - 6  # of a float64's 52 bits of fraction, six are kept
_ONE = 1023 << 6  # the bucket of 1.0 before it is moved to 0: the bias of a float64's exponent
_PARTS = 10_000  # ranks are whole parts of ten thousand, so that p99.99 of n values is exact


def bucket_index(ns: Longs) -> Longs:
    """The bucket of each duration."""
    has_others = ns.size > 0 and int(ns.min()) <= 0
    positive = (np.maximum(ns, 1) if has_others else ns).astype(np.float64).view(np.int64)
    index: Longs = (positive >> _SHIFT) - _ONE
    if has_others:
        index[ns == 0] = ZERO_BUCKET
        index[ns < 0] = NEGATIVE_BUCKET
    return index


def bucket_counts(ns: Longs) -> Longs:
    """How many durations fall in each bucket, from NEGATIVE_BUCKET on: an array of BUCKETS counts."""
    return np.bincount(bucket_index(ns) - NEGATIVE_BUCKET, minlength=BUCKETS)


def bucket_bounds(bucket: Longs) -> tuple[Longs, Longs]:
    """The whole nanoseconds [low, high) of each bucket; the negative bucket's low is int64's least value."""
    low, high = _lower_bound(bucket), _lower_bound(bucket + 1)
    low[bucket == ZERO_BUCKET], high[bucket == ZERO_BUCKET] = 0, 1
    low[bucket == NEGATIVE_BUCKET], high[bucket == NEGATIVE_BUCKET] = np.iinfo(np.int64).min, 0
    return low, high


def _lower_bound(bucket: Longs) -> Longs:
    """The least whole number of each bucket from 0 on."""
    exponent, part = np.divmod(np.maximum(bucket, 0), PER_POWER_OF_TWO)
    bound = np.ceil(np.ldexp(1.0 + part / PER_POWER_OF_TWO, exponent))
    largest = float(2**63)
    whole: Longs = np.where(bound < largest, bound, 0).astype(np.int64)
    whole[bound >= largest] = np.iinfo(np.int64).max
    return whole


def rank(n: int, *, quantile: float) -> int:
    """The place, from 1, of the value below or at which the quantile's share of `n` values lies."""
    parts = round(quantile * _PARTS)
    return max(1, -(-n * parts // _PARTS))


def histogram_quantile(bucket: Longs, count: Longs, *, quantile: float, min_ns: int, max_ns: int) -> float:
    """The middle of the bucket that holds the quantile, kept within the least and the largest value.

    Buckets are ascending and hold at least one value together.
    """
    n = int(count.sum())
    if n == 0:
        raise ValueError("no values, no quantile")
    place = int(np.searchsorted(np.cumsum(count), rank(n, quantile=quantile)))
    low, high = (int(bound[0]) for bound in bucket_bounds(bucket[place : place + 1]))
    if bucket[place] == NEGATIVE_BUCKET:
        low = min_ns  # the bucket has no lower bound of its own
    return min(max((low + high - 1) / 2, float(min_ns)), float(max_ns))
