"""A classification as a study: seven steps, what was measured, the audit and its record (M-01, M-04 to M-06, M-10)."""

import json

import pytest

from brokerlab.errors import UserError
from brokerlab.presets import preset_path
from brokerlab.quality.answers import MEASURED, Answer
from brokerlab.quality.measured import Facts, measured_answers
from brokerlab.quality.model import read_model
from brokerlab.quality.paper import NAME, paper_answers, paper_tallies
from brokerlab.quality.record import STEPS, Audit, add_audit, add_pass, audit_of, read_record, steps_of
from brokerlab.quality.study import collected, is_classification, read_classification
from brokerlab.study.problems import StudyError

MODEL = read_model()
PRESET = preset_path("classification")


def test_the_preset_is_a_classification_of_paper_000_and_of_today():
    study = read_classification(PRESET)
    answers, tallies = collected(study, MODEL)

    assert is_classification(PRESET)
    assert {answer.sheets for answer in answers} == {NAME, "today"}
    assert tallies


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("goals.selekt=3", 'unknown key of a classification; did you mean "select"'),
        ("goals.select=0", "must be a whole number from 1"),
        ("scenario.measured=prob", 'must be drivers, probe or nothing; did you mean "probe"'),
        ("present.beside=[000/table99]", "no such published table"),
        ("analysis.least_agreement=2", "must be a number between 0 and 1"),
        (
            "metrics.performance={publish-on-queue: {correct: x}}",
            "needs metrics for the outcomes correct, incorrect and none",
        ),
        ("deploi={raters: 2}", 'unknown key; did you mean "deploy"'),
    ],
)
def test_a_classification_that_is_wrong_is_told(setting, message):
    with pytest.raises(StudyError) as refused:
        read_classification(PRESET, settings=[setting])

    assert message in refused.value.message


def test_sheets_that_are_not_there_are_told(tmp_path):
    study = read_classification(PRESET, settings=["scenario.sheets={mine: nowhere.yaml}"])

    with pytest.raises(UserError, match=r"scenario.sheets: nowhere.yaml: no such file"):
        collected(study, MODEL)


def test_paper_000_is_known_as_far_as_it_prints():
    """M-10, M-16, M-18."""
    answers = {(answer.broker, answer.feature): (answer.low, answer.high) for answer in paper_answers(MODEL)}

    assert len({broker for broker, _ in answers}) == 12
    assert answers["Mosquitto", "qos_levels"] == (3, 3)
    assert answers["Mosquitto", "protocols"] == (1, 1)
    assert answers["muMQ", "qos_levels"] == (None, None)
    assert answers["Mosquitto", "correct_functioning"] == (3, 5)  # nobody got less than regular
    assert answers["HBMQTT", "configuration_versatility"] == (5, 5)  # named in section 5.6.1


def test_printed_tallies_count_twelve_brokers_each():
    tallies = paper_tallies(MODEL)

    totals = {feature: sum(t.brokers for t in tallies if t.feature == feature) for feature in MODEL.ids}
    assert set(totals.values()) == {12}


def judged(broker="a", feature="configuration_versatility", facts=("mqtt5", "persistence")):
    return Answer("s", broker, "", "me", 1, feature, 3, 3, facts)


def test_what_was_measured_corrects_the_rater():
    facts = Facts("seen", qos=(0, 1), protocols=("3.1.1",), has_tls=True, departures=2)

    found = {answer.feature: answer for answer in measured_answers([judged()], {"a": facts}, model=MODEL)}

    assert found["qos_levels"].low == 2
    assert found["configuration_versatility"].facts == ("persistence", "tls")  # no MQTT 5 was seen, TLS was
    assert found["correct_functioning"].low == 3
    assert {answer.rater for answer in found.values()} == {MEASURED}


def test_a_broker_that_is_not_here_is_not_measured():
    assert measured_answers([judged()], {}, model=MODEL) == []


def test_too_few_raters_send_the_study_back_to_step_5():
    study = read_classification(PRESET, settings=["deploy.raters=2", "scenario.sheets={s: x}"])

    audit = audit_of(study, [judged()], [])

    assert (audit.is_satisfactory, audit.back_to) == (False, 5)


def test_raters_who_do_not_agree_send_the_study_back_to_step_3():
    """M-06."""
    study = read_classification(PRESET, settings=["scenario.sheets={s: x}"])
    agreement = [{"sheets": "s", "feature": "qos_levels", "alpha": 0.2}, {"sheets": "s", "feature": "x", "alpha": None}]

    audit = audit_of(study, [judged()], agreement)

    assert (audit.is_satisfactory, audit.back_to) == (False, 3)
    assert "alpha 0.20, less than 0.667" in audit.reasons[0]


def test_the_record_keeps_every_pass_and_every_word(tmp_path):
    """M-01, M-06."""
    study = read_classification(PRESET)
    steps = steps_of(study, MODEL, [judged()])
    add_pass(tmp_path, steps=steps, audit=Audit(True, None, (), "brokerlab"), at="2026-01-01T00:00:00+00:00")
    add_audit(tmp_path, Audit(False, 4, ("another topology",), "a reviewer"), at="2026-01-02T00:00:00+00:00")
    add_pass(tmp_path, steps=steps, audit=Audit(True, None, (), "brokerlab"), at="2026-01-03T00:00:00+00:00")

    passes = read_record(tmp_path)["passes"]
    assert [step["title"] for step in passes[0]["steps"]] == list(STEPS)
    assert [(word["satisfactory"], word["back_to"]) for one in passes for word in one["audits"]] == [
        (True, None),
        (False, 4),
        (True, None),
    ]


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"format": 99, "passes": []})])
def test_a_record_that_is_damaged_is_told(tmp_path, text):
    (tmp_path / "record.json").write_text(text)

    with pytest.raises(UserError, match=r"record\.json"):
        read_record(tmp_path)
