import numpy as np
import pytest

from brokerlab.load.tally import Tally
from brokerlab.stats.histogram import bucket_index

pytestmark = pytest.mark.unit


def longs(*values):
    return np.array(values, dtype=np.int64)


def test_only_what_was_intended_in_the_stretch_counts():
    tally = Tally(100, 200)
    tally.add(longs(99, 100, 150, 199, 200), longs(500, 107, 250, 202, 500))

    assert tally.arrivals == 3
    assert (tally.min_ns, tally.max_ns) == (3, 100)
    assert dict(tally.buckets()) == {int(bucket): 1 for bucket in bucket_index(longs(3, 7, 100))}


def test_portions_give_the_same_as_the_whole():
    intended = np.arange(0, 4_000, 10)
    received = intended + np.arange(400) % 7 * 30
    whole, parts = Tally(0, 4_000), Tally(0, 4_000)
    whole.add(intended, received)
    for part in np.array_split(np.arange(400), 7):
        parts.add(intended[part], received[part])
    parts.add(longs(), longs())

    assert parts.buckets() == whole.buckets()
    assert parts.under_way == pytest.approx(whole.under_way)
    assert (parts.arrivals, parts.min_ns, parts.max_ns) == (400, 0, 180)
