"""The ledger's counts from literal partial results."""

import pytest
from pipeline_frames import flow, partials_from, runs_from

from brokerlab.pipeline.transforms.delivery import delivery_table

pytestmark = pytest.mark.pipeline


@pytest.mark.parametrize(
    ("qos", "acknowledged", "delivered", "lost_after", "verdict"),
    [(0, 0, 5, None, "unknown"), (1, 5, 5, 0, "kept"), (1, 5, 3, 2, "broken"), (1, 4, 3, None, "unknown")],
)
def test_by_order_what_cannot_be_told_is_null(spark, qos, acknowledged, delivered, lost_after, verdict):
    """Where everything was acknowledged the lost ones were too; where not, nobody knows which were lost."""
    arrived = flow(subscriber=0, delivered=delivered, acknowledged_delivered=3, in_doubt=delivered < 5)
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": acknowledged}),
        ("a/1", "expected", {"qos_granted": qos, "pairs": 5, "acknowledged_pairs": acknowledged}),
        ("a/1", "flow", arrived | {"qos_granted": qos}),
    )
    about = {"run_id": "a/1", "qos": qos, "identity": "order"}

    (row,) = delivery_table(partials, runs=runs_from(spark, about)).collect()

    assert (row.delivered, row.lost, row.unexpected) == (delivered, 5 - delivered, 0)
    assert (row.duplicated, row.duplicated_flagged, row.reordered) == (None, None, None)
    assert (row.acknowledged_lost, row.verdict, row.identity) == (lost_after, verdict, "order")
    assert row.late == (0 if delivered == 5 else None)


@pytest.mark.parametrize(("qos", "verdict"), [(0, "broken"), (1, "unknown"), (2, "broken")])
def test_where_messages_are_alike_one_too_many_may_stand_for_a_lost_one(spark, qos, verdict):
    """Five of five and one more: at QoS 1, where messages may come twice, one of the five may have been lost."""
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": qos, "pairs": 5, "acknowledged_pairs": 5}),
        ("a/1", "flow", flow(subscriber=0, delivered=5, late=1, in_doubt=True) | {"qos_granted": qos}),
        ("a/1", "unexpected", {"subscriber": 0, "qos_granted": qos, "arrivals": 1}),
    )
    about = {"run_id": "a/1", "qos": qos, "identity": "content"}

    (row,) = delivery_table(partials, runs=runs_from(spark, about)).collect()

    assert (row.delivered, row.lost, row.unexpected, row.verdict) == (5, 0, 1, verdict)
    assert (row.duplicated, row.reordered, row.late, row.acknowledged_lost) == (None, None, None, None)
    assert row.doubt == ("messages are not told apart" if verdict == "unknown" else None)


def test_nothing_is_lost_on_the_way_to_a_device_whose_answers_nobody_may_hear(spark):
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": 128, "pairs": 0, "acknowledged_pairs": 0}),
        ("a/1", "echo", {"publisher": 0, "qos_granted": 128, "heard": 5, "missed": 0, "answered": 5}),
    )

    (row,) = delivery_table(partials, runs=runs_from(spark, {"run_id": "a/1", "qos": 1})).collect()

    assert (row.expected, row.lost, row.lost_there, row.lost_back, row.verdict) == (0, 0, None, None, "unknown")


def test_answers_are_judged_by_the_qos_that_they_were_asked_with(spark):
    """Published with QoS 2 and acknowledged; the answers were asked for with QoS 0, which may lose some."""
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": 0, "pairs": 5, "acknowledged_pairs": 5}),
        ("a/1", "flow", flow(subscriber=0, delivered=4, acknowledged_delivered=4, qos_granted=0)),
    )
    (row,) = delivery_table(partials, runs=runs_from(spark, {"run_id": "a/1", "qos": 2, "qos_asked": 0})).collect()

    assert (row.qos_asked, row.qos_granted, row.contract, row.verdict) == (0, 0, "at most once", "kept")
    assert (row.acknowledged, row.acknowledged_lost) == (5, 1)


@pytest.mark.parametrize(
    ("away", "lasts", "verdict"), [(0, False, "broken"), (2, True, "broken"), (2, False, "unknown")]
)
def test_a_broker_owes_nothing_to_a_subscriber_that_is_away_and_has_no_session(spark, away, lasts, verdict):
    noticed = {"fault": 1, "noticed_ns": 5, "noticed": 4, "subscribers_away": away}
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": 1, "pairs": 5, "acknowledged_pairs": 5}),
        ("a/1", "flow", flow(subscriber=0, delivered=4, acknowledged_delivered=4)),
        ("a/1", "fault_noticed", noticed),
    )
    about = {"run_id": "a/1", "has_lasting_sessions": lasts}

    (row,) = delivery_table(partials, runs=runs_from(spark, about)).collect()

    assert (row.acknowledged_lost, row.verdict) == (1, verdict)


