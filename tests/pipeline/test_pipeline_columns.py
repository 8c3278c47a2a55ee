"""Columns against literal tables: inputs, then what is expected; null has its row."""

import pytest
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import (
    bucket_middle,
    contract,
    contract_doubt,
    contract_verdict,
    reaches,
    sample_sd,
    share,
)

pytestmark = pytest.mark.pipeline


def differences(spark, schema, rows, column):
    """Rows where the column is not the last value of the row."""
    frame = spark.createDataFrame(rows, schema).withColumn("got", column)
    return [tuple(row) for row in frame.collect() if row.got != row.expected]


LEDGER = (
    "qos int, qos_asked int, qos_granted int, acknowledged_lost long, never_acknowledged long, duplicated long, "
    "unexpected long, stale long, is_cut_off boolean, was_away boolean, may_expire boolean, missed long, "
    "expected string"
)


def test_contract_verdict(spark):
    rows = [
        (0, 0, None, None, 0, 0, 0, False, "kept"),
        (0, 0, None, None, 1, 0, 0, False, "broken"),  # at most once means never twice
        (0, 0, None, None, 0, 1, 0, False, "broken"),
        (1, 1, 0, 0, 5, 5, 0, False, "kept"),  # at least once may be twice
        (1, 1, 1, 0, 0, 0, 0, False, "broken"),
        (1, 1, 1, 3, 0, 0, 0, False, "broken"),
        (1, 1, 0, 3, 0, 0, 0, False, "unknown"),
        (2, 2, 0, 0, 0, 0, 0, False, "kept"),
        (2, 2, 0, 0, 1, 0, 0, False, "broken"),
        (2, 2, 1, 0, 0, 0, 0, False, "broken"),
        (2, 2, 0, 0, 0, 1, 0, False, "broken"),  # what nobody published came more often than exactly once
        (2, 2, 0, 1, 0, 0, 0, False, "unknown"),
        (2, 1, 0, 0, 1, 0, 0, False, "kept"),  # granted less: judged by what was granted
        (1, 0, 1, 1, 0, 0, 0, False, "kept"),
        (0, 0, None, None, 0, 0, 1, False, "broken"),  # retained, but not the last
        (2, 128, 0, 0, 0, 0, 0, False, "unknown"),  # refused
        (0, None, None, None, 0, 4, 0, False, "unknown"),
        (0, 0, None, None, 1, 0, 0, True, "unknown"),  # pages are missing
    ]
    of_subscribers_that_were_away = [
        (1, 1, 1, 0, 0, 0, 0, False, "unknown"),
        (2, 2, 1, 0, 0, 0, 0, False, "unknown"),
        (2, 2, 1, 0, 1, 0, 0, False, "broken"),  # twice is too often for anybody
        (1, 1, 0, 0, 0, 0, 0, False, "kept"),
        (0, 0, None, None, 0, 0, 0, False, "kept"),
    ]

    published_as_asked = [(row[0], *row[:-1], False, False, None, row[-1]) for row in rows]
    published_as_asked += [(row[0], *row[:-1], True, False, None, row[-1]) for row in of_subscribers_that_were_away]
    published_as_asked += [(row[0], *row[:-1], False, True, None, row[-1]) for row in of_subscribers_that_were_away]
    devices_missed = [
        (1, 0, 0, 1, 0, 0, 0, 0, False, False, False, 1, "broken"),  # answers at QoS 0, questions at QoS 1
        (1, 0, 0, 1, 0, 0, 0, 0, False, True, False, 1, "broken"),  # who hears was away, devices stay
        (1, 0, 0, 1, 0, 0, 0, 0, False, False, True, 1, "unknown"),
        (1, 0, 0, 1, 0, 0, 0, 0, False, False, False, 0, "kept"),
        (1, 0, 0, 1, 0, 0, 0, 0, True, False, False, 1, "unknown"),
    ]
    assert differences(spark, LEDGER, published_as_asked + devices_missed, contract_verdict()) == []


