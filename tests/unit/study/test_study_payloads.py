"""What payloads allow beside them: a search, publishers without a record, a start by message."""

from dataclasses import replace

import pytest

from brokerlab.study.file import read_study
from brokerlab.study.problems import StudyError
from brokerlab.study.values import Start

SEARCH = "schedule: {arrivals: search, p99: 10 ms, from: 10/s, to: 90/s}"
JSON = """payload: {content: json, template: '{"seq": {seq}, "at": {intended_ns}}'}"""
SLOW = "schedule: {rate: 1/s}"  # a few records last beyond the warm-up
RATES = "    rate: [5/s, 9/s]\n"
NEEDS = "a search needs messages that begin with their intended time, which takes 16 B, and"


def with_keys(text, *keys, variables=""):
    workload = "".join(f"    {line}\n" for line in keys)
    return text.replace("scenario:\n", f"scenario:\n  workload:\n{workload}") + variables


@pytest.fixture
def records(tmp_path):
    """Writes records.csv beside the study: three buses, five records."""
    rows = ["bus,n", "a,1", "b,2", "c,3", "a,4", "b,5"]
    (tmp_path / "records.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return "records.csv"


@pytest.fixture
def read_shared(tmp_path, drivers):
    """Reads a text as a study whose broker has shared subscriptions."""

    def reader(text):
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return read_study(path, drivers={**drivers, "amqtt": replace(drivers["amqtt"], has_shared_subscriptions=True)})

    return reader


@pytest.mark.parametrize(
    ("keys", "variables", "said"),
    [
        ([JSON], "", f"workload.payload.template: {NEEDS} JSON does not: take another content"),
        (
            [JSON.replace("content: json, ", "")],
            "    content: [random, json]\n",
            f'variables.content[1]: "json": {NEEDS} JSON does not: leave this level out',
        ),
        (
            ["payload: {file: records.csv, record: csv}"],
            "",
            f'workload.payload.file: "records.csv": {NEEDS} records of a file are sent as they are',
        ),
    ],
    ids=["json", "json as a level", "file"],
)
def test_a_search_is_refused_where_messages_do_not_hold_their_time(problems, small, records, keys, variables, said):
    (found,) = problems(with_keys(small, SEARCH, *keys, variables=variables))

    assert f"scenario.{said}" in str(found)


@pytest.fixture
def templates(tmp_path):
    """Writes two templates beside the study: t.json, whose messages have 46 B, and named.json, of 67 B."""
    (tmp_path / "t.json").write_text('{"seq": {seq}, "at": {intended_ns}}  \n', encoding="utf-8")
    named = '{"seq": {seq}, "at": {intended_ns}, "publisher": {publisher}}'
    (tmp_path / "named.json").write_text(named, encoding="utf-8")


OF_FILE = "payload: {content: json, template: t.json}"
TOLD_APART = "without {publisher} the 3 publishers of one topic cannot be told apart"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([OF_FILE], None),
        (["payload: {content: json, template: t.json, size: 46 B}"], None),
        (["payload: {content: json, template: t.json, size: 45 B}"], "is less than the 46 B of the template"),
        (["payload: {content: json, template: none.json, size: 1 B}"], "no such file"),
        ([OF_FILE, "publishers: 3", "topics: {publish: one, subscribe: one}"], TOLD_APART),
        ([OF_FILE.replace("t.json", "named.json"), "publishers: 3", "topics: {publish: one, subscribe: one}"], None),
    ],
    ids=["sound", "room", "no room", "no file", "one topic", "named"],
)
def test_rules_see_the_text_of_a_template_in_a_file(read, problems, small, templates, keys, said):
    text = with_keys(small, *keys)
    if said is None:
        read(text)
    else:
        (found,) = problems(text)
        assert said in str(found)


def test_a_folder_is_no_file(problems, small):
    found = problems(with_keys(small, "payload: {file: .}"))

    assert any("is a folder, not a file" in str(problem) for problem in found)


@pytest.mark.parametrize(
    ("more", "most", "said"),
    [
        ("", 5, None),
        ("", 6, "the file has 5 records for 6 publishers: 1 would have no record to repeat"),
        (", split: key, key: bus", 3, None),
        (", split: key, key: bus", 5, "the file has 3 values of bus for 5 publishers: 2 would have no record"),
    ],
)
def test_who_repeats_a_file_must_have_a_record_of_it(read, problems, small, records, more, most, said):
    payload = f"payload: {{file: {records}, record: csv, repeat: true{more}}}"
    text = with_keys(small, payload, variables=f"    publishers: [1, {most}]\n")

    if said is None:
        assert read(text).scenario.workload.payload.replay.repeat
    else:
        (found,) = problems(text)
        assert f'payload.repeat: "true": {said}' in str(found)


def test_a_replay_that_a_message_starts_may_have_its_rate_among_the_variables(read, small, records):
    keys = ["start: control", f"payload: {{file: {records}, record: csv}}", "schedule: {arrivals: replay}"]

    assert read(with_keys(small, *keys, variables=RATES)).scenario.workload.start is Start.CONTROL


