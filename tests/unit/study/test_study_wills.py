"""Wills in a study: what is read, what is refused, and how it is written back."""

import pytest

from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.problems import StudyError
from brokerlab.study.values import Factor
from brokerlab.study.will_values import Wills
from brokerlab.study.written import study_yaml

FIVE = "protocol: '5.0'"


def with_keys(text, keys, *, variables=""):
    workload = "".join(f"    {line}\n" for line in keys)
    return text.replace("scenario:\n", f"scenario:\n  workload:\n{workload}") + variables


@pytest.fixture
def read5(tmp_path):
    """Reads a text as a study whose brokers speak MQTT 5.0 and know no QoS 2."""

    def reader(text):
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return read_study(path, drivers={"amqtt": DriverFacts(qos=(0, 1), protocols=("3.1.1", "5.0"))})

    return reader


@pytest.mark.parametrize(
    ("keys", "wills"),
    [
        (["qos: 1"], None),
        (["will: {}"], Wills()),
        (["will: {qos: 0, retain: true, share: 100 %}"], Wills(0, retain=True, share_percent=100)),
        ([FIVE, "will: {delay: 2 s}"], Wills(delay_s=2)),
        ([FIVE, "mqtt5: {session_expiry: 3 s}", "will: {delay: 2 s}"], Wills(delay_s=2)),
        ([FIVE, "mqtt5: {session_expiry: none}", "will: {delay: 2 s}"], Wills(delay_s=2)),
        (["will: {delay: 0 s}", "role: echo"], Wills()),
    ],
)
def test_wills_are_read_and_read_back_equal(read5, small, keys, wills):
    study = read5(with_keys(small, keys))

    assert study.scenario.workload.will == wills
    assert read5(study_yaml(study)) == study


def test_qos_and_delay_of_wills_are_factors(read5, small):
    levels = "    will_qos: [0, 1]\n    will_delay: [0 s, 1 s]\n"
    study = read5(with_keys(small, [FIVE, "will: {share: 20 %}"], variables=levels))

    assert study.scenario.variables[-2:] == (Factor("will_qos", (0, 1)), Factor("will_delay", (0, 1)))
    assert read5(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["will: {share: 0 %}"], 'will.share: "0 %": must be above 0 % and at most 100 %'),
        (["will: {share: 101 %}"], 'will.share: "101 %": must be above 0 % and at most 100 %'),
        (["will: {qos: 3}"], 'will.qos: "3": must be 0, 1 or 2'),
        (["will: {qos: 2}"], 'will.qos: "2": broker one (driver amqtt) has no QoS 2; it has 0 and 1'),
        (["will: {retain: 7}"], 'will.retain: "7": must be true or false'),
        (["will: {dealy: 1 s}"], 'did you mean "delay"?'),
        ([FIVE, "will: {delay: 1500 ms}"], 'will.delay: "1500 ms": must be whole seconds from 0 s to 30 min'),
        (["will: {delay: 1 s}"], 'will.delay: "1 s": a delay needs protocol: "5.0"; MQTT 3.1.1 has none'),
        (
            [FIVE, "mqtt5: {session_expiry: 5 s}", "will: {delay: 5 s}"],
            'will.delay: "5 s": the session ends after 5 s, and its will comes then: raise session_expiry',
        ),
        (["will: {}", "clients: {behaviour: per-message}"], "wills need connections that last until the load is over"),
        (["will: {}", "start: control"], "wills need publishers that start by the clock: write clock"),
        (["will: {}", "role: loop"], "wills are those of publishers, and the role loop has none"),
        (["will: {}", "topics: {subscribe: '#'}"], 'the subscribers of the load would hear the wills: "#" matches'),
        (["will: {}", "topics: {subscribe: [brokerlab/#, '+/+']}"], 'would hear the wills: "+/+" matches'),
    ],
)
def test_wills_that_cannot_be_are_refused(read5, small, keys, said):
    with pytest.raises(StudyError) as caught:
        read5(with_keys(small, keys))

    assert any(said in str(problem) for problem in caught.value.problems), caught.value.message
