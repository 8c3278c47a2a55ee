import re

import pytest

from brokerlab.study.factors import FACTORS
from brokerlab.study.file import missing_brokers, read_study
from brokerlab.study.model import VariablesPart
from brokerlab.study.problems import StudyError
from brokerlab.study.values import Arrivals, BrokerChoice, Deploy, Factor, Guards, Phases, Qos, Schedule, Topics

WHOLE = """\
brokerlab: 1
study: gateway-choice
goals: {question: "Which, at 2,000 msg/s?", rank_by: latency.p99_9}
system:
  brokers:
    mosquitto: {driver: mosquitto, preset: tuned, optional: true}
    embedded: {driver: amqtt, options: {max_connections: 5}}
  ensemble: {nodes: 1, join: none}
  limits: {}
metrics: [latency, delivery]
scenario:
  workload:
    publishers: 10
    subscribers: 3
    topics: {publish: "plant/{publisher}", subscribe: "plant/#"}
    payload: 1 KiB
    schedule: {rate: 200/s, arrivals: constant}
    qos: 1
    protocol: 3.1.1
  variables:
    qos: [2, 0]
    broker: [embedded, mosquitto]
    rate: [30/min, 200/s]
  topology: {shape: loopback}
deploy:
  repetitions: 5
  seed: 7
  phases: {warmup: 0 s, measure: 20 s, drain: 500 ms}
  load_on: local
analysis:
  confidence: 99 %
  guards: {generator_cpu: 50 %, schedule_lag_p99: 0.5 ms}
present: {beside: []}
"""


def test_study_is_read_into_values(read):
    study = read(WHOLE)

    assert study.name == "gateway-choice"
    assert study.goals.question == "Which, at 2,000 msg/s?"
    assert study.goals.rank_by == "latency.p99_9"
    assert study.system.brokers == (
        BrokerChoice("mosquitto", "mosquitto", "tuned", optional=True),
        BrokerChoice("embedded", "amqtt", options={"max_connections": 5}),
    )
    assert study.metrics == ("latency", "delivery")
    assert study.deploy == Deploy(repetitions=5, seed=7, phases=Phases(warmup_s=0.0, measure_s=20.0, drain_s=0.5))
    assert study.analysis.confidence_percent == 99.0
    assert study.analysis.guards == Guards(generator_cpu_percent=50.0, schedule_lag_p99_ms=0.5)


def test_scenario_is_read_into_values(read):
    scenario = read(WHOLE).scenario

    assert (scenario.workload.publishers, scenario.workload.subscribers) == (10, 3)
    assert scenario.workload.topics == Topics("plant/{publisher}", "plant/#")
    assert scenario.workload.payload_bytes == 1024
    assert scenario.workload.schedule == Schedule(Arrivals.CONSTANT, rate_per_s=200.0)
    assert scenario.workload.qos is Qos.AT_LEAST_ONCE
    assert scenario.variables == (
        Factor("qos", (2, 0)),
        Factor("broker", ("embedded", "mosquitto")),
        Factor("rate", (0.5, 200.0)),
    )
    assert scenario.topology.shape == "loopback"


def test_study_without_broker_factor_varies_all_brokers(read, small):
    study = read(small.replace("    broker: [one, two]\n", ""))

    assert study.scenario.variables == (Factor("broker", ("one", "two")), Factor("qos", (0, 1)))


def test_saturating_study_is_read(read, small):
    workload = "  workload: {schedule: {arrivals: saturate, window: 20}}\n  variables:\n    window: [5, 10]\n"
    study = read(small.replace("  variables:\n", workload))

    assert study.scenario.workload.schedule == Schedule(Arrivals.SATURATE, window=20)
    assert Factor("window", (5, 10)) in study.scenario.variables


def test_aliases_are_read(read, small):
    study = read(
        small.replace("one: {driver: amqtt}", "one: &b {driver: amqtt}").replace("two: {driver: amqtt}", "two: *b")
    )

    assert [broker.driver for broker in study.system.brokers] == ["amqtt", "amqtt"]


