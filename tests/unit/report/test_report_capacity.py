"""What the report says of searches: the rate, its interval, and what is not known."""

from dataclasses import replace

import pytest
from report_values import results_of, said

from brokerlab.report.capacity import capacities
from brokerlab.report.cells import groups

pytestmark = pytest.mark.unit

PASSED, FAILED, LIMITED = True, False, None
BY_GENERATOR = "schedule lag p99: 46 ms is above 20 ms"


def table_of(trials, *, measured=PASSED, rate=None, low=0.0, high=None, **others):
    """Of one run whose trials are (asked rate, outcome)."""
    results = results_of({("mosquitto", 1): (1.0, None, None)}, runs=1)
    found = {"capacity_per_s": rate, "capacity_low_per_s": low, "capacity_high_per_s": high, "p99_limit_ms": 50.0}
    runs = tuple(row | found | others for row in results.runs)
    rows = [
        {"run_id": runs[0]["run_id"], "cell": runs[0]["cell"], "phase": phase, "asked_per_s": asked, "passed": outcome,
         "why_not": [] if outcome else [BY_GENERATOR if outcome is None else "p99 of latency: 80 ms is above 50 ms"],
         "latency_p99_ms": 40.0, "seconds": 4.0}
        for phase, (asked, outcome) in [
            *((f"trial-{number}", trial) for number, trial in enumerate(trials, 1)),
            ("measure", (rate or trials[0][0], measured)),
        ]
    ]  # fmt: skip
    results = replace(results, runs=runs, capacity=tuple(rows))
    return capacities(results, groups(results))


def entry(table, column):
    ((row,),) = table.blocks
    return row[[each.title for each in table.columns].index(column)]


def test_a_capacity_has_its_rate_and_the_interval_in_which_trials_disagreed():
    table = table_of([(10.0, PASSED), (20.0, FAILED)], measured=FAILED, rate=15.0, low=10.0, high=20.0)

    assert (entry(table, "Capacity").text, entry(table, "Capacity").below) == ("15", "10 – 20")
    assert said(table, "Trials") == ["2"]
    assert said(table, "Held when measured") == ["no"]


def test_a_broker_that_never_failed_has_a_capacity_of_at_least_what_passed():
    found = entry(table_of([(10.0, PASSED), (20.0, PASSED)], rate=20.0, low=20.0), "Capacity")

    assert (found.text, found.below, found.mark) == ("20", "at least 20", "warn")


def test_a_broker_that_failed_at_the_lowest_rate_carries_less():
    assert said(table_of([(10.0, LIMITED), (10.0, FAILED), (10.0, FAILED)], high=10.0), "Capacity") == ["below 10"]


def test_where_only_the_generator_was_the_limit_nothing_is_said_of_the_broker():
    table = table_of([(10.0, LIMITED)] * 4, verdict="invalid")

    assert said(table, "Capacity") == ["–"]
    assert said(table, "Beyond it") == [BY_GENERATOR]


def test_tables_without_a_lower_end_have_the_rate_there():
    """Those of versions before it was told apart."""
    results = results_of({("mosquitto", 1): (1.0, None, None)}, runs=1)
    runs = tuple(
        row | {"capacity_per_s": 15.0, "capacity_high_per_s": 20.0, "p99_limit_ms": 50.0} for row in results.runs
    )
    trial = {"phase": "trial-1", "asked_per_s": 15.0, "passed": True, "why_not": []}
    results = replace(results, runs=runs, capacity=({"run_id": runs[0]["run_id"], "cell": runs[0]["cell"]} | trial,))

    assert entry(capacities(results, groups(results)), "Capacity").below == "15 – 20"
