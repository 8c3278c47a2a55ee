"""The papers' claims against their own numbers, found by rules (F-24, M-28, S-11, S-14)."""

import pytest
from pyspark.testing import assertSchemaEqual

from brokerlab.pipeline.claims import claims_frame
from brokerlab.pipeline.schemas.claims import TABLE
from brokerlab.published.claims import Claim, read_claims
from brokerlab.published.values import Value, published_values

# What the review of the papers found by hand, by the numbers of its list (requirements 0 and 1.1 to 1.4).
FOUND_BY_HAND = {
    "000-protocols",
    "000-monthly-messages",
    "000-emqttd-systems",
    "002-local-scalable-latency",
    "002-local-scalable-rate-qos0",
    "002-local-rate-order-qos2",
    "002-local-latency-order-qos2",
    "002-cloud-latency-order-qos0",
    "002-cloud-latency-order-qos1",
    "002-local-latency-table",
    "002-cloud-latency-table",
    "002-cloud-latency-better",
    "002-cloud-rate-better",
    "003-fluux-echo",
    "003-fluux-loop",
    "003-emqx-echo",
    "003-emqx-loop",
    "003-decimals",
    "003-ioticos-always",
    "003-shorter-way",
    "004-survivors",
}
FOUND_TO_HOLD = {
    "001-subscriptions-most",
    "003-mosquitto-collapses",
    "003-no-loss",
    "003-emqx-loses",
    "004-topic-length",
    "004-fewer-bridges",
    "004-qos-delay",
    "004-only-qos0-loses",
    "004-large-are-lost",
    "004-more-bridges-lose-less",
    "000-protocols-mqtt-only",
    "002-projection",
    "003-fluux-jitter",
    "003-fluux-loop-slow",
    "002-cloud-scalable-rate",
}


@pytest.fixture(scope="module")
def table(spark):
    frame = claims_frame(spark, read_claims(), published_values())
    assertSchemaEqual(frame.schema, TABLE.columns)
    return {row.claim: row for row in frame.collect()}


def test_every_claim_is_in_the_table_once_and_decided_where_there_are_numbers(table):
    """Paper 001 prints none of its figures' numbers, and 003 did not vary what is in flight."""
    undecided = {name for name, row in table.items() if row.verdict == "undecided"}

    assert list(table) == [claim.id for claim in read_claims()]
    assert {row.verdict for row in table.values()} == {"holds", "does not hold", "undecided"}
    assert {name for name in undecided if not name.startswith("001-")} == {"003-queue-of-the-broker"}
    assert {"001-subscriptions-most", "001-control"} & undecided == set()


def test_the_mismatches_that_were_found_by_hand_are_found_by_rules(table):
    assert {name for name in FOUND_BY_HAND if table[name].verdict != "does not hold"} == set()
    assert {name for name in FOUND_TO_HOLD if table[name].verdict != "holds"} == set()


def test_what_the_numbers_say_is_told(table):
    assert "the two rows are swapped" in table["000-protocols"].numbers
    assert "left out: EMQ X" in table["002-local-rate-order-qos2"].numbers
    assert "a day of 100,000" in table["000-monthly-messages"].numbers
    assert "17,064" in table["000-monthly-messages"].numbers
    assert table["002-cloud-rate-better"].contradicted == 9
    assert table["002-cloud-rate-better"].cells == 18
    assert table["002-projection"].cells == 36
    assert table["003-decimals"].contradicted == 3
    assert table["001-subscriptions-most"].numbers == "clustered: 78"  # 100 - 15 - 7
    assert "QoS 1: pair 186.7, publisher 191.2" in table["004-fewer-bridges"].numbers
    assert "bridge_per pair, length 29 B: 49.95" in table["004-qos0-loses"].numbers  # 1998 of 4000
    assert table["004-large-are-lost"].cells == 6


def claim(name="x-claim", kind="order", **rule):
    settings = {"source": ["t"], "metric": "average_latency", "each": ["qos"], **rule}
    if kind == "order":
        settings = {"lowest": True, **settings}
    return Claim(name, "1", "a claim", kind, settings)


def value(broker, number, *, qos="0", **others):
    about = dict.fromkeys(Value.__dataclass_fields__)
    about.update(source="t", broker=broker, printed_broker=broker, qos=qos, metric="average_latency", value=number)
    levels = {"broker": broker, "qos": qos, **others.pop("levels", {})}
    about.update(bound="", printed=str(number), unit="ms", note="", levels=tuple(levels.items()))
    return Value(**{**about, **others})


ON_PAPER = [
    ({"first": "a"}, {"a": 1.0, "b": 2.0}, "holds"),
    ({"first": "a"}, {"a": 1.0, "b": 1.0}, "holds"),  # a tie is either order
    ({"first": "a"}, {"a": 2.0, "b": 1.0}, "does not hold"),
    ({"last": "a", "without": ["c"]}, {"a": 2.0, "b": 1.0, "c": 3.0}, "holds"),
    ({"order": ["a", "b"]}, {"a": 1.0, "b": 2.0, "c": 3.0}, "does not hold"),
    ({"first": "a"}, {"a": 1.0}, "undecided"),
    ({"first": "z"}, {"a": 1.0, "b": 2.0}, "undecided"),
    ({"first": "a"}, {"a": None, "b": 2.0}, "undecided"),
]


