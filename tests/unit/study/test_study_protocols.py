"""Versions of MQTT in a study: as the one value of the workload, and as a factor."""

import dataclasses

import pytest

from brokerlab.study.factors import FACTORS
from brokerlab.study.file import read_study
from brokerlab.study.values import Factor, Workload


@pytest.fixture
def read_modern(tmp_path, drivers, small):
    """Reads the small study, whose brokers speak every version."""
    modern = {**drivers, "amqtt": dataclasses.replace(drivers["amqtt"], protocols=("3.1", "3.1.1", "5.0"))}
    path = tmp_path / "study.yaml"
    path.write_text(small, encoding="utf-8")
    return lambda *settings: read_study(path, settings=settings, drivers=modern)


@pytest.mark.parametrize("written", ["5", "5.0", '"5"', '"5.0"'])
def test_mqtt_5_has_one_name_however_it_is_written(read_modern, written):
    study = read_modern(f"scenario.workload.protocol={written}")

    assert study.scenario.workload.protocol == "5.0"


def test_protocol_is_a_factor(read_modern):
    study = read_modern("scenario.variables.protocol=[3.1.1, 5.0]")

    assert Factor("protocol", ("3.1.1", "5.0")) in study.scenario.variables
    assert FACTORS["protocol"].apply(Workload(), "5.0").protocol == "5.0"
    assert [FACTORS["protocol"].label(level) for level in ("3.1.1", "5.0")] == ["3_1_1", "5_0"]
