"""`--set key=value`: laid over the file, checked like the file, named in the errors."""

import pytest

from brokerlab.study.values import Arrivals, Factor, Schedule


def test_setting_replaces_a_value_of_the_file(read, small):
    study = read(small, "study=other", "scenario.variables.qos=[1]")

    assert study.name == "other"
    assert study.scenario.variables[1] == Factor("qos", (1,))


def test_setting_adds_keys_that_the_file_has_not(read, small):
    study = read(small, "deploy.repetitions=5", "scenario.workload.payload=128 B", "deploy.phases.drain=1 s")

    assert study.deploy.repetitions == 5
    assert study.deploy.phases.drain_s == 1.0
    assert study.scenario.workload.payload_bytes == 128


def test_setting_may_hold_a_mapping(read, small):
    study = read(small, "scenario.workload.schedule={arrivals: saturate, window: 7}")

    assert study.scenario.workload.schedule == Schedule(Arrivals.SATURATE, window=7)


def test_setting_value_may_hold_an_equals_sign(read, small):
    assert read(small, "goals.question=is a=b?").goals.question == "is a=b?"


def test_last_setting_of_a_key_counts(read, small):
    assert read(small, "deploy.seed=1", "deploy.seed=2").deploy.seed == 2


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("deploy.repetitons=5", '--set: deploy.repetitons: unknown key; did you mean "repetitions"?'),
        ("depoly.seed=5", '--set: depoly: unknown key; did you mean "deploy"?'),
        ("deploy.phases.measure=5", '--set: deploy.phases.measure: "5": a duration needs its unit: write "5 s"'),
        ("deploy.phases={measure: 5}", '--set: deploy.phases.measure: "5": a duration needs its unit: write "5 s"'),
        ("deploy.seed", '--set: "deploy.seed": must be key=value, such as deploy.repetitions=5'),
        ("=5", '--set: "=5": must be key=value, such as deploy.repetitions=5'),
        ("deploy..seed=5", '--set: "deploy..seed=5": must be key=value, such as deploy.repetitions=5'),
        ("deploy.seed=", "--set: deploy.seed: is empty: give it a value, or leave the key out"),
        ("study.name=x", "--set: study.name: study is not a mapping in FILE; set it whole"),
        ("metrics=[quality]", '--set: metrics[0]: "quality": this metric is not available yet; '),
        ("scenario.workload.qos=1", '--set: scenario.workload.qos: "1": has no effect, because '),
        ("metrics=[latency", '--set: metrics: "[latency": not valid YAML: '),
        ("deploy={seed: 1, seed: 2}", "--set: deploy.seed: the key is already there"),
    ],
)
def test_wrong_setting_is_named_as_such(problems, small, setting, message, tmp_path):
    (problem,) = problems(small, setting)

    assert str(problem).replace(str(tmp_path / "study.yaml"), "FILE").startswith(message)
    assert problem.line is None


def test_problems_of_file_and_settings_come_together(problems, small):
    found = problems(small.replace("study: small", "study: a/b"), "deploy.seed=-1", "deploy.x=1")

    assert [problem.file.rpartition("/")[2] for problem in found] == ["study.yaml", "--set", "--set"]
