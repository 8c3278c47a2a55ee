"""Brokers of ours with a known capacity: no search finds more, and saturation finds it over a long way (S-06).

The capacity is that of a clock and not of the machine. A busy machine may fail any trial all the same, so a search that
found nothing is made again, and how near one comes is not asserted; docs/workload.md has what three of them found on a
quiet machine.
"""

from dataclasses import replace

import pytest
from side_by_side import make_planned

from brokerlab.lab.search import Outcome
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Arrivals,
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
from open_guards import OPEN

pytestmark = pytest.mark.e2e

PUBLISHERS = 2
TRIES = 3
SEARCHED_PER_S, SATURATED_PER_S = 250.0, 1_000.0
WAY_S = 0.3
MOST_AT_QOS_2 = 512
SEARCH = Schedule(
    Arrivals.SEARCH, p99_ms=60_000.0, from_per_s=100.0, to_per_s=400.0, precision_percent=20.0, trial_s=2.0
)
SATURATE = Schedule(Arrivals.SATURATE, window="auto")


def study(broker, schedule, *, qos=1, publishers=1, warmup_s=0, **faults):
    return Study(
        name="known",
        goals=Goals("How much does it carry?"),
        system=System((BrokerChoice(broker, "scripted", options=faults),)),
        metrics=("throughput",),
        scenario=Scenario(
            Workload(publishers=publishers, subscribers=1, schedule=schedule),
            (Factor("broker", (broker,)), Factor("qos", (qos,))),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=warmup_s, measure_s=1, drain_s=3)),
        analysis=OPEN,
    )


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    """By broker: two that serve a message every 4 ms, and two that are 0.3 s away, one of them without a limit."""
    results = StudyDirectory(tmp_path_factory.mktemp("known"))
    far = {"delay_ms": 1e3 * WAY_S, "warmup_s": 24}
    slow = {"publishers": PUBLISHERS, "service_ms": 1e3 / SEARCHED_PER_S}
    studies = (
        study("far", SATURATE, service_ms=1e3 / SATURATED_PER_S, **far),
        study("endless", SATURATE, qos=2, **far),
        study("near", SEARCH, **slow),
        study("overrun", replace(SEARCH, from_per_s=200.0), **slow),
    )
    made = make(studies, results)
    for again in range(2, TRIES + 1):
        if made["near"]["search"]["found"]["rate_per_s"] is None:
            made |= make(studies[2:3], StudyDirectory(results.path / f"again-{again}"))
    return made


def make(studies, results):
    make_planned([(each, run) for each in studies for run in make_plan(each, missing={}).runs], results)
    found = [run.manifest() for run in results.runs()]
    return {each["run"]["levels"]["broker"]: each for each in found}


@pytest.mark.parametrize("broker", ["near", "overrun"])
def test_no_search_finds_more_than_a_broker_can_do(manifests, broker):
    """One per cent of growth passes for none in a trial of two seconds."""
    search = manifests[broker]["search"]
    beyond = [each for each in search["trials"] if PUBLISHERS * each["rate_per_s"] > 1.1 * SEARCHED_PER_S]

    assert PUBLISHERS * (search["found"]["rate_per_s"] or 0) <= 1.1 * SEARCHED_PER_S
    assert [each["outcome"] for each in beyond if each["phase"] != "measure"].count(Outcome.PASSED) == 0
    assert beyond or broker == "near"


def test_a_search_finds_a_rate_that_the_broker_carries(manifests):
    """The lowest that is tried is four fifths of the truth."""
    found = manifests["near"]["search"]["found"]

    assert PUBLISHERS * found["rate_per_s"] >= 0.8 * SEARCHED_PER_S
    assert found["low_per_s"] <= found["rate_per_s"]
    assert not found["is_limited"]


def test_a_broker_that_cannot_carry_the_first_rate_has_no_capacity_there(manifests):
    assert manifests["overrun"]["search"]["found"]["rate_per_s"] is None


def test_the_window_is_widened_until_the_broker_is_the_limit(manifests):
    """Over 0.3 s a window of n messages is n / 0.3 s, and 300 messages are what the broker can do."""
    manifest = manifests["far"]
    window, steps = manifest["meter"]["window"], manifest["meter"]["window_steps"]

    assert manifest["verdict"] == {"value": "valid", "reasons": []}
    assert window >= WAY_S * SATURATED_PER_S
    best_per_s = max(step["delivered_per_s"] for step in steps if step["window"] == window)
    assert 0.8 * SATURATED_PER_S <= best_per_s <= 1.1 * SATURATED_PER_S


def test_a_run_whose_widest_window_was_the_limit_is_invalid_and_says_so(manifests):
    manifest = manifests["endless"]

    assert manifest["verdict"]["value"] == "invalid"
    (reason,) = manifest["verdict"]["reasons"]
    assert reason.startswith(f"a window of {MOST_AT_QOS_2} messages was the limit: messages hardly waited")
