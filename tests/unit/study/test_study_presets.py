import pytest

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import DRIVERS as REGISTERED
from brokerlab.brokers.source import Elsewhere
from brokerlab.cli.studies import _facts
from brokerlab.errors import UserError
from brokerlab.presets import preset_names, preset_path
from brokerlab.quality.study import is_classification
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from brokerlab.study.replay import records_of
from brokerlab.study.written import study_yaml

DRIVERS = {name: _facts(each, Found("", "")) for name, each in REGISTERED.items()}


WITH_RUNS = [name for name in preset_names() if not is_classification(preset_path(name))]


@pytest.fixture(params=WITH_RUNS)
def preset(request):
    return request.param


def test_preset_is_a_sound_study_of_its_own_name(preset):
    assert read_study(preset_path(preset), drivers=DRIVERS).name == preset


def test_preset_reads_back_as_written(preset, tmp_path):
    study = read_study(preset_path(preset), drivers=DRIVERS)
    (tmp_path / "again.yaml").write_text(study_yaml(study))

    assert read_study(tmp_path / "again.yaml", drivers=DRIVERS) == study


def test_first_light_compares_four_brokers_in_about_four_minutes():
    plan = make_plan(read_study(preset_path("first-light"), drivers=DRIVERS), missing={})

    assert len(plan.cells) == 4 * 3
    assert len(plan.runs) == 36
    assert 180 <= plan.expected_s <= 270


def test_first_light_does_without_mosquitto():
    plan = make_plan(read_study(preset_path("first-light"), drivers=DRIVERS), missing={"mosquitto": "not installed"})

    assert len(plan.runs) == 27
    assert plan.left_out == (("mosquitto", "not installed"),)


@pytest.mark.parametrize("preset", ["brokers", "silent-loss"])
def test_studies_of_all_brokers_name_every_driver_and_need_none(preset):
    study = read_study(preset_path(preset), drivers=DRIVERS)

    to_be_had = {name for name, each in REGISTERED.items() if not isinstance(each.source, Elsewhere)}
    assert {broker.driver for broker in study.system.brokers} == to_be_had - {"scripted"}
    assert all(broker.optional for broker in study.system.brokers)


def test_silent_loss_has_every_broker_as_shipped_and_lossless_where_it_can_be():
    study = read_study(preset_path("silent-loss"), drivers=DRIVERS)

    chosen = {(broker.driver, broker.preset) for broker in study.system.brokers}
    assert chosen == {
        (driver, preset)
        for driver in {broker.driver for broker in study.system.brokers}
        for preset in ("stock", "lossless")
        if preset in DRIVERS[driver].presets
    }
    workload, phases = study.scenario.workload, study.deploy.phases
    assert workload.schedule.rate_per_s * phases.measure_s == 20_000
    assert phases.measure_s < workload.pause.for_s == 4.0


@pytest.mark.parametrize(
    ("preset", "records", "repetitions"), [("methodology", 2500, 1), ("methodology-full", 218_772, 3)]
)
def test_methodology_is_the_replay_of_paper_000_over_two_sites(preset, records, repetitions):
    """M-20 to M-22, M-24."""
    study = read_study(preset_path(preset), drivers=DRIVERS)
    workload, plan = study.scenario.workload, make_plan(study, missing={})

    assert records_of(workload.payload.replay).count == records
    assert (workload.publishers, workload.subscribers, study.scenario.topology.sites) == (1, 1, 2)
    assert set(study.deploy.captures) == {"publisher", "broker", "subscriber"}
    assert {cell.workload.qos for cell in plan.cells} == {0, 1, 2}
    assert {dict(cell.levels).get("inflight") for cell in plan.cells} == {1, 1000}
    assert study.deploy.repetitions == repetitions


@pytest.mark.parametrize(("preset", "subscribers", "every_s"), [("stress", 5, 0.5), ("stress-full", 15, 2.0)])
def test_stress_saturates_as_paper_002_does_and_has_an_a_a_pair(preset, subscribers, every_s):
    """S-02, S-05, S-12, F-21."""
    study = read_study(preset_path(preset), drivers=DRIVERS)
    workload, guards = study.scenario.workload, study.analysis.guards

    assert (workload.publishers, workload.subscribers, workload.payload_bytes) == (3, subscribers, 64)
    assert workload.probe.every_s == every_s
    assert (guards.generator_cpu_percent, guards.subscriber_cpu_percent) == (70.0, 80.0)
    drivers = [broker.driver for broker in study.system.brokers]
    assert drivers.count("mosquitto") == 2
    assert {f"002/table{number}" for number in range(6, 12)} == set(study.present.beside)


def test_unknown_preset_proposes_the_nearest():
    with pytest.raises(UserError, match='no preset is called "first-ligth"; did you mean "first-light"'):
        preset_path("first-ligth")


def test_unknown_preset_near_to_none_lists_them():
    with pytest.raises(UserError, match=r"there are: .*first-light"):
        preset_path("zzz")