@pytest.mark.parametrize(
    ("schedule", "more", "is_left"),
    [
        ("{rate: 4.1/s}", "", False),  # a warm-up of 1 s: the fifth of them is due after 4/4.1 s
        ("{rate: 4/s}", "", True),
        ("{rate: 100/s}", ", repeat: true", True),
        ("{arrivals: poisson, rate: 6/s}", "", False),
        ("{arrivals: jitter, rate: 6/s, jitter: 20 %}", "", False),
        ("{arrivals: burst, rate: 10/s, burst: 4}", "", False),
        ("{arrivals: burst, rate: 10/s, burst: 2}", "", False),
        ("{arrivals: burst, rate: 4/s, burst: 4}", "", True),
        ("{arrivals: ramp, rate: 5/s, to: 50/s}", "", False),
        ("{arrivals: ramp, rate: 1/s, to: 5/s}", "", True),
        ("{arrivals: step, rates: [9/s, 1/s]}", "", False),
        ("{arrivals: step, rates: [2/s, 90/s]}", "", True),
    ],
)
def test_a_file_that_ends_in_the_warm_up_leaves_nothing_to_measure(
    read, problems, small, records, schedule, more, is_left
):
    payload = f"payload: {{file: {records}, record: csv{more}}}"
    text = with_keys(small, payload, f"schedule: {schedule}")

    if is_left:
        assert read(text).scenario.workload.payload.replay
    else:
        (found,) = problems(text)
        assert "payload.file" in str(found)
        assert "no record is left to measure: all 5 are due in the 1 s of deploy.phases.warmup" in str(found)


def test_publishers_share_a_file_and_the_last_of_them_may_have_a_record_to_measure(read, problems, small, records):
    keys = [f"payload: {{file: {records}, record: csv, split: blocks}}", "schedule: {rate: 3/s}"]

    assert read(with_keys(small, *keys)).scenario.workload.publishers == 1
    (found,) = problems(with_keys(small, *keys, variables="    publishers: [1, 2]\n"))
    assert "no record is left to measure" in str(found)


SEVERAL = "topics: {publish: 'a/{publisher}/{topic}', count: 3, subscribe: 'a/#'}"
LISTED = "topics: {publish: 'a/{publisher}', subscribe: ['a/0', 'a/#']}"
SHARED = "topics: {share: [g]}"
CUT_UP = "with several topics, filters or groups, or a late start"


@pytest.mark.parametrize("topics", [SEVERAL, LISTED, SHARED])
@pytest.mark.parametrize(
    ("more", "payload", "said"),
    [
        ("", "{file: records.csv, record: csv}", None),
        ("", "{file: records.csv, record: csv, repeat: true}", f'payload.repeat: "true": {CUT_UP}, a record cannot be'),
        (
            "a,4\n",
            "{file: records.csv, record: csv}",
            f'payload.file: "records.csv": {CUT_UP}, records are told by their bytes alone, and 4 and 6 of the file',
        ),
    ],
    ids=["once", "repeated", "equal records"],
)
def test_records_on_several_topics_are_told_if_all_of_them_differ(
    read_shared, small, records, tmp_path, topics, more, payload, said
):
    with (tmp_path / records).open("a", encoding="utf-8") as file:
        file.write(more)
    text = with_keys(small, topics, SLOW, f"payload: {payload}")

    if said is None:
        assert read_shared(text).scenario.workload.payload.replay.file.endswith("records.csv")
    else:
        with pytest.raises(StudyError) as caught:
            read_shared(text)
        (found,) = caught.value.problems
        assert f"scenario.workload.{said}" in str(found)


ONE_TOPIC = "topics: {publish: one, subscribe: one}"
OWN_TOPIC = "topics: {publish: 'one/{publisher}', subscribe: 'one/#'}"


@pytest.mark.parametrize(
    ("topics", "publishers", "more", "rows", "said"),
    [
        (ONE_TOPIC, 2, "", "b,5", "the 2 publishers of one topic are told apart by their records alone, and 5 and 6"),
        (ONE_TOPIC, 2, ", repeat: true", "b,5", "the 2 publishers of one topic are told apart by their records alone"),
        (ONE_TOPIC, 3, ", split: blocks", "b,5", None),
        (ONE_TOPIC, 2, ", split: key, key: bus", "b,5", None),
        (ONE_TOPIC, 2, ", repeat: true", "b,6", None),
        (OWN_TOPIC, 2, ", repeat: true", "b,5", None),
        (ONE_TOPIC, 1, ", repeat: true", "b,5", None),
    ],
)
def test_equal_records_of_two_publishers_cannot_be_told_apart_on_one_topic(
    read, problems, small, records, tmp_path, topics, publishers, more, rows, said
):
    with (tmp_path / records).open("a", encoding="utf-8") as file:
        file.write(rows + "\n")
    payload = f"payload: {{file: {records}, record: csv{more}}}"
    text = with_keys(small, topics, SLOW, payload, variables=f"    publishers: [{publishers}]\n")

    if said is None:
        assert read(text).scenario.workload.payload.replay.file.endswith("records.csv")
    else:
        (found,) = problems(text)
        assert f'scenario.workload.payload.file: "records.csv": {said}' in str(found)


def test_an_empty_record_would_have_the_broker_forget_what_it_retained(problems, small, tmp_path):
    (tmp_path / "lines.txt").write_text("a\n\nb\n", encoding="utf-8")
    keys = [SLOW, "qos: 1", "retain: true", "topics: {subscribe_at: after}", "payload: {file: lines.txt}"]
    (found,) = problems(with_keys(small.replace("    qos: [0, 1]\n", ""), *keys))

    assert 'payload.file: "lines.txt": record 2 of the file is empty' in str(found)
