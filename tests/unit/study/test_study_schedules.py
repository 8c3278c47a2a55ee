"""The schedules that a study may ask for, what each of them needs, and how they are written back."""

import pytest

from brokerlab.study.plan import make_plan
from brokerlab.study.values import Arrivals, Factor, Schedule
from brokerlab.study.written import study_yaml


def with_schedule(text, schedule, *, variables="", measure="5 s"):
    workload = f"  workload:\n    qos: 1\n    schedule: {schedule}\n"
    changed = text.replace("scenario:\n", f"scenario:\n{workload}").replace("    qos: [0, 1]\n", variables)
    return f"{changed}deploy: {{phases: {{measure: {measure}}}}}\n"


@pytest.mark.parametrize(
    ("written", "schedule"),
    [
        ("{arrivals: poisson, rate: 100/s}", Schedule(Arrivals.POISSON, 100.0)),
        ("{arrivals: jitter, rate: 10/s, jitter: 20 %}", Schedule(Arrivals.JITTER, 10.0, jitter_percent=20.0)),
        ("{arrivals: burst, rate: 100/s, burst: 50}", Schedule(Arrivals.BURST, 100.0, burst=50)),
        ("{arrivals: ramp, rate: 10/s, to: 500/s}", Schedule(Arrivals.RAMP, 10.0, to_per_s=500.0)),
        ("{arrivals: step, rates: [100/s, 2/min]}", Schedule(Arrivals.STEP, rates_per_s=(100.0, 2 / 60))),
        (
            "{arrivals: contact, rate: 1/min, store: 24 h, within: 60 s}",
            Schedule(Arrivals.CONTACT, 1 / 60, store_s=86_400.0, within_s=60.0),
        ),
        ("{arrivals: saturate, window: auto}", Schedule(Arrivals.SATURATE, window="auto")),
        ("{arrivals: window, inflight: 1}", Schedule(Arrivals.WINDOW, inflight=1)),
        (
            "{arrivals: search, p99: 10 ms, from: 100/s, to: 100000/s}",
            Schedule(Arrivals.SEARCH, p99_ms=10.0, from_per_s=100.0, to_per_s=100_000.0),
        ),
        (
            "{arrivals: search, p99: 0.5 ms, from: 1/s, to: 2/s, precision: 2.5 %, trial: 1 min, inflight: 5}",
            Schedule(
                Arrivals.SEARCH,
                p99_ms=0.5,
                from_per_s=1.0,
                to_per_s=2.0,
                precision_percent=2.5,
                trial_s=60.0,
                inflight=5,
            ),
        ),
        ("{arrivals: poisson, rate: 5/s, inflight: 20}", Schedule(Arrivals.POISSON, 5.0, inflight=20)),
    ],
)
def test_schedule_is_read_and_reads_back_equal(read, small, written, schedule):
    study = read(with_schedule(small, written, measure="2 min"))

    assert study.scenario.workload.schedule == schedule
    assert read(study_yaml(study)) == study


