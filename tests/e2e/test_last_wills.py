"""Wills: on a broker whose faults are known, and on Mosquitto, which keeps its word."""

import pyarrow.dataset as ds
import pytest
from side_by_side import make_planned

from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import make_plan
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
    System,
    Workload,
)
from brokerlab.study.will_values import Wills
from open_guards import OPEN

pytestmark = pytest.mark.e2e

PUBLISHERS, CLOSED = 10, 6
FAULTS = {"will_lost": [2], "will_twice": [4], "will_anyway": [1]}
CLEAN = {
    "expected": CLOSED, "arrived": CLOSED, "missing": 0, "duplicated": 0, "unexpected": 0, "early": 0,
    "wrong_payload": 0, "wrong_qos": 0, "wrong_retain": 0, "not_retained": 0, "retained": 0, "foreign": 0,
    "disconnected": PUBLISHERS - CLOSED,
}  # fmt: skip


def runs_of(brokers, *variables, wills, protocol="3.1.1", retain=False):
    workload = Workload(
        publishers=PUBLISHERS, schedule=Schedule(rate_per_s=20), qos=Qos(1), protocol=protocol, will=wills,
        retain=retain,
    )  # fmt: skip
    study = Study(
        name="wills",
        goals=Goals("Does every will come, and once?"),
        system=System(brokers),
        metrics=("latency", "delivery", "counters"),
        scenario=Scenario(workload, (Factor("broker", tuple(each.name for each in brokers)), *variables)),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=0.5, drain_s=3)),
        analysis=OPEN,
    )
    return [(study, run) for run in make_plan(study, missing={}).runs]


def planned():
    brokers = (BrokerChoice("liar", "scripted", options=FAULTS), BrokerChoice("mosquitto", "mosquitto"))
    return [
        *runs_of(brokers, Factor("will_qos", (0, 2)), wills=Wills(share_percent=60)),
        *runs_of(counting(""), wills=Wills(share_percent=60), retain=True),
        *runs_of(counting("-will"), wills=Wills(share_percent=60, retain=True)),
        *runs_of(counting("-both"), wills=Wills(share_percent=60, retain=True), retain=True),
    ]


def counting(what):
    """Brokers that count retained messages too, those that wipe out others among them."""
    return tuple(BrokerChoice(f"{name}-keeps{what}", name) for name in ("amqtt", "nats"))


def said(results, cell):
    manifest = results.run(f"{cell}/1").manifest()
    assert manifest["verdict"] == {"value": "valid", "reasons": []}
    section = manifest["wills"]
    return {name: section[name] for name in CLEAN}, section["latency_ms"], manifest


@pytest.fixture(scope="module")
def results(analysed):
    return analysed


@pytest.mark.parametrize("qos", [0, 2])
def test_mosquitto_publishes_each_will_once_and_its_counters_still_agree(results, qos):
    counts, latency_ms, manifest = said(results, f"broker-mosquitto.will_qos-{qos}")

    assert counts == CLEAN
    assert 0 <= latency_ms["p50"] <= latency_ms["p99"] <= latency_ms["max"]
    assert [phase["name"] for phase in manifest["phases"]][-3:] == ["drain", "wills", "teardown"]
    rows = [row for row in read_table(results, "counters").to_pylist() if row["run_id"] == manifest["run"]["id"]]
    assert {row["verdict"] for row in rows} == {"equal", "not comparable"}


@pytest.mark.parametrize("broker", ["amqtt", "nats"])
@pytest.mark.parametrize(("what", "wiped"), [("", PUBLISHERS), ("-will", CLOSED), ("-both", PUBLISHERS + CLOSED)])
def test_messages_that_wipe_out_retained_ones_are_counted_on_both_sides(results, broker, what, wiped):
    """Each publisher its topic, when it leaves, and who hears the wills each of those."""
    cell = f"broker-{broker}-keeps{what}"
    counts, _, manifest = said(results, cell)

    assert counts == CLEAN
    assert manifest["besides"]["publications"] == wiped
    assert manifest["besides"]["payload_bytes"] == 0
    counter = next(
        row for row in read_table(results, "counters").to_pylist() if row["cell"] == cell and row["count"] == "received"
    )
    assert counter["verdict"] == "equal"
    assert counter["our_value"] == 100 + wiped + manifest["proof"]["publications"]


@pytest.mark.parametrize("qos", [0, 2])
def test_every_fault_is_in_the_account_and_the_load_knows_nothing_of_it(results, qos):
    cell = f"broker-liar.will_qos-{qos}"
    counts, _, _ = said(results, cell)

    assert counts == CLEAN | {"arrived": CLOSED - 1, "missing": 1, "duplicated": 1, "unexpected": 1}
    events = {row["event"]: row for row in read_table(results, "sessions").to_pylist() if row["cell"] == cell}
    assert (events["will"]["n"], events["will"]["failures"]) == (CLOSED - 1, 0)
    assert events["will"]["latency_p50_ms"] >= 0
    for event in ("missing", "duplicated", "unexpected"):
        assert (events[f"will failed: {event}"]["n"], events[f"will failed: {event}"]["failures"]) == (1, 1)
    assert (events["dropped"]["n"], events["disconnect"]["n"]) == (CLOSED, PUBLISHERS - CLOSED + 1)
    ledger = next(row for row in read_table(results, "delivery").to_pylist() if row["cell"] == cell)
    assert (ledger["published"], ledger["lost"], ledger["duplicated"], ledger["unexpected"]) == (100, 0, 0, 0)
    assert ledger["verdict"] == "kept"


def test_mosquitto_at_5_retains_wills_and_keeps_their_delay(tmp_path):
    """Of the clock only what the delay guarantees: no will before the close and a second.

    That publishers end with empty retained messages is heard by no subscriber.
    """
    choice = (BrokerChoice("mosquitto", "mosquitto"),)
    delays = Factor("will_delay", (1,))
    results = StudyDirectory(tmp_path)
    wills = Wills(2, retain=True, share_percent=60)
    make_planned(runs_of(choice, delays, wills=wills, protocol="5.0", retain=True), results)

    cell = "broker-mosquitto.will_delay-1s"
    assert said(results, cell)[0] == CLEAN
    sessions, deliveries = (
        ds.dataset(results.run(f"{cell}/1").raw(kind), format="parquet").to_table().to_pylist()
        for kind in ("sessions", "deliveries")
    )
    assert len(deliveries) == 100
    closed = {row["client"]: row["at_ns"] for row in sessions if row["event"] == "dropped"}
    came = {row["client"]: row["at_ns"] for row in sessions if row["event"] == "will"}
    assert len(closed) == CLOSED
    assert came.keys() == closed.keys()
    assert all(came[client] - closed[client] >= 1_000_000_000 for client in closed)
