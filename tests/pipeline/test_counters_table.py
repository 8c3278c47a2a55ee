"""Counters of brokers against the ledger."""

import pytest
from pipeline_frames import flow, partials_from, runs_from

from brokerlab.pipeline.transforms.counters import counters_table

pytestmark = pytest.mark.pipeline


def counted(spark, count, value, *partials, **more):
    """The row of one counter of a run that published 10 messages of 64 bytes to two subscribers, who got 17."""
    run = {"other_publications": 3, "proof_publications": 1, "other_bytes": 8, "payload_bytes": 64}
    claim = {"name": "n", "count": count, "has_proof": True, "has_sys": False, "why_not": None, "note": None}
    runs = runs_from(spark, {"run_id": "a/1", "counters": [claim | more], **run})
    told = {"node": "broker/0", "name": "n", "value": value, "told_before": 30}
    frame = partials_from(
        spark,
        ("a/1", "publisher", {"published": 10, "published_bytes": 640}),
        ("a/1", "expected", {"qos_granted": 1, "pairs": 20}),
        ("a/1", "flow", flow(subscriber=0, arrivals=10, delivered=9)),
        ("a/1", "flow", flow(subscriber=1, arrivals=8, delivered=8, stale=1)),
        ("a/1", "unexpected", {"subscriber": 1, "qos_granted": 1, "arrivals": 1}),
        *([] if value is None else [("a/1", "counter", told)]),
        *partials,
    )
    (row,) = counters_table(frame, runs=runs).collect()
    return row


@pytest.mark.parametrize(
    ("count", "value", "more", "expected"),
    [
        ("received", 13.0, {}, (13.0, 0.0, "equal")),
        ("received", 12.0, {"has_proof": False}, (12.0, 0.0, "equal")),
        ("received", 10.0, {}, (13.0, -3.0, "differs")),
        ("received_bytes", 648.0, {}, (648.0, 0.0, "equal")),
        ("sent", 21.0, {}, (21.0, 0.0, "equal")),
        ("sent", 51.0, {"has_sys": True}, (51.0, 0.0, "equal")),
        ("sent_bytes", 1280.0, {}, (1280.0, 0.0, "equal")),
        ("dropped", 3.0, {}, (3.0, 0.0, "equal")),
        ("dropped", 0.0, {}, (3.0, -3.0, "differs")),
        ("queued", 5.0, {"why_not": "no count"}, (None, None, "not comparable")),
    ],
)
def test_a_counter_is_held_against_the_ledger(spark, count, value, more, expected):
    row = counted(spark, count, value, **more)

    assert (row.our_value, row.difference, row.verdict) == expected
    assert row.broker_value == value
    assert row.why == more.get("why_not")


def test_a_counter_that_was_never_told_is_in_the_table(spark):
    row = counted(spark, "received", None)

    assert (row.node, row.broker_value, row.verdict) == ("broker/0", None, "not comparable")
    assert row.why == "the broker did not tell it"
