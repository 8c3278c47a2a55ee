"""Limits on a node: what is read, what is refused, how it is written back, and what a cell gets."""

import json

import pytest

from brokerlab.study.limit_values import Limits
from brokerlab.study.plan import make_plan, plan_json
from brokerlab.study.problems import StudyError
from brokerlab.study.written import study_yaml


def limited(text, limits):
    return text.replace("metrics:", f"  limits: {limits}\nmetrics:")


@pytest.mark.parametrize(
    ("written", "limits"),
    [
        ("{cpus: 0.5}", Limits(cpus=0.5)),
        ("{cpus: 2}", Limits(cpus=2)),
        ("{cores: [1, 0]}", Limits(cores=(0, 1))),
        ("{memory: 256 MB, swap: 0 B}", Limits(memory_bytes=256_000_000, swap_bytes=0)),
        ("{cpus: 0.25, cores: [3], memory: 64 MiB}", Limits(cpus=0.25, cores=(3,), memory_bytes=64 << 20)),
    ],
)
def test_limits_are_read_and_read_back_equal(read, small, written, limits):
    study = read(limited(small, written))

    assert study.system.limits == limits
    assert read(study_yaml(study)) == study
    assert {cell.limits for cell in make_plan(study, missing={}).cells} == {limits}


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("{cpus: 0}", "must be a number of cores from 0.01"),
        ("{cpus: true}", "must be a number of cores"),
        ("{cores: []}", "must be a list of core numbers"),
        ("{cores: [0, 0]}", "names a core twice"),
        ("{memory: 256}", 'a size needs its unit: write "256 B"'),
        ("{memory: 1 kB}", "must be from 1 MiB"),
        ("{swap: 0 B}", "swap is limited beside memory"),
        ("{cpu: 1}", 'did you mean "cpus"'),
    ],
)
def test_an_impossible_limit_is_refused(read, small, written, rule):
    with pytest.raises(StudyError) as caught:
        read(limited(small, written))

    assert rule in caught.value.message


def test_limits_as_factors_go_before_the_ones_of_the_system(read, small):
    text = limited(small, "{cpus: 2, memory: 1 GB}") + "    cpus: [0.5, 1]\n    memory: [64 MB]\n"
    study = read(text)
    plan = make_plan(study, missing={})

    assert read(study_yaml(study)) == study
    assert {cell.limits for cell in plan.cells} == {
        Limits(cpus=0.5, memory_bytes=64_000_000),
        Limits(cpus=1, memory_bytes=64_000_000),
    }
    assert plan.cells[0].id == "broker-one.qos-0.cpus-0_5.memory-64MB"
    assert len(make_plan(study, missing={}, keep=["cpus=0.5", "memory=64 MB"]).cells) == 4


def test_a_plan_without_limits_does_not_speak_of_them(read, small):
    study = read(small)

    assert "limits" not in study_yaml(study)
    assert "limits" not in json.loads(plan_json(make_plan(study, missing={}), study))["cells"][0]
