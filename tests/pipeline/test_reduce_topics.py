"""The ledger where publishers have several topics, subscribers several filters, groups or a late start (S-02, F-14)."""

import pytest
from pipeline_runs import MS, RunBuilder, arrival, publication
from test_reduce_ledger import ledger, partials_of

pytestmark = pytest.mark.pipeline

THREE = {"publish": "t/{publisher}/{topic}", "subscribe": "t/#", "count": 3}


def messages(n, *, publisher=0, acked=False):
    return [publication(seq, 2000 + 10 * seq, publisher=publisher, acked=acked) for seq in range(n)]


def expected_pairs(run):
    return {row["qos_granted"]: row["pairs"] for row in partials_of(run)["expected"]}


def test_a_subscriber_of_one_topic_is_owed_its_turn_of_the_messages(study):
    """Of seven messages 0, 3 and 6 are on topic 0; subscriber 1 hears all; 3 comes late, 1 and a copy by mistake."""
    sent = messages(7)
    arrivals = [arrival(sent[seq], 1) for seq in (0, 6, 3, 3, 1)] + [arrival(each, 1, subscriber=1) for each in sent]
    run = RunBuilder(topics=THREE, subscribers={0: ("t/+/0", 0), 1: ("t/#", 0)}).write(
        study, publications={"p": sent}, deliveries={"s": arrivals}
    )

    assert expected_pairs(run) == {0: 3 + 7}
    assert ledger(run, "delivered", "duplicated", "reordered", "measured_delivered") == {
        "delivered": 3 + 7, "duplicated": 1, "reordered": 1, "measured_delivered": 10,
    }  # fmt: skip
    assert partials_of(run)["unexpected"] == [{"subscriber": 0, "qos_granted": 0, "arrivals": 1}]
    assert {row["subscriber"]: row["measured"] for row in partials_of(run)["expected_flow"]} == {0: 3, 1: 7}


def test_a_list_of_filters_without_the_refused_one(study):
    """Topics 0 and 2 were granted, 1 was refused: five of seven messages."""
    more = {"filters": ["t/0/0", "t/0/1", "t/0/2"], "granted": [1, 128, 1]}
    run = RunBuilder(qos=1, topics=THREE, subscribers={0: ("", 1)}, of_subscribers={0: more})
    sections = run.sections()
    del sections["clients"]["subscribers"][0]["filter"]
    run.sections = lambda: sections
    sent = messages(7, acked=True)
    written = run.write(
        study, publications={"p": sent}, deliveries={"s": [arrival(sent[seq], 1) for seq in (0, 2, 3, 5, 6)]}
    )

    assert expected_pairs(written) == {1: 5}
    assert ledger(written, "delivered", "acknowledged_delivered") == {"delivered": 5, "acknowledged_delivered": 5}


def test_a_second_copy_for_a_second_filter_is_overlapping_and_a_third_is_a_duplicate(study):
    """Two filters match topic 0, so message 0 may come twice; with DUP, or on topic 1, a second one is a duplicate."""
    more = {"filters": ["t/#", "t/+/0"], "granted": [2, 2]}
    run = RunBuilder(qos=2, topics=THREE, subscribers={0: ("", 2)}, of_subscribers={0: more})
    sections = run.sections()
    del sections["clients"]["subscribers"][0]["filter"]
    run.sections = lambda: sections
    sent = messages(7)
    arrivals = [arrival(sent[seq], 1) for seq in (0, 0, 0, 1, 1, 3, 6, 6)] + [arrival(sent[3], 5, dup=True)]
    written = run.write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert expected_pairs(written) == {2: 7}
    assert ledger(written, "delivered", "overlapping", "duplicated", "duplicated_flagged") == {
        "delivered": 4, "overlapping": 2, "duplicated": 3, "duplicated_flagged": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("who", "again", "duplicated"), [("all", 2, 1), ("publishers", 0, 3)])
def test_what_is_retained_comes_again_with_each_subscription(study, who, again, duplicated):
    """Messages 0 and 1 came once more as retained ones, 2 for no reason; subscribers that stay subscribe once."""
    sent = messages(3)
    builder = RunBuilder(qos=2, topics=THREE, subscribers={0: ("t/#", 2)})
    workload = builder.sections()["workload"] | {"clients": {"behaviour": "churn", "who": who}}
    run = RunBuilder(qos=2, topics=THREE, subscribers={0: ("t/#", 2)}, more={"workload": workload})
    arrivals = [arrival(each, 1) for each in sent]
    arrivals += [arrival(each, 5) | {"retain": True} for each in sent[:2]] + [arrival(sent[2], 6)]
    written = run.write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert ledger(written, "delivered", "overlapping", "duplicated") == {
        "delivered": 3, "overlapping": again, "duplicated": duplicated,
    }  # fmt: skip


