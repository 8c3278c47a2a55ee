"""Models, sheets and what is wrong with them (M-02, M-03, M-11, M-13, M-17, M-18, F-04)."""

from pathlib import Path

import pytest

from brokerlab.brokers.registry import DRIVERS
from brokerlab.brokers.source import Elsewhere
from brokerlab.errors import UserError
from brokerlab.published.library import published
from brokerlab.quality.form import csv_form, yaml_form
from brokerlab.quality.model import read_model
from brokerlab.quality.sheet import read_sheets
from brokerlab.quality.study import shipped_sheets
from brokerlab.study.problems import StudyError

MODEL = read_model()


def sheet(answers="", *, head="sheet: a\nrater: me\n"):
    """A sheet in which everything is unknown but what is given."""
    given = dict(line.split(": ", 1) for line in answers.splitlines())
    lines = [f"  {name}: {given.pop(name, 'unknown')}" for name in MODEL.ids]
    return head + "answers:\n" + "\n".join([*lines, *(f"  {name}: {text}" for name, text in given.items())]) + "\n"


def read(tmp_path: Path, *texts, suffix=".yaml"):
    for number, text in enumerate(texts):
        (tmp_path / f"{number}{suffix}").write_text(text)
    return read_sheets([tmp_path], model=MODEL, name="set")


def test_the_default_model_is_table_2_of_paper_000():
    """M-02, M-11."""
    printed = published("000/table2").rows

    assert [
        (each.title, each.characteristic, each.subcharacteristic, each.group, str(each.roof)) for each in MODEL.features
    ] == [
        (
            row["feature"],
            row["iso25010_characteristic"],
            row["iso25010_subcharacteristic"],
            row["group"],
            row["likert_roof"],
        )
        for row in printed
    ]


def test_a_model_of_ones_own_is_a_file(tmp_path):
    text = """\
model: mine
features:
  green:
    title: Energy
    characteristic: Sustainability
    subcharacteristic: Frugality
    group: technical
    anchors: {1: hungry, 2: frugal}
"""
    (tmp_path / "mine.yaml").write_text(text)

    model = read_model(str(tmp_path / "mine.yaml"))

    assert (model.name, model.ids, model.features[0].roof) == ("mine", ("green",), 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: m\nfeatures: {}\n", "a model has features"),
        ("features:\n  x: {titel: X}\n", 'unknown key; did you mean "title"'),
        (
            "features:\n  x: {title: X, characteristic: c, subcharacteristic: s, group: g, anchors: {1: a, 3: b}}\n",
            "without a gap",
        ),
    ],
)
def test_a_model_that_is_wrong_is_refused(tmp_path, text, message):
    (tmp_path / "mine.yaml").write_text(text)

    with pytest.raises(StudyError, match=message):
        read_model(str(tmp_path / "mine.yaml"))


def test_an_unknown_model_proposes_the_nearest():
    with pytest.raises(UserError, match="no quality model is called 'iso2510'") as refused:
        read_model("iso2510")

    assert "iso25010" in refused.value.hint


def test_answers_are_levels_ranges_facts_or_unknown(tmp_path):
    text = sheet("installation_easiness: 4\ndocumentation_completeness: {level: 2..4}\nqos_levels: {has: [0, 1]}")

    answers = {answer.feature: (answer.low, answer.high) for answer in read(tmp_path, text)}

    assert answers["installation_easiness"] == (4, 4)
    assert answers["documentation_completeness"] == (2, 4)
    assert answers["qos_levels"] == (2, 2)
    assert answers["protocols"] == (None, None)


