"""The meter is proved on a broker whose faults are known: the tables say exactly what it did, and nothing else."""

import json

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from brokerlab.pipeline.tables import read_table
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)

pytestmark = pytest.mark.e2e

DELAY_MS = 50
FAULTS = {"drop": [7], "duplicate": [11], "dup_flag": True, "delay_ms": {"13": DELAY_MS}, "swap": [[31, 32]]}
RATE_PER_S, SECONDS = 100, 1
MESSAGES = RATE_PER_S * SECONDS


def study():
    """One publisher at 100/s for a second without warm-up: message n of the script is seq n - 1, 10 ms apart."""
    brokers = (BrokerChoice("honest", "scripted"), BrokerChoice("liar", "scripted", options=FAULTS))
    workload = Workload(publishers=1, subscribers=1, schedule=Schedule(rate_per_s=RATE_PER_S))
    variables = (Factor("broker", ("honest", "liar")), Factor("qos", (0, 1, 2)))
    return Study(
        name="truth",
        goals=Goals("Does the meter tell the truth?"),
        system=System(brokers),
        metrics=("latency", "delivery"),
        scenario=Scenario(workload, variables),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=SECONDS, drain_s=1.5)),
    )


def planned():
    own = study()
    return [(own, run) for run in make_plan(own, missing={}).runs]


@pytest.fixture(scope="module")
def results(analysed):
    return analysed


def row(results, table, **keys):
    rows = [r for r in read_table(results, table).to_pylist() if all(r[key] == value for key, value in keys.items())]
    assert len(rows) == 1
    return rows[0]


def ledger(results, broker, qos):
    found = row(results, "delivery", cell=f"broker-{broker}.qos-{qos}")
    names = (
        "published",
        "expected",
        "delivered",
        "lost",
        "duplicated",
        "duplicated_flagged",
        "reordered",
        "unexpected",
    )
    return {name: found[name] for name in names} | {"verdict": found["verdict"]}


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_honest_broker_gets_a_clean_ledger(results, qos):
    assert ledger(results, "honest", qos) == {
        "published": MESSAGES, "expected": MESSAGES, "delivered": MESSAGES, "lost": 0,
        "duplicated": 0, "duplicated_flagged": 0, "reordered": 0, "unexpected": 0, "verdict": "kept",
    }  # fmt: skip


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_fault_is_in_the_ledger_and_no_other(results, qos):
    """Dropped: 7. Twice: 11. Out of order: 13, which 14 to 17 overtake, and 31, which came after 32."""
    assert ledger(results, "liar", qos) == {
        "published": MESSAGES, "expected": MESSAGES, "delivered": MESSAGES - 1, "lost": 1,
        "duplicated": 1, "duplicated_flagged": 1 if qos else 0, "reordered": 2, "unexpected": 0,
        "verdict": "broken",
    }  # fmt: skip


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_was_acknowledged_and_dropped_has_its_own_count(results, qos):
    assert row(results, "delivery", cell=f"broker-liar.qos-{qos}")["acknowledged_lost"] == 1


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_delayed_message_is_late_by_its_delay_and_the_table_holds_it(results, qos):
    """No time is asserted but the lower bound that the script guarantees; the counts must be those of the raw data."""
    cell = f"broker-liar.qos-{qos}"
    raw = pq.read_table(results.run(f"{cell}/1").files("deliveries")[0])
    latency_ns = dict(
        zip(raw["seq"].to_pylist(), pc.subtract(raw["received_ns"], raw["intended_ns"]).to_pylist(), strict=True)
    )
    buckets = [b for b in read_table(results, "histogram").to_pylist() if b["cell"] == cell and b["kind"] == "intended"]
    limit_ns = min(b["low_ns"] for b in buckets if b["high_ns"] > latency_ns[12])
    latency = row(results, "latency", cell=cell, kind="intended", group="all")

    assert latency_ns[12] >= DELAY_MS * 1_000_000
    assert latency_ns[30] >= 1_000_000_000 / RATE_PER_S  # 31 waited for 32, which was due 10 ms later
    assert latency["n"] == MESSAGES - 1
    assert latency["max_ms"] == max(latency_ns.values()) / 1e6
    assert sum(b["n"] for b in buckets if b["low_ns"] >= limit_ns) == sum(v >= limit_ns for v in latency_ns.values())
    assert latency["negative_count"] == 0


def test_runs_of_the_scripted_broker_are_valid_and_complete(results):
    for _, run in planned():
        manifest = results.run(run.id).manifest()
        assert manifest["verdict"]["value"] in ("valid", "invalid")
        assert [phase["name"] for phase in manifest["phases"]] == [
            "connect", "subscribe", "warmup", "measure", "drain", "teardown",
        ]  # fmt: skip
        assert json.dumps(manifest)
