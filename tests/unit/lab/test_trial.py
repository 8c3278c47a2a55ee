"""When a trial passes, fails, or says nothing about the broker."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from brokerlab.lab.search import Outcome
from brokerlab.lab.surroundings import Reading, Surroundings
from brokerlab.lab.trial import judge_trial
from brokerlab.lab.trials import Trials
from brokerlab.load.spec import Go, Held, Stock
from brokerlab.stats.histogram import bucket_index
from brokerlab.study.values import (
    Arrivals,
    BrokerChoice,
    Factor,
    Goals,
    Guards,
    Qos,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)

pytestmark = pytest.mark.unit

SECOND_NS = 1_000_000_000
ORDER = Go(0, 0, 2 * SECOND_NS, number=3, rate_per_s=50.0)
WORKLOAD = Workload(schedule=Schedule(Arrivals.SEARCH, p99_ms=10.0, from_per_s=1.0, to_per_s=99.0), qos=Qos(1))
STUDY = Study("s", Goals("?"), System((BrokerChoice("b", "b"),)), (), Scenario(WORKLOAD, (Factor("broker", ("b",)),)))
CALM = Surroundings(10, 0, 0.0, 0.0, 0.0)
PUBLISHERS = Stock(cpu_ns=100_000_000, wall_ns=2 * SECOND_NS)


def buckets(*durations_ns):
    found, counts = np.unique(bucket_index(np.array(durations_ns, dtype=np.int64)), return_counts=True)
    return tuple(zip(found.tolist(), counts.tolist(), strict=True))


def subscribers(*latencies_ns, **changed):
    facts = {
        "arrivals": len(latencies_ns), "latency_buckets": buckets(*latencies_ns),
        "latency_min_ns": min(latencies_ns, default=0), "latency_max_ns": max(latencies_ns, default=0),
    }  # fmt: skip
    return replace(PUBLISHERS, **facts | changed)


def judged(publishers=PUBLISHERS, receivers=None, *, expected=100, workload=WORKLOAD, around=CALM):
    receivers = receivers or subscribers(*[1_000_000] * 100)
    return judge_trial(
        "trial-3", ORDER, {"publishers/0": publishers, "subscribers/0": receivers},
        published=100, expected=expected, workload=workload, guards=Guards(), around=around,
    )  # fmt: skip


def test_a_rate_that_is_carried_passes():
    trial = judged()

    assert (trial.outcome, trial.why, trial.rate_per_s) == (Outcome.PASSED, (), 50.0)
    assert (trial.p50_ms, trial.p99_ms) == (1.0, 1.0)
    assert trial.section()["outcome"] == "passed"


def test_one_message_in_a_hundred_may_be_later_than_the_limit():
    assert judged(receivers=subscribers(*[1_000_000] * 99, 11_000_000)).outcome is Outcome.PASSED

    late = judged(receivers=subscribers(*[1_000_000] * 98, 11_000_000, 11_000_000))

    assert late.outcome is Outcome.FAILED
    assert late.why == ("p99 of latency: 10.9 ms is above 10 ms",)


@pytest.mark.parametrize(
    ("publishers", "receivers", "why"),
    [
        ({}, {"arrivals": 99}, "1 of 100 deliveries did not come"),
        ({"unacknowledged": 2}, {}, "2 messages were not acknowledged"),
        ({"given_up": 7}, {}, "7 messages that were due could not be handed over"),
        ({}, {"under_way": (1.0, 2.0)}, "the backlog grew by 2 % of what was due, more than 1 %"),
        ({}, {"arrivals": 0, "latency_buckets": ()}, "nothing arrived"),
    ],
)
def test_a_trial_fails_with_its_reason(publishers, receivers, why):
    trial = judged(replace(PUBLISHERS, **publishers), subscribers(*[1_000_000] * 100, **receivers))

    assert trial.outcome is Outcome.FAILED
    assert trial.why[0] == why


def test_at_qos_0_nothing_waits_for_an_acknowledgement():
    workload = replace(WORKLOAD, qos=Qos(0))

    assert judged(replace(PUBLISHERS, unacknowledged=2), workload=workload).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("publishers", "receivers", "around", "guard"),
    [
        ({"cpu_ns": SECOND_NS * 3 // 2}, {}, CALM, "generator CPU of publishers/0: 75 % is above 70 %"),
        ({}, {"cpu_ns": SECOND_NS * 9 // 5}, CALM, "generator CPU of subscribers/0: 90 % is above 80 %"),
        ({"lag_buckets": buckets(9_000_000), "lag_max_ns": 9_000_000}, {}, CALM, "schedule lag p99"),
        ({"lag_buckets": buckets(9_000_000), "lag_max_ns": 9_000_000, "blocked": 1}, {}, CALM, "schedule lag p99"),
        ({}, {"receive_lag_buckets": buckets(30_000_000), "receive_lag_max_ns": 30_000_000}, CALM, "receive lag p99"),
        ({}, {}, replace(CALM, steal_percent=20.0), "CPU steal"),
        ({}, {}, replace(CALM, socket_backlog_bytes=200_000.0), "socket backlog"),
        ({"held": Held(throttled_percent=30.0)}, {}, CALM, "CPU quota: publishers/0"),
    ],
)
def test_a_broken_guard_says_nothing_about_the_broker_whatever_else_happened(publishers, receivers, around, guard):
    receivers = subscribers(*[99_000_000] * 100, **receivers)

    trial = judged(replace(PUBLISHERS, **publishers), receivers, around=around)

    assert trial.outcome is Outcome.LIMITED
    assert trial.why[0].startswith(guard)


def test_a_trial_is_not_limited_by_what_the_machine_did_before_it():
    """The clock was set, and swap grew, in the one before; what fills a socket now is this one's."""
    calm = {"steal_ticks": 0, "idle_ticks": 0, "all_ticks": 0}
    seen = [(0, 0, 0), (SECOND_NS, 1 << 30, 7 * SECOND_NS), (4 * SECOND_NS, 1 << 30, 7 * SECOND_NS)]
    readings = [Reading(at, swap_used_bytes=swap, wall_less_mono_ns=step, **calm) for at, swap, step in seen]
    order = replace(ORDER, start_ns=2 * SECOND_NS, measure_ns=2 * SECOND_NS, end_ns=4 * SECOND_NS)

    def trial_with(backlog_bytes):
        stock = {"publishers/0": PUBLISHERS, "subscribers/0": subscribers(*[1_000_000] * 100)}
        stock["subscribers/0"] = replace(stock["subscribers/0"], backlog_bytes=backlog_bytes)
        trials = Trials(
            SimpleNamespace(stock=lambda: stock), SimpleNamespace(readings=readings), STUDY, WORKLOAD,
            expected=lambda publications: {"subscribers/0": sum(publications.values())}, pass_phase=None,
        )  # fmt: skip
        return trials.judge("trial-3", order, {0: 100})[0]

    assert trial_with(0.0).why == ()
    assert trial_with(1e9).why[0].startswith("socket backlog: ")
