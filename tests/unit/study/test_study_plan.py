import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerlab.errors import UserError
from brokerlab.study.factors import FACTORS
from brokerlab.study.plan import make_plan, only, plan_json
from brokerlab.study.problems import StudyError
from brokerlab.study.seeds import derived_seed
from brokerlab.study.values import (
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Scenario,
    Study,
    System,
    Topics,
    Workload,
)

# The machine may be busy: how long an example takes says nothing here.
IN_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
BROKERS = (BrokerChoice("one", "amqtt"), BrokerChoice("two", "nats"), BrokerChoice("opt", "mosquitto", optional=True))


def make_study(*factors, seed=7, repetitions=3):
    variables = (Factor("broker", ("one", "two", "opt")), *factors)
    return Study(
        name="s",
        goals=Goals("Which?"),
        system=System(BROKERS),
        metrics=("latency",),
        scenario=Scenario(Workload(topics=Topics()), variables),
        deploy=Deploy(repetitions, seed, Phases(warmup_s=1.0, measure_s=5.0, drain_s=9.0)),
    )


STUDY = make_study(Factor("qos", (0, 1)), Factor("payload", (64, 1024)))


def test_cells_are_the_product_of_levels_in_file_order():
    plan = make_plan(STUDY, missing={})

    assert [cell.id for cell in plan.cells][:5] == [
        "broker-one.qos-0.payload-64B",
        "broker-one.qos-0.payload-1KiB",
        "broker-one.qos-1.payload-64B",
        "broker-one.qos-1.payload-1KiB",
        "broker-two.qos-0.payload-64B",
    ]
    assert len(plan.cells) == 12


def test_cell_holds_its_broker_and_its_workload():
    factors = [
        Factor("qos", (2,)),
        Factor("payload", (99,)),
        Factor("rate", (0.5,)),
        Factor("publishers", (3,)),
        Factor("subscribers", (4,)),
        Factor("window", (6,)),
    ]
    cell = make_plan(make_study(*factors), missing={}).cells[1]

    assert cell.broker.name == "two"
    workload = cell.workload
    assert (workload.qos, workload.payload_bytes, workload.publishers, workload.subscribers) == (2, 99, 3, 4)
    assert (workload.schedule.rate_per_s, workload.schedule.window) == (0.5, 6)
    assert cell.id == "broker-two.qos-2.payload-99B.rate-0_5-per-s.publishers-3.subscribers-4.window-6"


def test_every_repetition_runs_every_cell_once_in_an_order_of_its_own():
    plan = make_plan(STUDY, missing={})
    rounds = [[run.cell.id for run in plan.runs if run.repetition == number] for number in (1, 2, 3)]

    assert [run.repetition for run in plan.runs] == [1] * 12 + [2] * 12 + [3] * 12
    assert [run.order for run in plan.runs] == list(range(1, 37))
    assert all(sorted(cells) == sorted(cell.id for cell in plan.cells) for cells in rounds)
    assert all(first != second for first, second in pairwise(rounds))


def test_run_has_a_seed_of_its_own():
    plan = make_plan(STUDY, missing={})

    assert len({run.seed for run in plan.runs}) == len(plan.runs)
    assert plan.runs[0].id == f"{plan.runs[0].cell.id}/1"


def test_clients_go_to_the_same_places_in_all_cells_of_a_repetition():
    """B-23: and to others in the next."""
    found = {(run.repetition, run.placement_seed) for run in make_plan(STUDY, missing={}).runs}

    assert len(found) == len({seed for _, seed in found}) == STUDY.deploy.repetitions > 1


def test_other_seed_gives_another_order():
    other = replace(STUDY, deploy=replace(STUDY.deploy, seed=8))

    assert [run.id for run in make_plan(STUDY, missing={}).runs] != [
        run.id for run in make_plan(other, missing={}).runs
    ]


def test_expected_time_counts_phases_starts_and_analysis():
    assert make_plan(STUDY, missing={}).expected_s == 36 * (1.0 + 5.0 + 2.5) + 15


