"""Shapes of the load in a study file (S-02, F-14): what is read, what is written back, what is refused."""

from dataclasses import replace

import pytest

from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from brokerlab.study.problems import StudyError
from brokerlab.study.values import SubscribeAt, Topics
from brokerlab.study.written import study_yaml

SHAPE = """\
brokerlab: 1
study: shapes
goals: {question: Which?}
system: {brokers: {one: {driver: DRIVER}}}
metrics: [latency]
scenario:
  workload: {publishers: 3, subscribers: 15, qos: 1, WORKLOAD}
  variables: {VARIABLES}
"""


LONG = "x" * 65_526  # with $share/a/ before it as long as a filter may be


def shape(workload, *, variables="", driver="amqtt"):
    text = SHAPE.replace("WORKLOAD", workload).replace("VARIABLES", variables)
    return text.replace("DRIVER", driver)


def test_every_key_is_read_and_written_back(read):
    study = read(
        shape(
            'topics: {publish: "p/{publisher}/{topic}", subscribe: ["p/#", "q/{subscriber}"], count: 10, depth: 9,'
            " length: 200, subscribe_at: after}, retain: true"
        )
    )

    assert study.scenario.workload.topics == Topics(
        "p/{publisher}/{topic}", ("p/#", "q/{subscriber}"), 10, 9, 200, (), SubscribeAt.AFTER
    )
    assert study.scenario.workload.retain
    assert read(study_yaml(study)) == study


def test_shared_groups_are_read_and_written_back(read_shared):
    study = read_shared(shape("topics: {share: [a, b]}"))

    assert study.scenario.workload.topics.share == ("a", "b")
    assert read_shared(study_yaml(study)) == study
    assert read_shared(shape("topics: {share: a}")).scenario.workload.topics.share == ("a",)


def test_a_group_and_its_filter_may_be_as_long_as_a_topic(read_shared):
    study = read_shared(shape(f"topics: {{share: a, subscribe: {LONG}, publish: {LONG}}}"))

    assert study.scenario.workload.topics.subscribe == LONG


def test_topics_depth_length_and_retain_are_factors(read):
    study = read(
        shape(
            'topics: {publish: "p/{publisher}/{topic}", subscribe: "p/#"}',
            variables="topics: [1, 100], depth: [4, 20], length: [100 B, 200], retain: [true, false]",
        )
    )
    cells = make_plan(study, missing={}).cells

    assert len(cells) == 16
    assert cells[-1].id == "broker-one.topics-100.depth-20.length-200B.retain-off"
    assert cells[-1].workload.topics == replace(study.scenario.workload.topics, count=100, depth=20, length_bytes=200)
    assert cells[-2].workload.retain
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("workload", "variables", "rule"),
    [
        ("topics: {count: 10}", "", "10 topics need {topic} in publish"),
        ("topics: {count: 0}", "", "must be from 1 to 1000000"),
        ("", "topics: [1, 5]", "5 topics need {topic} in publish"),
        ("topics: {depth: 1}", "", "2 levels already"),
        ("topics: {length: 5 B}", "", "give at least that"),
        ("topics: {length: 70000}", "", "must be from 1 B to 65535 B"),
        (f'topics: {{publish: a, subscribe: ["#", {LONG}/+], depth: 5}}', "", "filters has 65536 bytes"),
        ('topics: {subscribe: ["a/#", "b/#"]}', "", 'none of the filters "a/#", "b/#" matches'),
        ("topics: {share: a}", "subscribers: [1]", "has no shared subscriptions"),
        ("topics: {subscribe_at: later}", "", "unknown time to subscribe"),
        ("topics: {subscribe_at: after}", "", "needs retain: true"),
        ("topics: {subscribe_at: after}, retain: true", "qos: [0, 1]", "needs QoS 1 or 2"),
        ('topics: {subscribe_at: after, publish: "brokerlab/x"}, retain: true', "", "needs {publisher} in publish"),
        (
            "topics: {subscribe_at: after}, retain: true, schedule: {arrivals: saturate}",
            "",
            "cannot saturate or search",
        ),
        ("retain: maybe", "", "must be true or false"),
        ('payload: 8 B, topics: {subscribe: ["brokerlab/#", "x"]}', "", "messages hold their whole identity, 16 B"),
        (
            'topics: {publish: "p/{publisher}/{topic}", subscribe: "p/{publisher}/{topic}", count: 100000}',
            "",
            "would have 4500000 filters",
        ),
    ],
)
def test_impossible_shapes_are_refused(problems, workload, variables, rule):
    found = problems(shape(workload, variables=variables))

    assert [rule in problem.rule for problem in found] == [True]
    assert all(problem.line for problem in found)


@pytest.mark.parametrize(
    ("workload", "variables", "rule"),
    [
        ("topics: {share: [a, b]}", "subscribers: [1]", "2 groups for 1 subscribers"),
        ('topics: {share: a, subscribe: "brokerlab/{subscriber}"}', "", "no list and no placeholder"),
        ('topics: {share: a, subscribe: ["brokerlab/#", "x"]}', "", "no list and no placeholder"),
        ("topics: {share: a/b}", "", "a name is 1 to 64 letters"),
        ("topics: {share: [a, a]}", "", "list of different ones"),
        (f"topics: {{share: [a, bc], subscribe: {LONG}, publish: {LONG}}}", "", "$share/bc/ before it has 65536 bytes"),
        (f'topics: {{share: [a], depth: 6, subscribe: {LONG}, publish: "{LONG}"}}', "", "topics has 65536 bytes"),
        ("topics: {share: a, subscribe_at: after}, retain: true", "", "get nothing retained"),
    ],
)
def test_impossible_shares_are_refused(problems_shared, workload, variables, rule):
    (problem,) = problems_shared(shape(workload, variables=variables))

    assert rule in problem.rule


@pytest.fixture
def shared_drivers(drivers):
    return dict(drivers) | {"amqtt": replace(drivers["amqtt"], has_shared_subscriptions=True)}


@pytest.fixture
def read_shared(tmp_path, shared_drivers):
    def reader(text):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return read_study(path, drivers=shared_drivers)

    return reader


@pytest.fixture
def problems_shared(read_shared):
    def reader(text):
        with pytest.raises(StudyError) as caught:
            read_shared(text)
        return caught.value.problems

    return reader


def test_numbers_that_run_together_are_refused_with_their_place(problems):
    """Publisher 1 on topic 11 and publisher 11 on topic 1 would share a topic."""
    (found,) = problems(shape('topics: {publish: "brokerlab/{publisher}{topic}", count: 20}'))

    assert "study.yaml:7: scenario.workload.topics.publish" in str(found)
    assert 'the numbers of "{publisher}{topic}" run together' in str(found)
