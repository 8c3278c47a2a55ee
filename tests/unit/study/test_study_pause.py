"""The pause of subscribers in a study: what is read, what is refused, and how it is written back."""

import pytest

from brokerlab.study.pause_values import Pause
from brokerlab.study.problems import StudyError
from brokerlab.study.values import Factor
from brokerlab.study.written import study_yaml


def with_keys(text, keys, *, variables=""):
    workload = "".join(f"    {line}\n" for line in keys)
    return text.replace("scenario:\n", f"scenario:\n  workload:\n{workload}") + variables


@pytest.mark.parametrize(
    ("keys", "pause"),
    [
        (["qos: 1"], None),
        (["pause: {for: 4 s}"], Pause(0.0, 4.0)),
        (["pause: {after: 500 ms, for: 0 s}"], Pause(0.5, 0.0)),
    ],
)
def test_a_pause_is_read_and_reads_back_equal(read, small, keys, pause):
    study = read(with_keys(small, keys))

    assert study.scenario.workload.pause == pause
    assert read(study_yaml(study)) == study


def test_its_duration_is_a_factor(read, small):
    study = read(with_keys(small, ["pause: {after: 1 s, for: 1 s}"], variables="    pause: [0 s, 4 s]\n"))

    assert study.scenario.variables[-1] == Factor("pause", (0.0, 4.0))
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["pause: {}"], "for"),
        (["pause: {for: 2 h}"], "from 0 s to 1 h"),
        (["pause: {for: 60 s}"], "must end before measure and drain do"),
        (["pause: {after: 30 s, for: 1 s}"], "must end before measure and drain do"),
        (["pause: {for: 1 s}", "schedule: {arrivals: saturate}"], "saturate arrivals wait for subscribers"),
        (["pause: {for: 1 s}", "role: loop"], "write one-way"),
        (["pause: {for: 1 s}", "clients: {behaviour: storm, every: 1 s}"], "a storm ends connections"),
        (["pause: {for: 1 s}", "clients: {behaviour: churn, lifetime: 1 s, who: all}"], "a churn ends connections"),
    ],
)
def test_what_does_not_go_together_is_refused(read, small, keys, said):
    with pytest.raises(StudyError) as caught:
        read(with_keys(small, keys))

    assert said in str(caught.value)
