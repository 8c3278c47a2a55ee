from dataclasses import replace

import pyarrow as pa
import pytest
from report_example import schema_of
from report_values import results_of

from brokerlab.report.cells import groups
from brokerlab.report.distribution import curves
from brokerlab.report.look import log_ticks

pytestmark = pytest.mark.unit


def histogram(*buckets):
    """Rows (bucket, low_ns, high_ns, n) of one run."""
    about = {"run_id": "broker-a.qos-0/1", "cell": "broker-a.qos-0", "kind": "intended", "group": "all"}
    rows = [about | dict(zip(("bucket", "low_ns", "high_ns", "n"), row, strict=True)) for row in buckets]
    return pa.Table.from_pylist(rows, schema=schema_of("histogram"))


def points(*buckets):
    results = replace(results_of({("a", 0): (1.0, None, None)}, runs=1), histogram=histogram(*buckets))
    return [(row["latency_ms"], row["slower"]) for row in curves(results, groups(results))]


def test_curve_shows_the_share_above_each_bucket():
    found = points((10, 1_000_000, 2_000_000, 5), (20, 2_000_000, 4_000_000, 3), (30, 4_000_000, 8_000_000, 2))

    assert found == [(1.0, 1.0), (2.0, 0.5), (4.0, 0.2), (8.0, 0.1)]


def test_curve_does_not_depend_on_the_order_of_rows():
    assert points((20, 2_000_000, 4_000_000, 5), (10, 1_000_000, 2_000_000, 5)) == [(1.0, 1.0), (2.0, 0.5), (4.0, 0.1)]


def test_curve_counts_zero_and_negative_latencies_without_drawing_them():
    found = points((-2, 0, 0, 1), (-1, 0, 0, 1), (10, 1_000_000, 2_000_000, 2))

    assert found == [(1.0, 0.5), (2.0, 0.25)]


def test_curve_of_zero_latencies_alone_has_no_points():
    assert points((-1, 0, 0, 4)) == []


def test_log_ticks_are_round():
    assert log_ticks(0.15, 12.0) == [0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    assert log_ticks(0.001, 90.0) == [0.001, 0.01, 0.1, 1.0, 10.0]
