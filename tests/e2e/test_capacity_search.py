"""A search on a broker that loses known messages: what it decided, what the tables say, and that both agree.

A busy machine may fail any trial, so no outcome is asserted but those that the script guarantees; that every step
follows from the trials before it is.
"""

from dataclasses import asdict

import pytest
from side_by_side import make_runs_side_by_side

from brokerlab.lab.search import Attempt, Outcome, found, next_rate
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.report.report import write_report
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Arrivals,
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)
from brokerlab.study.written import study_yaml
from open_guards import OPEN

pytestmark = pytest.mark.e2e

LOST = [100, 200]  # as they arrive at the broker
TERMS = Schedule(Arrivals.SEARCH, p99_ms=60_000.0, from_per_s=25.0, to_per_s=100.0, precision_percent=50.0, trial_s=0.4)
PUBLISHERS = 2


def study():
    workload = Workload(publishers=PUBLISHERS, subscribers=1, schedule=TERMS)
    return Study(
        name="search",
        goals=Goals("How much does it carry?", rank_by="capacity.rate_per_s"),
        system=System((BrokerChoice("loses", "scripted", options={"drop": LOST}),)),
        metrics=("capacity", "latency", "delivery"),
        scenario=Scenario(workload, (Factor("broker", ("loses",)), Factor("qos", (1,)))),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=0.5, drain_s=2)),
        analysis=OPEN,
    )


@pytest.fixture(scope="module")
def searched(tmp_path_factory, spark):
    results = StudyDirectory(tmp_path_factory.mktemp("search"))
    plan = make_plan(study(), missing={})
    make_runs_side_by_side(study(), plan.runs, results)
    analyze(spark, results)
    (run,) = results.runs()
    return results, run.manifest()


def attempts(manifest):
    """(those of the search, that at the rate which it found)."""
    made = [Attempt(trial["rate_per_s"], Outcome(trial["outcome"])) for trial in manifest["search"]["trials"]]
    assert [trial["phase"] == "measure" for trial in manifest["search"]["trials"]] == [False] * (len(made) - 1) + [True]
    return made[:-1], made[-1:]


def test_every_rate_follows_from_the_trials_before_it_and_the_result_from_all(searched):
    made, measured = attempts(searched[1])

    for number, attempt in enumerate(made):
        assert next_rate(made[:number], TERMS) == attempt.rate_per_s
    assert next_rate(made, TERMS) is None
    assert searched[1]["search"]["found"] == asdict(found(made, measured))
    assert searched[1]["verdict"] == {"value": "valid", "reasons": []}


def test_trials_are_phases_with_their_rate_and_the_run_measures_at_what_was_found(searched):
    phases = {phase["name"]: phase for phase in searched[1]["phases"]}
    trials = searched[1]["search"]["trials"]

    assert [trial["phase"] for trial in trials] == [f"trial-{n}" for n in range(1, len(trials))] + ["measure"]
    assert all(phases[trial["phase"]]["rate_per_s"] == trial["rate_per_s"] for trial in trials)
    assert trials[-1]["rate_per_s"] == (searched[1]["search"]["found"]["rate_per_s"] or TERMS.from_per_s)


def test_a_trial_in_which_a_message_was_lost_failed_and_says_so(searched):
    """Messages are numbered as they arrive, trial after trial, so the script says in which trial each one is lost."""
    arrived = 0
    for row in read_table(searched[0], "capacity").to_pylist():
        lost = sum(arrived < number <= arrived + row["published"] for number in LOST)
        arrived += row["published"]
        assert (row["lost"], row["acknowledged_lost"]) == (lost, lost)
        assert row["delivered"] == row["expected"] - lost
        if lost:
            assert row["passed"] is False
            assert f"{lost} of {row['expected']} deliveries did not come" in row["why_not"]
    assert arrived > max(LOST)


def test_the_tables_say_of_each_trial_what_was_decided_by(searched):
    rows = read_table(searched[0], "capacity").to_pylist()

    assert len(rows) == len(searched[1]["search"]["trials"])
    for row, trial in zip(rows, searched[1]["search"]["trials"], strict=True):
        assert (row["phase"], row["rate_per_s"]) == (trial["phase"], trial["rate_per_s"])
        assert row["asked_per_s"] == PUBLISHERS * trial["rate_per_s"]
        assert (row["published"], row["expected"]) == (trial["published"], trial["expected"])
        assert (row["latency_p50_ms"], row["latency_p99_ms"]) == pytest.approx((trial["p50_ms"], trial["p99_ms"]))
        assert row["backlog_growth_percent"] == pytest.approx(trial["backlog_growth_percent"], abs=1e-6)


def test_what_was_found_is_of_all_publishers_and_the_report_has_the_curve(searched):
    results, manifest = searched
    rate = manifest["search"]["found"]["rate_per_s"]
    (run,) = read_table(results, "runs").to_pylist()
    results.study.write_text(study_yaml(study()), encoding="utf-8")
    results.plan.write_text("{}\n", encoding="utf-8")
    page = write_report(results).read_text(encoding="utf-8")

    assert run["capacity_per_s"] == (None if rate is None else PUBLISHERS * rate)
    assert 'id="chart-load"' in page
    assert "What each search found" in page