def test_an_unknown_contract_has_its_reason(spark):
    rows = [
        (1, 1, 1, 0, 0, 0, 0, 0, False, False, False, None, "kept", None),
        (1, 1, 1, 5, 0, 0, 0, 0, False, True, True, None, "broken", None),
        (1, 1, 1, 0, 3, 0, 0, 0, False, False, False, None, "unknown", "messages were never acknowledged"),
        (1, 1, 1, 2, 3, 0, 0, 0, False, True, True, None, "unknown", "messages were never acknowledged"),
        (2, 2, 2, 2, 0, 0, 0, 0, False, True, True, None, "unknown", "subscribers were away without a lasting session"),
        (2, 2, 2, 2, 0, 0, 0, 0, False, False, True, None, "unknown", "messages may have expired"),
        (2, 2, 2, None, 0, None, 0, 0, False, False, False, None, "unknown", "messages are not told apart"),
        (1, 1, 128, 2, 0, 0, 0, 0, False, True, False, None, "unknown", "the subscription was not granted"),
        (0, 0, None, None, None, 0, 0, 0, False, False, False, None, "unknown", "the subscription was not granted"),
        (0, 0, 0, None, None, 0, 0, 0, True, False, False, None, "unknown", "the run was cut off"),
        (1, 0, 0, 1, 0, 0, 0, 0, False, False, True, 1, "unknown", "messages may have expired"),
    ]
    schema = LEDGER.replace("expected string", "verdict string, expected string")
    assert differences(spark, schema, rows, contract_doubt()) == []


def test_contract_is_that_of_the_lowest_qos(spark):
    rows = [
        (0, 0, 0, "at most once"),
        (1, 1, 1, "at least once"),
        (2, 2, 2, "exactly once"),
        (2, 2, 1, "at least once"),
        (1, 1, 2, "at least once"),
        (2, 2, 128, "exactly once"),
        (1, 1, None, "at least once"),
        (2, 0, 0, "at most once"),  # a device answers with less than it is asked with,
        (0, 2, 2, "at most once"),  # or with more
        (None, None, None, None),
    ]

    assert differences(spark, "qos int, qos_asked int, qos_granted int, expected string", rows, contract()) == []


def test_share_of_nothing_is_null(spark):
    rows = [(1, 4, 0.25), (0, 4, 0.0), (1, 0, None), (0, 0, None), (None, 4, None), (1, None, None)]

    assert differences(spark, "a long, b long, expected double", rows, share(F.col("a"), F.col("b"))) == []


def test_sample_sd(spark):
    """Of 1 2 3: sum 6, squares 14, sd 1. Of equal large values rounding must not leave a root of less than zero."""
    rows = [(3, 6.0, 14.0, 1.0), (2, 0.2, 0.02 - 1e-18, 0.0), (1, 5.0, 25.0, None), (None, None, None, None)]

    assert differences(spark, "n long, s double, q double, expected double", rows, sample_sd("n", "s", "q")) == []


def test_bucket_middle_stays_within_the_values(spark):
    rows = [
        (1024, 1040, 0, 5000, 1031.5),
        (1024, 1040, 1035, 5000, 1035.0),
        (1024, 1040, 0, 1025, 1025.0),
        (0, 1, -5, 9, 0.0),
        (None, 0, -9, 100, -5.0),  # negative values, of which the least is -9
        (1, 2, 1, 1, 1.0),
    ]
    schema = "low_ns long, high_ns long, least long, most long, expected double"

    assert differences(spark, schema, rows, bucket_middle("least", "most")) == []


def test_reaches_the_rank(spark):
    """p99.9 of 3000 values is the 2997th, exactly."""
    rows = [(2996, 3000, False), (2997, 3000, True), (1, 1, True), (0, 1, False), (None, 5, None)]

    assert differences(spark, "c long, n long, expected boolean", rows, reaches("c", "n", parts_of_10000=9990)) == []
