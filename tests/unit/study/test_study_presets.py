import pytest

from brokerlab.errors import UserError
from brokerlab.presets import preset_names, preset_path
from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from brokerlab.study.written import study_yaml

DRIVERS = {name: DriverFacts() for name in ("amqtt", "rumqttd", "nats", "mosquitto")}


@pytest.fixture(params=preset_names())
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


def test_unknown_preset_proposes_the_nearest():
    with pytest.raises(UserError, match='no preset is called "first-ligth"; did you mean "first-light"'):
        preset_path("first-ligth")


def test_unknown_preset_near_to_none_lists_them():
    with pytest.raises(UserError, match=r"there are: .*first-light"):
        preset_path("zzz")