def test_rate_is_a_factor_of_random_arrivals_too(read, small):
    study = read(with_schedule(small, "{arrivals: poisson}", variables="    rate: [10/s, 20/s]\n"))

    assert Factor("rate", (10.0, 20.0)) in study.scenario.variables


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{arrivals: poison}", ['arrivals: "poison": unknown kind of arrivals; did you mean "poisson"?']),
        ("{burst: 50}", ["burst: belongs to burst arrivals; these are constant"]),
        ("{arrivals: burst}", ['arrivals: "burst": needs the key burst beside it, such as burst: 50']),
        ("{arrivals: ramp, rate: 5/s}", ['arrivals: "ramp": needs the key to beside it, such as to: 500/s']),
        ("{arrivals: step, rates: []}", ["rates: must not be empty"]),
        (
            "{arrivals: step, rate: 5/s, rates: [5/s]}",
            ["rate: belongs to constant, poisson, jitter, burst, ramp, contact and replay arrivals; these are step"],
        ),
        (
            "{arrivals: burst, rate: 5/s, burst: 50}",
            ['rate: "5/s": no burst of 50 messages is due in the 5 s of deploy.phases.measure; raise one of them'],
        ),
        (
            "{arrivals: ramp, rate: 1/h, to: 2/h}",
            ['rate: "1/h": no message is due in the 5 s of deploy.phases.measure; raise one of them'],
        ),
        (
            "{arrivals: step, rates: [5/min, 1/h]}",
            ["rates: no message is due in the 5 s of deploy.phases.measure; raise one of them"],
        ),
        (
            "{arrivals: contact, rate: 1/h, store: 5 min, within: 1 s}",
            ['rate: "1/h": no message is collected in 300 s; raise one of them'],
        ),
        ("{arrivals: window}", ['arrivals: "window": needs the key inflight beside it, such as inflight: 1']),
        ("{arrivals: saturate, window: aoto}", ['window: "aoto": unknown window, beside whole numbers; did you mean']),
        ("{inflight: auto}", ['inflight: "auto": must be a whole number, without a unit']),
        ("{inflight: 65536}", ['inflight: "65536": must be from 1 to 65535']),
        (
            "{arrivals: search, to: 9/s}",
            [
                'arrivals: "search": needs the key from beside it, such as from: 100/s',
                'arrivals: "search": needs the key p99 beside it, such as p99: 10 ms',
            ],
        ),
        (
            "{arrivals: search, p99: 0 ms, from: 10/s, to: 5/s, precision: 0.5 %}",
            [
                'p99: "0 ms": must be above 0 ms',
                'precision: "0.5 %": must be from 1 % to 100 % of the rate',
                'to: "5/s": must be above from, which is 10/s',
            ],
        ),
        (
            "{arrivals: search, p99: 1 ms, from: 1/s, to: 5/s, trial: 200 ms}",
            ['from: "1/s": no message is due in a trial of 0.2 s; raise one of them'],
        ),
        ("{rate: 5/s, trial: 1 s}", ["trial: belongs to search arrivals; these are constant"]),
    ],
)
def test_schedule_that_cannot_be_is_refused_with_its_line(problems, small, written, said):
    found = [str(problem) for problem in problems(with_schedule(small, written))]

    assert len(found) == len(said)
    for text, expected in zip(found, said, strict=True):
        assert f"study.yaml:13: scenario.workload.schedule.{expected}" in text


@pytest.mark.parametrize("written", ["{arrivals: ramp, rate: 1/h, to: 2/s}", "{arrivals: step, rates: [1/h, 3/s]}"])
def test_a_schedule_that_comes_to_its_messages_late_is_accepted(read, small, written):
    assert read(with_schedule(small, written)).scenario.workload.schedule.arrivals


def test_inflight_is_a_factor(read, small):
    study = read(with_schedule(small, "{arrivals: window}", variables="    inflight: [1, 20]\n"))

    assert Factor("inflight", (1, 20)) in study.scenario.variables
    assert read(study_yaml(study)) == study


def test_inflight_at_qos_0_is_refused_where_the_qos_is(problems, small):
    (varied,) = problems(with_schedule(small, "{inflight: 20}", variables="    qos: [2, 0]\n"))
    (default,) = problems(small.replace("    qos: [0, 1]\n", "    inflight: [20]\n"))

    assert 'scenario.variables.qos[1]: "0": inflight needs QoS 1 or 2' in str(varied)
    assert "scenario.variables.inflight: needs QoS 1 or 2, and the study's is 0" in str(default)


def test_window_arrivals_have_no_qos_0_beside_any_limit(problems, read, small):
    """At QoS 0 nothing would hold them back; where an open loop varies both, QoS 0 is measured once."""
    levels = "    qos: [0, 1]\n    inflight: [1, 20]\n"
    (found,) = problems(with_schedule(small, "{arrivals: window}", variables=levels))
    open_loop = make_plan(read(with_schedule(small, "{rate: 5/s}", variables=levels)), missing={})

    assert 'scenario.variables.qos[0]: "0": window arrivals need QoS 1 or 2' in str(found)
    assert [dict(cell.levels)["inflight"] for cell in open_loop.cells if not cell.workload.qos] == [20, 20]


def test_window_levels_may_hold_auto_beside_numbers(read, small):
    study = read(with_schedule(small, "{arrivals: saturate}", variables="    window: [auto, 100]\n"))

    assert Factor("window", ("auto", 100)) in study.scenario.variables
    assert read(study_yaml(study)) == study


def test_a_search_needs_messages_that_hold_their_time(problems, small):
    written = "{arrivals: search, p99: 1 ms, from: 1/s, to: 9/s}\n    payload: 15 B"
    (found,) = problems(with_schedule(small, written))

    assert 'payload: "15 B": a search takes 16 B, which hold the intended time of the message' in str(found)