def test_a_shared_subscription_is_owed_every_message_once_whoever_gets_it(study):
    """Members 0 and 1 of group a, 2 of group b: 4 messages are owed 8 times. 2 came to both members of a.

    Order is a matter of each member: member 1 got 3 before 1, member 0 got 0 and 2.
    """
    sent = messages(4)
    group = {0: "a", 1: "a", 2: "b"}
    order = [(0, 0), (1, 3), (0, 2), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    run = RunBuilder(
        subscribers={number: (f"$share/{name}/t/#", 0) for number, name in group.items()},
        of_subscribers={number: {"group": name} for number, name in group.items()},
    ).write(
        study,
        publications={"p": sent},
        deliveries={"subscribers": [arrival(sent[seq], 1, subscriber=s) for s, seq in order]},
    )
    flows = {flow["subscriber"]: flow for flow in partials_of(run)["flow"]}

    assert expected_pairs(run) == {0: 8}
    assert ledger(run, "delivered", "duplicated") == {"delivered": 4 + 3, "duplicated": 1}
    assert {number: flow["delivered"] for number, flow in flows.items()} == {0: 2, 1: 2, 2: 3}
    assert {number: flow["reordered"] for number, flow in flows.items()} == {0: 0, 1: 1, 2: 0}
    assert [row["measured"] for row in partials_of(run)["expected_flow"]] == [None] * 3


def test_a_retained_replay_is_owed_the_last_message_of_each_topic(study):
    """Seven messages on three topics: the last are 6, 4 and 5. 6 comes, 5 comes, 3 is stale, 4 is lost."""
    sent = messages(7, acked=True)
    since_ns = 9_000 * MS
    arrivals = [
        arrival(sent[seq], 0, retain=True) | {"received_ns": since_ns + after_ms * MS}
        for seq, after_ms in ((6, 2), (3, 3), (5, 4))
    ]
    run = RunBuilder(
        qos=1,
        topics=THREE,
        subscribers={0: ("t/#", 1)},
        of_subscribers={0: {"replayed_since_ns": since_ns}},
    ).write(study, publications={"p": sent}, deliveries={"s": arrivals})
    partials = partials_of(run)

    assert partials["expected"] == [{"qos_granted": 1, "pairs": 3, "acknowledged_pairs": 3, "crossing_pairs": None}]
    assert ledger(run, "delivered", "stale", "duplicated") == {"delivered": 2, "stale": 1, "duplicated": 0}
    assert [(row["kind"], row["n"], row["min_ns"], row["max_ns"]) for row in partials["moments"]] == [
        ("subscribe", 2, 2 * MS, 4 * MS)
    ]


def replayed(study, sent, seqs, *, topics=THREE):
    """A run at QoS 1 whose subscriber came after the messages and got these."""
    since_ns = 9_000 * MS
    return RunBuilder(
        qos=1,
        topics=topics,
        subscribers={0: ("t/#", 1)},
        of_subscribers={0: {"replayed_since_ns": since_ns}},
    ).write(
        study,
        publications={"p": sent},
        deliveries={"s": [arrival(sent[seq], 0, retain=True) | {"received_ns": since_ns + MS} for seq in seqs]},
    )


@pytest.mark.parametrize(
    ("seqs", "delivered", "stale", "overlapping", "duplicated"),
    [
        ((), 0, 0, 0, 0),
        ((3, 1, 2), 3, 0, 0, 0),
        ((6, 4, 5), 3, 0, 0, 0),
        ((0, 4, 5), 2, 1, 0, 0),
        ((3, 6, 4), 2, 0, 1, 0),
        ((3, 3, 4), 2, 0, 0, 1),
    ],
)
def test_what_was_not_acknowledged_makes_nothing_before_it_stale(
    study, seqs, delivered, stale, overlapping, duplicated
):
    """Of seven messages on three topics 0 to 3 were acknowledged: owed are 3, 1 and 2, or what came after them."""
    sent = [*messages(4, acked=True), *messages(7)[4:]]
    run = replayed(study, sent, seqs)

    assert partials_of(run)["expected"] == [
        {"qos_granted": 1, "pairs": 3, "acknowledged_pairs": 3, "crossing_pairs": None}
    ]
    assert ledger(
        run, "delivered", "acknowledged_delivered", "stale", "overlapping", "duplicated"
    ) == {
        "delivered": delivered, "acknowledged_delivered": delivered, "stale": stale, "overlapping": overlapping,
        "duplicated": duplicated,
    }  # fmt: skip


@pytest.mark.parametrize("seq", [0, 1, 2])
def test_where_nothing_was_acknowledged_any_message_may_be_the_last(study, seq):
    """Their sizes differ: what came counts."""
    sent = [each | {"payload_bytes": 100 + each["seq"]} for each in messages(3)]
    run = replayed(study, sent, [seq], topics=THREE | {"count": 1, "publish": "t/{publisher}"})

    assert partials_of(run)["expected"] == [
        {"qos_granted": 1, "pairs": 1, "acknowledged_pairs": 0, "crossing_pairs": None}
    ]
    assert ledger(run, "delivered", "acknowledged_delivered", "stale", "measured_bytes") == {
        "delivered": 1, "acknowledged_delivered": 0, "stale": 0, "measured_bytes": 100 + seq,
    }  # fmt: skip
