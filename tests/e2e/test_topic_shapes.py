"""Shapes of the load on the scripted broker, whose doings are known, and on Mosquitto (S-02, F-14)."""

from dataclasses import replace

import pyarrow.dataset as ds
import pytest

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import driver
from brokerlab.pipeline.tables import read_table
from brokerlab.study.plan import Cell, make_plan
from brokerlab.study.values import (
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Qos,
    Scenario,
    Schedule,
    Study,
    SubscribeAt,
    System,
    Topics,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.e2e

RATE_PER_S, SECONDS, TOPICS = 50, 0.4, 3
SENT = int(RATE_PER_S * SECONDS)  # 20 by each of two publishers: 7, 7 and 6 on its topics
PUBLISH = "plant/{publisher}/{topic}"
BASE = Workload(publishers=2, subscribers=4, qos=Qos.EXACTLY_ONCE, schedule=Schedule(rate_per_s=RATE_PER_S))
# As many messages by one publisher: in which order a broker reads those of two is a matter of how busy the machine is.
ALONE = replace(BASE, publishers=1, schedule=Schedule(rate_per_s=2 * RATE_PER_S))
SHAPES = {
    "all-to-all": Topics(PUBLISH, "plant/#", count=TOPICS),
    "one-topic": Topics(PUBLISH, "plant/+/{subscriber}", count=TOPICS, depth=9, length_bytes=120),
    "overlap": Topics(PUBLISH, ("plant/#", "plant/+/0"), count=TOPICS),
    "shared": Topics(PUBLISH, "plant/#", count=TOPICS, share=("a", "b")),
    "replay": Topics(PUBLISH, "plant/#", count=TOPICS, subscribe_at=SubscribeAt.AFTER),
}
BROKERS = {
    "honest": BrokerChoice("honest", "scripted"),
    # It sends a message once for each filter, drops the last of the second and third topic, and sends the sixth twice.
    "other": BrokerChoice(
        "other", "scripted", options={"per_filter": True, "drop": [2 * SENT - 2, 2 * SENT - 1], "duplicate": [6]}
    ),
    "mosquitto": BrokerChoice("mosquitto", "mosquitto"),
}


def study(brokers):
    return Study(
        name="shapes",
        goals=Goals("Who gets what?"),
        system=System(tuple(BROKERS[name] for name in brokers)),
        metrics=("latency", "delivery"),
        scenario=Scenario(BASE, (Factor("broker", tuple(brokers)),)),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=SECONDS, drain_s=1.5)),
        analysis=OPEN,
    )


def planned():
    """One cell for each broker and shape, which no factor of a study file can name."""
    own = study([name for name, choice in BROKERS.items() if isinstance(driver(choice.driver).find(), Found)])
    return [
        (own, replace(run, cell=cell_of(run.cell, name)))
        for run in make_plan(own, missing={}).runs
        for name in SHAPES
        if run.cell.broker.name != "other" or name in ("overlap", "replay")
    ]


def cell_of(cell, shape):
    base = ALONE if cell.broker.name == "other" else BASE
    topics = SHAPES[shape]
    workload = replace(base, topics=topics, retain=topics.subscribe_at is SubscribeAt.AFTER)
    return Cell(f"{cell.id}.shape-{shape}", cell.levels, cell.broker, workload)


@pytest.fixture(scope="module")
def tables(analysed):
    return {name: read_table(analysed, name).to_pylist() for name in ("runs", "delivery", "latency", "subscribers")}


def rows(tables, table, broker, shape):
    found = [row for row in tables[table] if row["cell"] == f"broker-{broker}.shape-{shape}"]
    if not found and broker == "mosquitto":
        pytest.skip("mosquitto is not on this machine")
    return found


def ledger(tables, broker, shape):
    (row,) = rows(tables, "delivery", broker, shape)
    names = ("published", "expected", "delivered", "duplicated", "overlapping", "stale", "unexpected", "verdict")
    return {name: row[name] for name in names}


ALL = 2 * SENT
CLEAN = {"published": ALL, "duplicated": 0, "overlapping": 0, "stale": 0, "unexpected": 0, "verdict": "kept"}


@pytest.mark.parametrize("broker", ["honest", "mosquitto"])
@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("all-to-all", 4 * ALL),
        ("one-topic", ALL),  # subscriber 3 has no topic, the others have one each
        ("overlap", 4 * ALL),
        ("shared", 2 * ALL),  # once for each of the two groups
        ("replay", 4 * 2 * TOPICS),  # the last message of each topic to each subscriber
    ],
)
def test_an_honest_broker_gets_a_clean_ledger(tables, broker, shape, expected):
    """Mosquitto sends a message once however many filters match, in MQTT 3.1.1."""
    assert ledger(tables, broker, shape) == CLEAN | {"expected": expected, "delivered": expected}
    assert [row["verdict"] for row in rows(tables, "runs", broker, shape)] == ["valid"]


def test_a_copy_for_another_filter_is_no_duplicate(tables):
    """At each of four subscribers: two lost, the sixth twice, and copies of what is on the first topic, 14 in all.

    The topics take turns: the sixth is on the third one, and no message that comes twice anyway.
    """
    assert ledger(tables, "other", "overlap") == CLEAN | {
        "expected": 4 * ALL, "delivered": 4 * (ALL - 2), "duplicated": 4, "overlapping": 4 * 14, "verdict": "broken",
    }  # fmt: skip


def test_a_retained_message_that_is_not_the_last_is_stale(tables):
    """The last message of two topics was dropped after its acknowledgement: the one before on that topic waits."""
    assert ledger(tables, "other", "replay") == CLEAN | {
        "expected": 4 * 3, "delivered": 4 * 1, "stale": 4 * 2, "verdict": "broken",
    }  # fmt: skip


@pytest.mark.parametrize("broker", ["honest", "mosquitto"])
def test_members_of_a_group_share_what_the_group_gets(tables, broker):
    members = rows(tables, "subscribers", broker, "shared")
    groups = {name: [row for row in members if row["group"] == name] for name in ("a", "b")}

    assert [row["group"] for row in members] == ["a", "b", "a", "b"]
    assert all(sum(row["delivered"] for row in own) == ALL for own in groups.values())
    assert all(sum(row["group_percent"] for row in own) == pytest.approx(100) for own in groups.values())
    if broker == "honest":  # its members take turns
        assert {row["delivered"] for row in members} == {ALL / 2}


@pytest.mark.parametrize("broker", ["honest", "mosquitto"])
def test_latency_of_a_replay_counts_from_the_subscription(tables, broker):
    latency = {row["kind"]: row for row in rows(tables, "latency", broker, "replay")}

    assert {kind: row["n"] for kind, row in latency.items() if row["n"]} == {"subscribe": 4 * 2 * TOPICS}
    assert latency["subscribe"]["min_ms"] > 0


@pytest.mark.parametrize("broker", ["honest", "other", "mosquitto"])
def test_nobody_hears_how_the_broker_is_made_to_forget(analysed, tables, broker):
    """Publishers end with empty retained messages; who heard those would have got what nobody published."""
    (run,) = rows(tables, "runs", broker, "replay")
    sessions = ds.dataset(analysed.run(run["run_id"]).raw("sessions"), format="parquet").to_table().to_pylist()
    ended = [(row["at_ns"], row["node"]) for row in sessions if row["event"] == "disconnect"]

    publishers = 1 if broker == "other" else BASE.publishers
    assert [node for _, node in sorted(ended)] == BASE.subscribers * ["subscribers/0"] + publishers * ["publishers/0"]
