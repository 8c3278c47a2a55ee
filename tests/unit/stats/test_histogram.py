import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from brokerlab.stats.histogram import (
    BUCKETS,
    NEGATIVE_BUCKET,
    ZERO_BUCKET,
    bucket_bounds,
    bucket_counts,
    bucket_index,
    histogram_quantile,
    rank,
)

pytestmark = pytest.mark.unit

LARGEST = np.iinfo(np.int64).max
EXACT = 2**53  # the last whole number before a float64 has gaps


def longs(*values):
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("ns", "bucket"),
    [
        (-5, NEGATIVE_BUCKET),
        (0, ZERO_BUCKET),
        (1, 0),
        (2, 64),
        (3, 64 + 32),
        (4, 128),
        (1024, 640),
        (1024 + 16, 641),
        (1024 + 15, 640),
    ],
)
def test_bucket_index_by_hand(ns, bucket):
    """64 buckets per power of two: those of 1024 are 16 ns wide."""
    assert bucket_index(longs(ns)).tolist() == [bucket]


def test_bucket_bounds_by_hand():
    low, high = bucket_bounds(longs(ZERO_BUCKET, 0, 64, 640, 641))

    assert low.tolist() == [0, 1, 2, 1024, 1040]
    assert high.tolist() == [1, 2, 3, 1040, 1056]


def test_negative_bucket_has_no_lower_bound():
    low, high = bucket_bounds(longs(NEGATIVE_BUCKET))

    assert (low[0], high[0]) == (np.iinfo(np.int64).min, 0)


@given(arrays(np.int64, st.integers(1, 50), elements=st.integers(-10, EXACT)))
def test_every_value_lies_in_its_bucket(ns):
    low, high = bucket_bounds(bucket_index(ns))

    assert (low <= ns).all()
    assert (ns < high).all()


def test_the_largest_value_has_a_bucket_with_bounds():
    low, high = bucket_bounds(bucket_index(longs(LARGEST)))

    assert low[0] <= LARGEST == high[0]


@given(arrays(np.int64, st.integers(1, 50), elements=st.integers(-10, LARGEST)))
def test_counts_lose_nothing(ns):
    counts = bucket_counts(ns)

    assert counts.size == BUCKETS
    assert counts.sum() == ns.size


def test_counts_merge_by_adding():
    one, other = longs(5, 7, 0), longs(-1, 7, 10**9)

    assert (bucket_counts(one) + bucket_counts(other) == bucket_counts(np.concatenate([one, other]))).all()


@pytest.mark.parametrize(
    ("n", "quantile", "place"),
    [(10, 0.5, 5), (10, 0.9, 9), (7, 0.5, 4), (1, 0.99, 1), (3000, 0.999, 2997), (3, 0.0, 1)],
)
def test_rank_is_the_smallest_that_covers_the_share(n, quantile, place):
    assert rank(n, quantile=quantile) == place


def quantile_of(ns, quantile):
    counts = bucket_counts(ns)
    filled = np.flatnonzero(counts)
    bucket = filled + NEGATIVE_BUCKET
    return histogram_quantile(bucket, counts[filled], quantile=quantile, min_ns=int(ns.min()), max_ns=int(ns.max()))


@given(
    arrays(np.int64, st.integers(1, 200), elements=st.integers(1, 10**12)),
    st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]),
)
def test_quantile_is_within_one_percent_of_the_exact_one(ns, quantile):
    exact = np.percentile(ns, 100 * quantile, method="inverted_cdf")

    assert quantile_of(ns, quantile) == pytest.approx(exact, rel=0.01)


def test_quantile_never_leaves_the_values():
    assert quantile_of(longs(1_000_003), 0.99) == 1_000_003


def test_quantile_among_zero_and_negative_values():
    """Sorted: -9, -1, 0, 0, 100. The middle of the negative ones is -5."""
    ns = longs(100, 0, -9, 0, -1)

    assert quantile_of(ns, 0.2) == -5
    assert quantile_of(ns, 0.5) == 0
    assert quantile_of(ns, 0.99) == 100


def test_quantile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no values"):
        histogram_quantile(longs(), longs(), quantile=0.5, min_ns=0, max_ns=0)
