"""Every guard reaches the verdict of a real run, and of a trial: with limits below anything that can be measured."""

import pytest
from side_by_side import make_planned

from brokerlab.lab.search import Outcome
from brokerlab.load.quota import Quota
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Analysis,
    Arrivals,
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Guards,
    Phases,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)

pytestmark = pytest.mark.e2e

NOTHING = Guards(
    generator_cpu_percent=-1, subscriber_cpu_percent=-1, schedule_lag_p99_ms=-1, receive_lag_p99_ms=-1,
    steal_percent=-1, swap_growth_bytes=-1, clock_step_ms=-60_000, socket_backlog_bytes=-(1 << 30),
    throttled_percent=-1, stalled_percent=-1,
)  # fmt: skip
EVERY = {
    "generator CPU of publishers/0: ", "generator CPU of subscribers/0: ", "schedule lag p99: ", "receive lag p99: ",
    "swap in use grew by ", "CPU steal: ", "the wall clock stepped by ", "socket backlog: ",
}  # fmt: skip
QUOTAS = {f"CPU quota: {node} was " for node in ("publishers/0", "subscribers/0")} if Quota().read_ns() else set()
STALLS = {"stalls: publishers/0 lost "}
BRIEF_S = 0.3  # shorter than anything that looks at the machine in a rhythm of its own
SCHEDULES = {
    "closed": (Schedule(Arrivals.SATURATE, window=100), 2),
    "brief": (Schedule(rate_per_s=200), BRIEF_S),
    "searched": (Schedule(Arrivals.SEARCH, p99_ms=60_000.0, from_per_s=50.0, to_per_s=60.0, trial_s=BRIEF_S), 2),
}


def study(name):
    schedule, measure_s = SCHEDULES[name]
    return Study(
        name="broken",
        goals=Goals("Does each guard count?"),
        system=System((BrokerChoice(name, "scripted"),)),
        metrics=("throughput",),
        scenario=Scenario(
            Workload(publishers=1, subscribers=1, schedule=schedule),
            (Factor("broker", (name,)), Factor("qos", (1,))),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=measure_s, drain_s=3)),
        analysis=Analysis(guards=NOTHING),
    )


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    results = StudyDirectory(tmp_path_factory.mktemp("broken"))
    make_planned([(study(name), run) for name in SCHEDULES for run in make_plan(study(name), missing={}).runs], results)
    made = [run.manifest() for run in results.runs()]
    return {each["run"]["levels"]["broker"]: each for each in made}


def broken(reasons):
    return {begin for begin in EVERY | QUOTAS | STALLS if any(reason.startswith(begin) for reason in reasons)}


def test_each_guard_of_a_run_that_is_broken_makes_it_invalid(manifests):
    verdict = manifests["closed"]["verdict"]

    assert verdict["value"] == "invalid"
    assert broken(verdict["reasons"]) == EVERY | QUOTAS | STALLS
    assert len(verdict["reasons"]) == len(EVERY | QUOTAS | STALLS)


def test_a_run_of_a_third_of_a_second_is_judged_by_every_guard(manifests):
    around = manifests["brief"]["surroundings"]

    assert broken(manifests["brief"]["verdict"]["reasons"]) == EVERY | QUOTAS
    assert all(around[name] is not None for name in around if name != "energy_j")


def test_each_guard_that_is_broken_limits_a_trial(manifests):
    trials = [each for each in manifests["searched"]["search"]["trials"] if each["phase"] != "measure"]

    assert [each["outcome"] for each in trials] == 4 * [Outcome.LIMITED]
    assert [broken(trial["why"]) for trial in trials] == 4 * [EVERY | QUOTAS]


def test_what_held_each_worker_back_is_in_the_manifest(manifests):
    workers = manifests["closed"]["meter"]["workers"]

    assert 0 <= workers[0]["stalled_percent"] <= 100
    assert workers[1]["stalled_percent"] is None  # it has a receive lag
    assert all((worker["throttled_percent"] is not None) == bool(QUOTAS) for worker in workers)
    assert all(worker["stalled_percent"] is None for worker in manifests["searched"]["meter"]["workers"])