def test_a_broker_owes_nothing_to_subscribers_that_leave_by_plan(spark):
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": 1, "pairs": 5, "acknowledged_pairs": 5}),
        ("a/1", "flow", flow(subscriber=0, delivered=4, acknowledged_delivered=4)),
    )
    about = {"run_id": "a/1", "may_be_away": True}

    (row,) = delivery_table(partials, runs=runs_from(spark, about)).collect()

    assert (row.verdict, row.doubt) == ("unknown", "subscribers were away without a lasting session")


@pytest.mark.parametrize(
    ("may_expire", "delivered", "duplicated", "verdict"),
    [(False, 4, 0, "broken"), (True, 4, 0, "unknown"), (True, 5, 0, "kept"), (True, 4, 1, "broken")],
)
def test_a_broker_owes_no_message_that_may_have_expired(spark, may_expire, delivered, duplicated, verdict):
    arrived = flow(
        qos_granted=2, subscriber=0, delivered=delivered, acknowledged_delivered=delivered, duplicated=duplicated
    )
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": 2, "pairs": 5, "acknowledged_pairs": 5}),
        ("a/1", "flow", arrived),
    )
    about = {"run_id": "a/1", "qos": 2, "qos_asked": 2, "may_expire": may_expire}

    (row,) = delivery_table(partials, runs=runs_from(spark, about)).collect()

    assert (row.acknowledged_lost, row.verdict) == (5 - delivered, verdict)


@pytest.mark.parametrize(("missed", "verdict"), [(1, "broken"), (0, "kept")])
def test_what_a_device_was_promised_and_did_not_get_breaks_the_contract_whatever_its_answers_have(
    spark, missed, verdict
):
    """Four of five answers at QoS 0 came, and the fifth was never asked for."""
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "expected", {"qos_granted": 0, "pairs": 5, "acknowledged_pairs": 5}),
        ("a/1", "flow", flow(subscriber=0, delivered=4, acknowledged_delivered=4, qos_granted=0)),
        ("a/1", "echo", {"publisher": 0, "qos_granted": 0, "heard": 4, "missed": missed, "answered": 4}),
    )

    (row,) = delivery_table(partials, runs=runs_from(spark, {"run_id": "a/1", "qos": 1, "qos_asked": 0})).collect()

    assert (row.lost_there, row.lost_back, row.verdict) == (1, 0, verdict)


def test_flows_of_several_workers_add_up(spark):
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 5, "acknowledged": 5}),
        ("a/1", "publisher", {"publisher": 1, "published": 5, "acknowledged": 4}),
        ("a/1", "expected", {"qos_granted": 1, "pairs": 20, "acknowledged_pairs": 18}),
        ("a/1", "flow", flow(subscriber=0, delivered=9, acknowledged_delivered=9, duplicated=1)),
        ("a/1", "flow", flow(subscriber=1, delivered=8, acknowledged_delivered=8, reordered=2)),
        ("a/1", "unexpected", {"subscriber": 7, "qos_granted": None, "arrivals": 3}),
    )
    rows = delivery_table(partials, runs=runs_from(spark, {"run_id": "a/1"})).orderBy("qos_granted").collect()

    names = (
        "qos_granted",
        "published",
        "acknowledged",
        "expected",
        "delivered",
        "lost",
        "acknowledged_lost",
        "unexpected",
    )
    assert [tuple(row[name] for name in names) for row in rows] == [
        (None, 10, 9, 0, 0, 0, 0, 3),
        (1, 10, 9, 20, 17, 3, 1, 0),
    ]
    assert [row.failure_percent for row in rows] == [None, 15.0]
    assert [row.verdict for row in rows] == ["unknown", "broken"]


def test_what_crossed_nodes_is_counted_apart(spark):
    """Ten messages to two subscribers, one at the node of the publisher; of the other's two are lost."""
    partials = partials_from(
        spark,
        ("a/1", "publisher", {"publisher": 0, "published": 10, "acknowledged": 10}),
        ("a/1", "expected", {"qos_granted": 1, "pairs": 20, "acknowledged_pairs": 20, "crossing_pairs": 10}),
        ("a/1", "flow", flow(subscriber=0, delivered=10, acknowledged_delivered=10, is_crossing=False)),
        ("a/1", "flow", flow(subscriber=1, delivered=8, acknowledged_delivered=8, is_crossing=True)),
    )
    (row,) = delivery_table(partials, runs=runs_from(spark, {"run_id": "a/1"})).collect()

    assert (row.expected, row.delivered, row.crossing_expected, row.crossing_delivered) == (20, 18, 10, 8)
