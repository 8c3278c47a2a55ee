"""The section on jitter: flows by outcome, failed events of sessions, and nothing where there are no rows."""

from dataclasses import replace

from report_values import cell_id, results_of

from brokerlab.report.cells import groups
from brokerlab.report.report import render
from brokerlab.report.rhythm import rhythm, session_failures

RESULTS = results_of({("nats", 0): (0.5, 0.4, 0.6)}, rank_by="jitter.rfc3550")


def flows(*outcomes):
    return tuple({"cell": cell_id("nats", 0), "outcome": outcome} for outcome in outcomes)


def test_flows_are_counted_by_outcome():
    results = replace(RESULTS, jitter=flows("ok", "ok", "lost data", "temporary block", None))
    ((row,),) = rhythm(results, groups(results)).blocks

    assert [entry.text for entry in row] == ["nats", "–", "0.500", "2", "1", "0", "1", "0"]
    assert [entry.mark for entry in row[-5:]] == ["", "warn", "quiet", "warn", "quiet"]


def test_only_events_that_failed_are_listed():
    events = ({"run_id": "a/1", "event": "connack", "n": 3, "failures": failures} for failures in (0, 1))
    ((row,),) = session_failures(replace(RESULTS, sessions=tuple(events))).blocks

    assert [entry.text for entry in row] == ["a/1", "connack", "3", "1"]


def test_no_rows_no_section():
    assert 'id="jitter"' not in render(RESULTS)
    assert 'id="jitter"' in render(replace(RESULTS, jitter=flows("ok")))
