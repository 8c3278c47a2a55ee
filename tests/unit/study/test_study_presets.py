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


def test_unknown_preset_proposes_the_nearest():
    with pytest.raises(UserError, match='no preset is called "first-ligth"; did you mean "first-light"'):
        preset_path("first-ligth")


def test_unknown_preset_near_to_none_lists_them():
    with pytest.raises(UserError, match=r"there are: .*first-light"):
        preset_path("zzz")