def test_optional_broker_is_left_out_of_the_cells_with_a_qos_that_it_has_not():
    whole = make_plan(STUDY, missing={})
    plan = make_plan(STUDY, missing={}, qos={"one": (0,), "opt": (0,)})

    left_out = [cell.id for cell in whole.cells if cell not in plan.cells]
    assert left_out == ["broker-opt.qos-1.payload-64B", "broker-opt.qos-1.payload-1KiB"]
    assert plan.unable == (("opt", "it has no QoS 1"),)
    assert json.loads(plan_json(plan, STUDY))["unable"] == [["opt", "it has no QoS 1"]]
    assert {run.id: run.seed for run in plan.runs}.items() < {run.id: run.seed for run in whole.runs}.items()


def test_a_varied_qos_that_an_optional_broker_has_not_is_no_mistake(read, small):
    text = small.replace("two: {driver: amqtt}", "two: {driver: nats, optional: true}").replace("[0, 1]", "[0, 2]")

    assert read(text).system.brokers[1].optional
    with pytest.raises(StudyError, match="has no QoS 2"):
        read(text.replace(", optional: true", ""))


def test_optional_missing_broker_is_left_out_and_the_order_of_the_others_stays():
    whole = make_plan(STUDY, missing={})
    plan = make_plan(STUDY, missing={"opt": "not installed"})

    assert plan.left_out == (("opt", "not installed"),)
    assert [(run.id, run.seed) for run in plan.runs] == [
        (run.id, run.seed) for run in whole.runs if run.cell.broker.name != "opt"
    ]
    assert [run.order for run in plan.runs] == list(range(1, 25))


def test_needed_missing_brokers_are_all_named():
    with pytest.raises(UserError) as caught:
        make_plan(STUDY, missing={"one": "no amqtt", "two": "no nats", "opt": "no mosquitto"})

    assert caught.value.message.splitlines() == [
        "broker one is not on this machine: no amqtt",
        "broker two is not on this machine: no nats",
    ]
    assert "optional: true" in caught.value.hint


def test_missing_broker_that_is_not_varied_does_not_matter():
    variables = (Factor("broker", ("one",)),)
    study = replace(STUDY, scenario=replace(STUDY.scenario, variables=variables))

    plan = make_plan(study, missing={"two": "no nats", "opt": "no mosquitto"})

    assert [cell.id for cell in plan.cells] == ["broker-one"]
    assert plan.left_out == ()


def test_missing_broker_that_is_not_kept_does_not_matter():
    plan = make_plan(STUDY, missing={"two": "no nats"}, keep=["broker=one"])

    assert {run.cell.broker.name for run in plan.runs} == {"one"}
    assert plan.expected_s == 12 * 8.5 + 15


def test_plan_with_nothing_left_is_refused():
    variables = (Factor("broker", ("opt",)),)
    study = replace(STUDY, scenario=replace(STUDY.scenario, variables=variables))

    with pytest.raises(UserError, match="nothing is left to run\nbroker opt is left out: no mosquitto"):
        make_plan(study, missing={"opt": "no mosquitto"})


def test_only_adds_levels_of_one_factor_and_narrows_by_several():
    plan = make_plan(STUDY, missing={})
    cut = only(plan, ["qos=1", "broker=one", "broker=two", "payload=1024 B"])

    assert [cell.id for cell in cut.cells] == ["broker-one.qos-1.payload-1KiB", "broker-two.qos-1.payload-1KiB"]
    assert cut.expected_s == 6 * 8.5 + 15
    kept = {cell.id for cell in cut.cells}
    assert cut.runs == tuple(run for run in plan.runs if run.cell.id in kept)
    assert make_plan(STUDY, missing={}, keep=["qos=1", "broker=one", "broker=two", "payload=1KiB"]) == cut


def test_only_without_levels_keeps_the_plan():
    plan = make_plan(STUDY, missing={})

    assert only(plan, []) == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qoss=1", '--only: "qoss=1": unknown factor of this study; did you mean "qos=1"?'),
        ("rate=1/s", '--only: "rate=1/s": unknown factor of this study; known: broker, qos and payload'),
        ("broker=onne", '--only: "broker=onne": unknown level of broker; did you mean "broker=one"?'),
        ("payload=64", '--only: "payload=64": unknown level of payload; did you mean "payload=64 B"?'),
        ("qos=2", '--only: "qos=2": unknown level of qos; known: 0 and 1'),
        ("qos", '--only: "qos": must be factor=level, such as qos=1'),
        ("broker=opt", '--only: "broker=opt": this broker is left out here: not installed'),
    ],
)
def test_only_refuses_what_the_plan_has_not(text, message):
    plan = make_plan(STUDY, missing={"opt": "not installed"})
    with pytest.raises(StudyError) as caught:
        only(plan, [text])

    assert caught.value.message == message