def test_model_has_one_key_for_every_factor():
    assert list(VariablesPart.model_fields) == list(FACTORS)


def test_missing_brokers_have_their_reason(read, drivers):
    assert missing_brokers(read(WHOLE), drivers=drivers) == {"mosquitto": "mosquitto is not on the PATH"}


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("", None, "the file is empty"),
        ("# only a comment\n", None, "the file is empty"),
        ("- a\n- b\n", 1, "a study is a mapping"),
        ("# note\njust text\n", 2, "a study is a mapping"),
        ("brokerlab: 1\nstudy: [a\ngoals: {}\n", 3, r"not valid YAML: .*begun in line 2"),
        ("brokerlab: 1\n\tstudy: a\n", 2, "not valid YAML: found character '\\\\t'"),
        ("brokerlab: 1\nstudy: *nobody\n", 2, "not valid YAML: found undefined alias"),
        ("brokerlab: 1\n---\nbrokerlab: 1\n", 2, "not valid YAML"),
        ("brokerlab: \x01\n", None, "not valid YAML: unacceptable character"),
        ("[" * 5000, None, "nested too deeply"),
        ("brokerlab: 2\nnew_key: 1\n", 1, "reads study files up to version 1"),
    ],
)
def test_file_that_is_no_study_is_one_problem(problems, text, line, rule):
    (problem,) = problems(text)

    assert problem.line == line
    assert problem.file.endswith("study.yaml")
    assert re.search(rule, problem.rule)


@pytest.mark.parametrize("version", ["0", "one", "true", "1.0"])
def test_version_that_never_was_is_refused(problems, small, version):
    (problem,) = problems(small.replace("brokerlab: 1", f"brokerlab: {version}"))

    assert (problem.line, problem.key, problem.value) == (1, "brokerlab", version)


def test_missing_file_proposes_a_neighbour(tmp_path, drivers, small):
    (tmp_path / "gateway.yaml").write_text(small)
    with pytest.raises(StudyError, match=r"gatway.yaml: no such file; did you mean .*gateway.yaml"):
        read_study(tmp_path / "gatway.yaml", drivers=drivers)


def test_directory_is_refused(tmp_path, drivers):
    with pytest.raises(StudyError, match="cannot be read: Is a directory"):
        read_study(tmp_path, drivers=drivers)


def test_file_that_is_not_text_is_refused(tmp_path, drivers):
    (tmp_path / "study.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="not UTF-8"):
        read_study(tmp_path / "study.yaml", drivers=drivers)


@pytest.mark.parametrize(
    ("old", "new", "line", "rule"),
    [
        ("question: Which is faster?", "question: &q [*q]", 4, "an alias must not hold itself"),
        ("question: Which is faster?", "question: !secret x", 4, "YAML tags such as !secret are not used"),
        ("question: Which is faster?", 'question: "\\ud800"', 4, "half a surrogate pair"),
        ("metrics: [latency]", "? [a]\n: 1\nmetrics: [latency]", 9, "a key must be plain text"),
        ("qos: [0, 1]", "qos:\n    - 0\n    - .inf", 15, "must be 0, 1 or 2"),
        ("qos: [0, 1]", "<<: {qos: [0]}", 13, "unknown factor"),
    ],
)
def test_yaml_that_a_study_does_not_use_is_refused(problems, small, old, new, line, rule):
    found = problems(small.replace(old, new))

    assert [problem.line for problem in found if rule in problem.rule] == [line]


def test_key_line_is_exact_when_the_value_is_on_another(problems, small):
    (problem,) = problems(small.replace("question: Which is faster?", "question:\n\n    7"))

    assert (problem.line, problem.key, problem.value) == (4, "goals.question", "7")


def test_long_value_is_shortened_in_the_message(problems, small):
    (problem,) = problems(small.replace("study: small", f"study: {'x' * 300}"))

    assert "x" * 59 + "…" in str(problem)
    assert "x" * 60 not in str(problem).partition(";")[0]