@pytest.mark.parametrize(
    ("facts", "feature", "level"),
    [
        ("[linux]", "operating_systems", 1),
        ("[linux, windows, macos]", "operating_systems", 3),
        ("[java]", "programming_languages", 1),
        ("[java, go, c]", "programming_languages", 2),
        ("[]", "configuration_versatility", 1),
        ("[tls, mqtt5]", "configuration_versatility", 3),
    ],
)
def test_facts_become_levels_as_the_model_says(tmp_path, facts, feature, level):
    answers = {answer.feature: answer.low for answer in read(tmp_path, sheet(f"{feature}: {{has: {facts}}}"))}

    assert answers[feature] == level


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            "instalation_easiness: 3",
            'feature: "instalation_easiness": unknown feature of iso25010; did you mean "installation_easiness"',
        ),
        ("installation_easiness: 6", 'level: "6": a level of installation_easiness is 1 to 5'),
        ("qos_levels: 4", 'level: "4": a level of qos_levels is 1 to 3'),
        ("qos_levels: 0", "a level of qos_levels is 1 to 3"),
        ("qos_levels: true", "a level of qos_levels is 1 to 3"),
        ("documentation_completeness: {level: 4..2}", "a level of documentation_completeness is 1 to 5"),
        (
            "operating_systems: {has: [linux, window]}",
            "'window' is none of linux, windows and macos; did you mean \"windows\"",
        ),
        ("operating_systems: {has: [linux, linux]}", "a fact is listed twice"),
        ("operating_systems: {has: [linux], level: 1}", "give a level or facts, not both"),
        ("installation_easiness: {has: [apt]}", "is judged by a level from 1 to 5, not by facts"),
        ("qos_levels: {levle: 3}", 'unknown key of an answer; did you mean "level"'),
    ],
)
def test_an_answer_that_is_wrong_is_told_with_its_line(tmp_path, answers, message):
    with pytest.raises(StudyError) as refused:
        read(tmp_path, sheet(answers))

    assert message in refused.value.message
    assert f"{tmp_path}/0.yaml:" in refused.value.message


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("sheet: a\n", "rater: the key is missing: a sheet names its rater"),
        ("rater: me\n", "sheet: the key is missing: a sheet names the broker"),
        ("sheet: a\nrater: measured\n", "stands for what brokerlab measures"),
        ("sheet: a\nrater: me\nround: 0\n", "a round is a whole number from 1"),
        ("sheet: a\nrater: me\nreter: you\n", 'unknown key of a sheet; did you mean "rater"'),
    ],
)
def test_a_sheet_that_names_nobody_is_refused(tmp_path, head, message):
    with pytest.raises(StudyError, match=message):
        read(tmp_path, sheet(head=head))


def test_a_broker_twice_is_refused_with_both_places(tmp_path):
    with pytest.raises(StudyError) as refused:
        read(tmp_path, sheet(), sheet())

    assert refused.value.message.count("the broker is there twice") == 1
    assert f"{tmp_path}/0.yaml has it too, by rater 'me' in round 1" in refused.value.message


def test_several_raters_and_rounds_are_not_twice(tmp_path):
    heads = ("sheet: a\nrater: me\n", "sheet: a\nrater: you\n", "sheet: a\nrater: me\nround: 2\n")

    answers = read(tmp_path, *(sheet(head=head) for head in heads))

    assert len({(answer.rater, answer.round) for answer in answers}) == 3


def test_a_feature_without_an_answer_is_told(tmp_path):
    with pytest.raises(StudyError, match=r"no answer about .*protocols; `unknown` is one"):
        read(tmp_path, "sheet: a\nrater: me\nanswers: {qos_levels: 3}\n")


def test_csv_sheets_say_the_same(tmp_path):
    rows = ["broker,version,rater,round,feature,level,has,source,because"]
    rows += [f"a,1,me,1,{name},unknown,,," for name in MODEL.ids if name != "operating_systems"]
    rows += ["a,1,me,1,operating_systems,,linux;macos,x,"]

    answers = {answer.feature: answer for answer in read(tmp_path, "\n".join(rows), suffix=".csv")}

    assert (answers["operating_systems"].low, answers["operating_systems"].facts) == (2, ("linux", "macos"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,1,,1,qos_levels,3,,,", "rater: the column is empty: every answer names its rater"),
        ("a,1,me,1,qos_level,3,,,", 'did you mean "qos_levels"'),
        ("a,1,me,1,qos_levels,6,,,", '0.csv:2: level: "6": a level of qos_levels is 1 to 3'),
    ],
)
def test_a_csv_row_that_is_wrong_is_told_with_its_line(tmp_path, row, message):
    with pytest.raises(StudyError) as refused:
        read(tmp_path, f"broker,version,rater,round,feature,level,has,source,because\n{row}\n", suffix=".csv")

    assert message in refused.value.message


def test_a_form_is_a_sheet_in_which_nothing_is_known(tmp_path):
    text = yaml_form(MODEL, broker='a "b"', version="", rater="me", number=2, known={"qos_levels": ["0", "1"]})

    answers = {answer.feature: answer for answer in read(tmp_path, text)}

    assert {answer.low for name, answer in answers.items() if name != "qos_levels"} == {None}
    assert (answers["qos_levels"].low, answers["qos_levels"].broker, answers["qos_levels"].round) == (2, 'a "b"', 2)
    assert "very satisfactory" in text


def test_a_form_for_several_brokers_is_one_table(tmp_path):
    text = csv_form(MODEL, brokers={"a": "1", "b": ""}, rater="me", number=1, known={})

    assert {answer.broker for answer in read(tmp_path, text, suffix=".csv")} == {"a", "b"}


def test_every_broker_that_can_be_started_has_a_sheet_with_a_source_for_every_answer():
    answers = read_sheets([shipped_sheets()], model=MODEL, name="today")

    startable = {name for name, driver in DRIVERS.items() if not isinstance(driver.source, Elsewhere)}
    assert {answer.broker for answer in answers} == {name.split("@")[0] for name in startable} - {"scripted"}
    assert [answer for answer in answers if answer.low is not None and not answer.source] == []
    assert [answer for answer in answers if answer.low is None and not answer.because] == []
