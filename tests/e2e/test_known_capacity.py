"""Brokers of ours with a known capacity: a search finds it, twice, and saturation does over a long way (S-06).

The capacity is that of a clock and not of the machine. A busy machine may fail any trial all the same, so one of three
searches may find less; more than there is none may find.
"""

import itertools

import pytest
from side_by_side import make_planned
from test_capacity_search import OPEN

from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Analysis,
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

pytestmark = pytest.mark.e2e

PUBLISHERS = 2
SEARCHED_PER_S, SATURATED_PER_S = 250.0, 1_000.0
SEARCHES = 3
WAY_S = 0.3
MOST_AT_QOS_2 = 512
SEARCH = Schedule(
    Arrivals.SEARCH, p99_ms=60_000.0, from_per_s=100.0, to_per_s=400.0, precision_percent=5.0, trial_s=2.0
)
SATURATE = Schedule(Arrivals.SATURATE, window="auto")


def study(broker, schedule, *, qos=1, publishers=1, repetitions=1, warmup_s=0, **faults):
    return Study(
        name="known",
        goals=Goals("How much does it carry?"),
        system=System((BrokerChoice(broker, "scripted", options=faults),)),
        metrics=("throughput",),
        scenario=Scenario(
            Workload(publishers=publishers, subscribers=1, schedule=schedule),
            (Factor("broker", (broker,)), Factor("qos", (qos,))),
        ),
        deploy=Deploy(repetitions=repetitions, phases=Phases(warmup_s=warmup_s, measure_s=1, drain_s=3)),
        analysis=Analysis(guards=OPEN),
    )


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    """By broker: one that serves a message every 4 ms, and two that are 0.3 s away, one of them without a limit."""
    results = StudyDirectory(tmp_path_factory.mktemp("known"))
    far = {"delay_ms": 1e3 * WAY_S, "warmup_s": 24}
    studies = (
        study("far", SATURATE, service_ms=1e3 / SATURATED_PER_S, **far),
        study("endless", SATURATE, qos=2, **far),
        study("near", SEARCH, publishers=PUBLISHERS, repetitions=SEARCHES, service_ms=1e3 / SEARCHED_PER_S),
    )
    planned = [(each, run) for each in studies for run in make_plan(each, missing={}).runs]
    make_planned(planned, results, at_once=len(planned))
    made = [run.manifest() for run in results.runs()]
    return {
        name: [each for each in made if each["run"]["levels"]["broker"] == name] for name in ("far", "endless", "near")
    }


def found_per_s(manifest):
    return PUBLISHERS * manifest["search"]["found"]["rate_per_s"]


def test_no_search_finds_more_than_a_broker_can_do(manifests):
    """One per cent of growth passes for none in a trial of two seconds."""
    assert len(manifests["near"]) == SEARCHES
    assert all(found_per_s(each) <= 1.02 * SEARCHED_PER_S for each in manifests["near"])


def test_the_same_capacity_is_found_twice(manifests):
    """Within 5 % of each other, and of the truth."""
    rates = [found_per_s(each) for each in manifests["near"]]

    pairs = itertools.combinations(rates, 2)
    assert any(max(pair) <= 1.05 * min(pair) and min(pair) >= 0.95 * SEARCHED_PER_S for pair in pairs), rates


def test_the_window_is_widened_until_the_broker_is_the_limit(manifests):
    """Over 0.3 s a window of n messages is n / 0.3 s, and 300 messages are what the broker can do."""
    (manifest,) = manifests["far"]
    window, steps = manifest["meter"]["window"], manifest["meter"]["window_steps"]

    assert manifest["verdict"] == {"value": "valid", "reasons": []}
    assert window >= WAY_S * SATURATED_PER_S
    best_per_s = max(step["delivered_per_s"] for step in steps if step["window"] == window)
    assert 0.8 * SATURATED_PER_S <= best_per_s <= 1.1 * SATURATED_PER_S


def test_a_run_whose_widest_window_was_the_limit_is_invalid_and_says_so(manifests):
    (manifest,) = manifests["endless"]

    assert manifest["verdict"]["value"] == "invalid"
    (reason,) = manifest["verdict"]["reasons"]
    assert reason.startswith(f"a window of {MOST_AT_QOS_2} messages was the limit: messages hardly waited")
