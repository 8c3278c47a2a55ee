import json

import pytest
from pipeline_runs import RunBuilder

from brokerlab.errors import UserError
from brokerlab.pipeline.manifests import manifests_table, places_of, read_facts, read_runs
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.manifests import MANIFESTS

pytestmark = pytest.mark.pipeline


def rewrite(run, change):
    manifest = json.loads(run.manifest_path.read_text())
    change(manifest)
    run.manifest_path.write_text(json.dumps(manifest))
    return run


def test_what_a_manifest_says(study):
    row = read_facts(RunBuilder(qos=1, order=3).write(study)).row

    assert row["run_id"] == "broker-amqtt.qos-0/1"
    assert (row["broker"], row["version"], row["qos"], row["order"]) == ("amqtt", "1.2.3", 1, 3)
    assert (row["verdict"], row["reasons"], row["is_cut_off"]) == ("valid", [], False)
    assert row["started_at"] == "2023-11-14T22:13:20.000Z"
    assert dict(row["phases"])["measure"] == 2.0
    assert (row["rate_per_s"], row["window"]) == (100.0, None)
    assert (row["schedule_lag_p99_ms"], row["generator_cpu_percent"]) == (0.4, 20.0)


def test_who_hears_devices_asks_for_the_qos_of_their_answers(study):
    def change(manifest):
        manifest["workload"] |= {"role": "echo", "echo": {"qos": 0}}

    run = RunBuilder(qos=2).write(study)
    assert read_facts(run).row["qos_asked"] == 2
    row = read_facts(rewrite(run, change)).row
    assert (row["qos"], row["qos_asked"]) == (2, 0)


@pytest.mark.parametrize(
    ("life", "is_away"),
    [
        ({"behaviour": "churn", "who": "all"}, True),
        ({"behaviour": "storm", "who": "all"}, True),
        ({"behaviour": "storm", "who": "publishers"}, False),
        ({"behaviour": "persistent", "who": "all"}, False),
    ],
)
def test_subscribers_leave_where_the_plan_says_that_all_do(study, life, is_away):
    run = rewrite(RunBuilder().write(study), lambda manifest: manifest["workload"].update(clients=life))

    assert read_facts(run).row["may_be_away"] is is_away


@pytest.mark.parametrize(("expiry_s", "may_expire"), [(None, False), (1, True), (4, True), (5, False)])
def test_a_message_may_expire_where_the_run_lasts_as_long(study, expiry_s, may_expire):
    """Warm-up, measure and drain are four seconds; who was connected longer makes no message wait."""
    run = RunBuilder().write(study)
    row = read_facts(rewrite(run, lambda m: m["workload"].update(mqtt5={"expiry_s": expiry_s}))).row

    assert row["may_expire"] is may_expire


def test_a_saturating_load_has_a_window_and_no_rate(study):
    run = rewrite(RunBuilder().write(study), lambda m: m["workload"]["schedule"].update(arrivals="saturate"))
    row = read_facts(run).row

    assert (row["arrivals"], row["rate_per_s"], row["window"]) == ("saturate", None, 500)


def test_a_window_that_the_load_found_is_the_meters(study):
    def change(manifest):
        manifest["workload"]["schedule"].update(arrivals="saturate", window="auto")
        manifest["meter"]["window"] = 256

    assert read_facts(rewrite(RunBuilder().write(study), change)).row["window"] == 256


def test_a_run_without_a_verdict_was_cut_off(study):
    row = read_facts(RunBuilder(verdict=None, without=("phases", "meter")).write(study)).row

    assert (row["verdict"], row["is_cut_off"], row["measure_start_ns"]) == ("invalid", True, None)
    assert row["reasons"] == ["cut off: the manifest has no verdict and ends with 'clients'"]


def test_a_run_cut_off_at_its_first_section_is_still_a_run(study):
    run = RunBuilder(cell="broker-x").write(study)
    run.manifest_path.write_text('{"format": 1}')
    row = read_facts(run).row

    assert (row["cell"], row["verdict"]) == ("broker-x", "invalid")
    assert manifests_table([read_facts(run)]).num_rows == 1


def test_a_run_that_was_set_aside_has_a_name_of_its_own(study):
    RunBuilder().write(study)
    RunBuilder(verdict=None, folder="1.cut-1").write(study)
    facts, problems = read_runs(study)

    assert [run.run_id for run in facts] == ["broker-amqtt.qos-0/1", "broker-amqtt.qos-0/1.cut-1"]
    assert problems == []


def test_an_unknown_verdict_is_invalid_and_says_so(study):
    row = read_facts(RunBuilder(verdict={"value": "splendid", "reasons": []}).write(study)).row

    assert row["verdict"] == "invalid"
    assert "'splendid'" in row["reasons"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["machine"].update(cores="two"),
        lambda m: m["machine"].update(cores=2**40),
        lambda m: m["clients"]["subscribers"].append({"subscriber": 0, "filter": "a"}),
        lambda m: m["clients"]["subscribers"].append({"filter": "a"}),
        lambda m: m.update(run=7),
        lambda m: m["phases"].append({"name": "more"}),
        lambda m: m["verdict"].pop("value"),
        lambda m: m["clock"].update(wall_ns="now"),
        lambda m: m["meter"]["workers"].append({"cpu_percent": "much"}),
    ],
    ids=["text", "too large", "twice", "no number", "no section", "no time", "no verdict", "no clock", "no share"],
)
def test_a_damaged_manifest_is_refused_with_its_path(study, change):
    run = rewrite(RunBuilder().write(study), change)

    with pytest.raises(UserError, match=r"runs/broker-amqtt.qos-0/1/manifest.json: the manifest is damaged"):
        read_facts(run)


def test_one_bad_manifest_does_not_stop_the_others(study):
    RunBuilder(repetition=1).write(study)
    RunBuilder(repetition=2).write(study).manifest_path.write_text("{")
    facts, problems = read_runs(study)

    assert [run.row["repetition"] for run in facts] == [1]
    assert len(problems) == 1
    assert "qos-0/2/manifest.json" in problems[0]


def test_places_count_numbers_as_numbers(study):
    for cell, repetition in (("rate-100", 1), ("rate-20", 10), ("rate-20", 2)):
        RunBuilder(cell=cell, repetition=repetition).write(study)
    places = places_of(read_runs(study)[0])

    assert places["run_id"].to_pylist() == ["rate-20/2", "rate-20/10", "rate-100/1"]
    assert places["cell"].to_pylist() == ["rate-20", "rate-100"]


def test_the_table_has_the_schema_of_spark(study):
    RunBuilder().write(study)

    assert manifests_table(read_runs(study)[0]).schema.equals(arrow_schema(MANIFESTS))
