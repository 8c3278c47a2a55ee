"""One good run among all kinds of bad ones: everything is told, and the good one comes out."""

import fcntl
import os

import pytest
from pipeline_example import plain
from pipeline_runs import RunBuilder, new_study, publication

from brokerlab.errors import UserError
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.tables import read_table

pytestmark = pytest.mark.pipeline


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def raw(lost=0):
    messages = plain(lost)
    return {"publications": {"p": messages["publications"]}, "deliveries": {"s": messages["deliveries"]}}


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory, spark):
    study = new_study(tmp_path_factory.mktemp("damage"))
    RunBuilder(repetition=1).write(study, **raw())
    cut(RunBuilder(repetition=2).write(study, **raw()).files("deliveries")[0])
    cut(RunBuilder(repetition=3).write(study, **raw()).files("publications")[0])
    sample = {"node": "broker/0", "process": 1, "at_ns": 0, "cpu_ns": 0, "rss_bytes": 0}
    RunBuilder(repetition=4).write(study, **raw(), resources={"r": [sample]}).files("resources")[0].write_bytes(b"")
    RunBuilder(repetition=5, verdict=None, without=("phases", "meter")).write(study, **raw(lost=1))
    RunBuilder(repetition=6, verdict=None, without=("clients", "phases", "meter")).write(study)
    RunBuilder(repetition=7, verdict=None, folder="1.cut-1").write(study)
    RunBuilder(repetition=8).write(study).manifest_path.write_text('{"format": 1, "ru')
    collapsed = {"value": "collapsed", "reasons": ["the broker closed all connections"]}
    RunBuilder(repetition=9, verdict=collapsed).write(study, **raw(lost=9))
    RunBuilder(cell="refused", subscribers={0: ("t/#", 128), 1: ("t/#", 0)}).write(study, **raw())
    (study.tables / ".analysis" / "partials").mkdir(parents=True)  # left by an analysis that was killed
    (study.tables / "runs").mkdir()
    return study, analyze(spark, study)


@pytest.fixture(scope="module")
def results(analyzed):
    return analyzed[0]


def column(results, table, name):
    return {
        row["run_id"].removeprefix("broker-amqtt.qos-0/"): row[name] for row in read_table(results, table).to_pylist()
    }


def test_summary_tells_verdicts_and_the_broken_manifest(analyzed):
    _, summary = analyzed

    assert (summary.runs, summary.valid, summary.invalid, summary.collapsed) == (9, 2, 6, 1)
    assert len(summary.problems) == 1
    assert "broker-amqtt.qos-0/8/manifest.json" in summary.problems[0]


def test_every_run_with_a_manifest_has_a_verdict(results):
    assert column(results, "runs", "verdict") == {
        "1": "valid", "1.cut-1": "invalid", "2": "invalid", "3": "invalid", "4": "invalid", "5": "invalid",
        "6": "invalid", "9": "collapsed", "refused/1": "valid",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ("2", "deliveries/s-00000.parquet cannot be read"),
        ("3", "publications/p-00000.parquet cannot be read"),
        ("4", "resources/r-00000.parquet cannot be read"),
        ("5", "cut off: "),
        ("6", "cut off: "),
        ("1.cut-1", "cut off: "),
        ("9", "the broker closed all connections"),
    ],
)
def test_the_reason_names_what_is_wrong_once(results, run, reason):
    (told,) = column(results, "runs", "reasons")[run]

    assert told.startswith(reason)


def test_runs_with_unreadable_files_are_in_no_other_table(results):
    readable = {"1", "1.cut-1", "5", "9", "refused/1"}

    assert set(column(results, "delivery", "lost")) == readable
    assert set(column(results, "latency", "n")) == set(column(results, "throughput", "seconds")) == readable - {"5"}


def test_the_good_run_comes_out(results):
    assert column(results, "delivery", "delivered")["1"] == 10
    assert column(results, "delivery", "verdict")["1"] == "kept"


def test_a_cut_off_run_is_counted_but_accuses_nobody(results):
    assert column(results, "delivery", "lost")["5"] == 1
    assert column(results, "delivery", "verdict")["5"] == "unknown"


def test_delivered_and_lost_make_expected_in_every_row(results):
    rows = read_table(results, "delivery").to_pylist()

    assert all(row["delivered"] + row["lost"] == row["expected"] for row in rows)


def test_a_refused_subscription_is_a_row_of_its_own_and_promises_nothing(results):
    rows = [row for row in read_table(results, "delivery").to_pylist() if row["cell"] == "refused"]

    assert [(row["qos_granted"], row["lost"], row["verdict"]) for row in rows] == [(0, 10, "kept"), (128, 0, "unknown")]
    assert [row["expected"] for row in rows] == [10, 0]


def test_only_valid_runs_are_in_the_cells_and_the_others_are_counted(results):
    rows = [row for row in read_table(results, "cells").to_pylist() if row["cell"] == "broker-amqtt.qos-0"]

    assert {row["invalid_runs"] for row in rows} == {7}
    assert {row["n"] for row in rows if row["metric"].startswith("latency.")} == {1}


def test_what_a_killed_analysis_left_is_removed(results):
    assert not (results.tables / ".analysis").exists()


def test_only_unreadable_manifests_are_the_users_error(spark, study):
    RunBuilder().write(study).manifest_path.write_text("[]")

    with pytest.raises(UserError, match=r"no run can be read:\n.*manifest.json"):
        analyze(spark, study)


def test_a_second_analysis_at_the_same_time_is_refused_and_spoils_nothing(spark, study):
    RunBuilder().write(study, publications={"p": [publication(0, 2000)]}, deliveries={"s": []})
    study.tables.mkdir()
    held = os.open(study.tables, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)

    with pytest.raises(UserError, match="another analysis is at work"):
        analyze(spark, study)
    os.close(held)