def test_only_names_all_that_is_wrong():
    with pytest.raises(StudyError) as caught:
        only(make_plan(STUDY, missing={}), ["qoss=1", "broker=onne"])

    assert len(caught.value.problems) == 2


def test_plan_json_holds_every_run_and_no_fact_of_the_machine():
    text = plan_json(make_plan(STUDY, missing={"opt": "not in /usr/sbin of this machine"}), STUDY)
    content = json.loads(text)

    assert len(content["runs"]) == 24
    assert content["cells"][0]["workload"]["payload_bytes"] == 64
    assert content["left_out"] == ["opt"]
    assert "/usr/sbin" not in text


def test_plan_json_changes_with_the_study():
    other = replace(STUDY, analysis=replace(STUDY.analysis, confidence_percent=90.0))

    first, second = (json.loads(plan_json(make_plan(study, missing={}), study)) for study in (STUDY, other))
    assert first["study_digest"] != second["study_digest"]
    assert first["runs"] == second["runs"]


def test_plan_json_is_the_same_in_every_process():
    """Another hash seed gives another order of sets and dictionaries of texts, which must not show."""
    script = (
        "from brokerlab.presets import preset_path; from brokerlab.study.facts import DriverFacts\n"
        "from brokerlab.study.file import read_study; from brokerlab.study.plan import make_plan, plan_json\n"
        "drivers = {name: DriverFacts() for name in ('amqtt', 'rumqttd', 'nats', 'mosquitto')}\n"
        "study = read_study(preset_path('first-light'), drivers=drivers)\n"
        "print(plan_json(make_plan(study, missing={}), study), end='')\n"
    )

    def output(hash_seed):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout

    assert output("1") == output("2")


def test_derived_seed_is_fixed_by_its_names():
    """A change here would change the order of every study that has been run."""
    assert derived_seed(7, "order", 1, "broker-amqtt.qos-0") == 3789895224165685
    assert derived_seed(7, "order", 11) != derived_seed(7, "order", 1, 1)
    assert derived_seed(7, "a") != derived_seed(7, "b")
    assert derived_seed(7, "a") != derived_seed(8, "a")


LEVELS = {
    "qos": st.integers(0, 2),
    "payload": st.integers(16, 10**8),
    "rate": st.floats(1e-6, 1e9),
    "publishers": st.integers(1, 100_000),
    "subscribers": st.integers(1, 100_000),
    "window": st.integers(1, 65_535),
}


def factor_of(name):
    return st.lists(LEVELS[name], min_size=1, max_size=3, unique=True).map(lambda levels: Factor(name, tuple(levels)))


FACTOR_SETS = st.lists(st.sampled_from(sorted(LEVELS)), unique=True, max_size=3).flatmap(
    lambda names: st.tuples(*(factor_of(name) for name in names))
)


@IN_ANY_TIME
@given(factors=FACTOR_SETS, seed=st.integers(0, 2**53 - 1), repetitions=st.integers(1, 3))
def test_plan_is_deterministic_and_its_cells_are_distinct_safe_paths(factors, seed, repetitions):
    study = make_study(*factors, seed=seed, repetitions=repetitions)
    plan, again = make_plan(study, missing={}), make_plan(study, missing={})

    assert plan_json(plan, study) == plan_json(again, study)
    assert len({cell.id for cell in plan.cells}) == len(plan.cells)
    assert sorted(run.order for run in plan.runs) == list(range(1, len(plan.cells) * repetitions + 1))
    safe = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert all(set(cell.id) <= safe and len(cell.id) < 255 for cell in plan.cells)


@IN_ANY_TIME
@given(name=st.sampled_from(sorted(LEVELS)), data=st.data())
def test_level_is_understood_as_it_is_shown(name, data):
    level = data.draw(LEVELS[name])
    kind = FACTORS[name]

    assert kind.parse(str(kind.written(level))) == level
