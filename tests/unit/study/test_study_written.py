from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from brokerlab.study.file import read_study
from brokerlab.study.replay import digest
from brokerlab.study.values import (
    Analysis,
    Arrivals,
    BrokerChoice,
    Content,
    Deploy,
    Factor,
    Goals,
    Guards,
    Payload,
    Phases,
    Qos,
    Record,
    Replay,
    Scenario,
    Schedule,
    Split,
    Study,
    System,
    Topics,
    Workload,
)
from brokerlab.study.written import study_yaml

# The machine may be busy: how long an example takes says nothing here.
IN_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(lambda text: text.strip())
SECONDS = st.floats(min_value=1e-3, max_value=1000)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(-1e6, 1e6)
    | st.text("ab: #'\"{}[]-,%&*!|>0", max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b: c", "1"]), inner, max_size=2),
    max_leaves=4,
)
STUDY = Study(
    name="s",
    goals=Goals("Which?"),
    system=System((BrokerChoice("one", "amqtt"), BrokerChoice("two", "mosquitto", "tuned", optional=True))),
    metrics=("latency", "delivery"),
    scenario=Scenario(Workload(), (Factor("qos", (1, 0)), Factor("broker", ("two",)))),
)


@pytest.fixture
def reread(read):
    return lambda study: read(study_yaml(study))


def test_written_study_reads_back_equal(reread):
    assert reread(STUDY) == STUDY


def test_written_study_with_every_value_changed_reads_back_equal(reread):
    workload = Workload(
        publishers=3,
        subscribers=4,
        topics=Topics("a/{publisher}", "a/{subscriber}/#"),
        payload_bytes=1500,
        schedule=Schedule(Arrivals.CONSTANT, rate_per_s=12.5),
        qos=Qos.EXACTLY_ONCE,
    )
    study = replace(
        STUDY,
        scenario=Scenario(
            workload, (Factor("broker", ("one",)), Factor("rate", (20.5, 5000.0)), Factor("payload", (64, 2048)))
        ),
        deploy=Deploy(9, 99, Phases(0.0, 0.125, 60.0)),
        analysis=Analysis(99.9, Guards(33.3, 0.7)),
    )

    assert reread(study) == study


@pytest.mark.parametrize(
    ("size", "payload"),
    [
        (7, Payload(Content.ZEROS)),
        (200, Payload(Content.JSON, '{"seq": {seq}, "text": "a\\n: #"}')),
        (2048, Payload(Content.TEXT, mix=((0, 12.5), (2048, 87.5)))),
        (125_528, Payload(each=(125_528, 1_517, 0))),
    ],
)
def test_written_payloads_read_back_equal(reread, size, payload):
    workload = Workload(payload_bytes=size, payload=payload)
    study = replace(STUDY, scenario=Scenario(workload, (Factor("broker", ("one",)),)))

    assert reread(study) == study


@pytest.mark.parametrize("time", [None, "at: #"])
def test_written_replay_reads_back_equal(reread, tmp_path, time):
    file = tmp_path / "a file.csv"
    file.write_text('"at: #",bus\n1,a\n2.5,b\n')
    replay = Replay(str(file), digest(file.read_bytes()), Record.CSV, time=time, split=Split.KEY, key="bus")
    timing = {"rate_per_s": 7.0} if time is None else {"speed": 2.5}
    workload = Workload(payload_bytes=5, payload=Payload(replay=replay), schedule=Schedule(Arrivals.REPLAY, **timing))
    study = replace(STUDY, scenario=Scenario(workload, (Factor("broker", ("one",)),)))

    assert reread(study) == study


def test_written_saturating_study_reads_back_equal(reread):
    workload = Workload(schedule=Schedule(Arrivals.SATURATE, window=77))
    study = replace(STUDY, scenario=Scenario(workload, (Factor("broker", ("one",)), Factor("window", (5, 6)))))

    assert reread(study) == study


def test_study_is_written_readably(read, small):
    assert study_yaml(read(small)).splitlines()[:12] == [
        "brokerlab: 1",
        "study: small",
        "goals:",
        "  question: Which is faster?",
        "  rank_by: latency.p99",
        "system:",
        "  brokers:",
        "    one: {driver: amqtt, preset: stock, optional: false}",
        "    two: {driver: amqtt, preset: stock, optional: false}",
        "  ensemble: {nodes: 1, join: none}",
        "metrics: [latency]",
        "scenario:",
    ]


@example(question="a\x85\u2028\nb\ufeff", name="s", option={"a": ["\x85"]})
@IN_ANY_TIME
@given(question=TEXT, name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True), option=JSON)
def test_any_text_and_option_reads_back_equal(question, name, option, drivers):
    brokers = (BrokerChoice("two", "amqtt", options={"max_connections": option}),)
    study = replace(STUDY, name=name, goals=Goals(question), system=System(brokers))

    assert reread_from_file(study, drivers) == study


@IN_ANY_TIME
@given(seconds=SECONDS, percent=st.floats(50, 99.99), rate=st.floats(1e3, 1e9), size=st.integers(16, 10**8))
def test_any_quantity_reads_back_equal(seconds, percent, rate, size, drivers):
    workload = Workload(payload_bytes=size, schedule=Schedule(rate_per_s=rate))
    study = replace(
        STUDY,
        scenario=replace(STUDY.scenario, workload=workload),
        deploy=Deploy(phases=Phases(seconds, seconds, seconds)),
        analysis=Analysis(percent, Guards(percent, seconds)),
    )

    assert reread_from_file(study, drivers) == study


def reread_from_file(study, drivers):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(study_yaml(study), encoding="utf-8", newline="")
        return read_study(path, drivers=drivers)
