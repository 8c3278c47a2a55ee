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
    "004-survivors",
}
FOUND_TO_HOLD = {
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


def test_every_claim_is_in_the_table_once_and_decided(table):
    assert list(table) == [claim.id for claim in read_claims()]
    assert {row.verdict for row in table.values()} == {"holds", "does not hold"}


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


def claim(name="x-claim", **rule):
    settings = {"source": ["t"], "metric": "average_latency", "lowest": True, "each": ["qos"], **rule}
    return Claim(name, "1", "a claim", "order", settings)


def value(broker, number, *, qos="0", **others):
    about = dict.fromkeys(Value.__dataclass_fields__)
    about.update(source="t", broker=broker, printed_broker=broker, qos=qos, metric="average_latency", value=number)
    return Value(**{**about, "bound": "", "printed": str(number), "unit": "ms", "note": "", **others})


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