def test_orders_on_paper(spark):
    claims = [claim(f"x-{place}", source=[f"t{place}"], **rule) for place, (rule, _, _) in enumerate(ON_PAPER)]
    values = [
        value(broker, number, source=f"t{place}")
        for place, (_, numbers, _) in enumerate(ON_PAPER)
        for broker, number in numbers.items()
    ]

    rows = claims_frame(spark, claims, values).collect()

    assert [row.verdict for row in rows] == [verdict for _, _, verdict in ON_PAPER]


def test_our_own_numbers_say_nothing_where_they_have_one_of_the_papers_brokers(spark):
    """Table 6 of paper 002 has Mosquitto and Bevywise: to lead before NATS is another claim."""
    values = [value("mosquitto", 1.0, source="ours"), value("nats", 2.0, source="ours")]
    asked = claim(source=["002/table6"], first="Mosquitto")

    (row,) = claims_frame(spark, [asked], values, ours="ours").collect()

    assert row.verdict == "undecided"


def test_our_own_numbers_are_judged_by_the_brokers_that_they_have(spark):
    values = [value("mosquitto", 1.0, source="ours"), value("emqx", 2.0, source="ours")]
    asked = claim(order=["Mosquitto", "Bevywise MQTT Route", "EMQ X"])

    (row,) = claims_frame(spark, [asked], values, ours="ours").collect()

    assert (row.verdict, row.held_against) == ("holds", "ours")


# Mean delays in ms by locality and rtt of two brokers: near 1 and 2; far 10 and 20 at 5 ms, 60 and 100 at 50 ms.
NEAR_AND_FAR = [
    value(broker, delay, levels={"locality": locality, "rtt": rtt, "join": join})
    for broker, join, delays in (("a", "cluster", (1.0, 10.0, 1.0, 60.0)), ("b", "bridge", (2.0, 20.0, 2.0, 100.0)))
    for (rtt, locality), delay in zip(
        (("5 ms", "100 %"), ("5 ms", "0 %"), ("50 ms", "100 %"), ("50 ms", "0 %")), delays, strict=True
    )
]
OVER_LEVELS = [
    # kind, rule, verdict, cells, numbers
    ("order", {"of": "locality", "each": ["broker", "rtt"], "first": "100 %"},
     "holds", 4, "a, rtt 5 ms: 100 % 1, 0 % 10; a, rtt 50 ms: 100 % 1, 0 % 60; "
     "b, rtt 5 ms: 100 % 2, 0 % 20; b, rtt 50 ms: 100 % 2, 0 % 100"),
    ("order", {"of": "rtt", "each": ["broker"], "where": {"locality": "0 %"}, "order": ["50 ms", "5 ms"]},
     "does not hold", 2, "2 of 2: a: 5 ms 10, 50 ms 60; b: 5 ms 20, 50 ms 100"),
    ("order", {"of": "join", "each": ["rtt"], "where": {"locality": "0 %"}, "last": "bridge"},
     "holds", 2, "rtt 5 ms: cluster 10, bridge 20; rtt 50 ms: cluster 60, bridge 100"),
    ("order", {"each": [], "where": {"locality": ["0 %", "100 %"]}, "first": "a"}, "holds", 1, "a 18, b 31"),  # means
    ("order", {"each": [], "where": {"inflight": "1"}, "first": "a"}, "undecided", 0, None),
    ("change", {"of": "rtt", "where": {"locality": "0 %"}, "from": "5 ms", "to": "50 ms", "at_most": 5},
     "does not hold", 2, "1 of 2: a, QoS 0: 10 to 60"),  # six times, and five
    ("change", {"of": "rtt", "where": {"locality": "0 %"}, "from": "5 ms", "to": "50 ms", "at_least": 5},
     "holds", 2, "a, QoS 0: 10 to 60; b, QoS 0: 20 to 100"),
    ("change", {"of": "broker", "each": ["rtt"], "where": {"locality": "0 %"}, "from": "b", "to": "a", "lowest": True},
     "holds", 2, "rtt 5 ms: 20 to 10; rtt 50 ms: 100 to 60"),
    ("limit", {"each": ["broker"], "where": {"rtt": "5 ms"}, "at_least": 5, "at_most": 10},
     "does not hold", 2, "1 of 2: b: 11"),  # the means of 1 and 10, 2 and 20
]  # fmt: skip


def test_claims_over_levels_on_paper(spark):
    claims = [
        claim(f"x-{place}", kind, **{"each": ["broker", "qos"], **rule})
        for place, (kind, rule, *_) in enumerate(OVER_LEVELS)
    ]

    rows = claims_frame(spark, claims, NEAR_AND_FAR).collect()

    told = [(row.verdict, row.cells, row.numbers) for row in rows]
    assert told == [tuple(found) for _, _, *found in OVER_LEVELS]


def test_of_our_own_numbers_whatever_varies_is_a_cell_of_its_own(spark):
    """A claim that says nothing of rtt and locality is not held against means over them."""
    asked = claim(first="a")

    (row,) = claims_frame(spark, [asked], NEAR_AND_FAR, ours="ours").collect()

    assert (row.verdict, row.cells) == ("undecided", 0)  # of join, too: no cell has both brokers


def test_a_level_without_a_number_leaves_a_change_undecided(spark):
    values = [value("a", 0.0, levels={"rate": "1/s"}), value("a", 5.0, levels={"rate": "2/s"})]
    asked = claim(kind="change", of="rate", each=["broker"], **{"from": "1/s", "to": "2/s"}, at_most=2)

    (row,) = claims_frame(spark, [asked], values).collect()

    assert row.verdict == "undecided"  # no ratio to nothing
