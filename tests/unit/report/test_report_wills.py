"""Wills in the report: how many came in time, and what broke the promise, by run."""

import pytest

from brokerlab.report.wills import wills, wills_summary

pytestmark = pytest.mark.unit


def event(run_id, name, n, time_ms=None):
    times = {f"latency_{key}_ms": time_ms for key in ("p50", "p99", "max")}
    return {"run_id": run_id, "event": name, "n": n, "failures": 0 if time_ms else n, **times}


KEPT = [event("a/1", "connack", 5, 1.0), event("a/1", "will", 5, 1.5)]
BROKEN = [event("b/1", "will", 3, 2.0), event("b/1", "will failed: missing", 2), event("b/1", "will failed: early", 1)]


def test_runs_with_wills_have_a_row_and_what_is_broken_is_said():
    ((kept, broken),) = wills(KEPT + BROKEN).blocks

    assert [entry.text for entry in kept] == ["a/1", "5", "1.5", "1.5", "1.5", "nothing"]
    assert [entry.text for entry in broken][-1] == "2 missing, 1 early"
    assert wills(KEPT[:1]).row_count == 0


def test_none_that_came_is_a_row_too():
    (((*_, said),),) = wills([event("c/1", "will failed: missing", 4)]).blocks

    assert said.text == "4 missing"


def test_the_finding_is_one_sentence():
    assert wills_summary(KEPT) == "In all 1 runs every will that was due came once, and no other."
    assert wills_summary(KEPT + BROKEN).endswith("did not keep the promise of wills. b/1: 2 missing, 1 early.")
