"""Single messages as 003's Figures 6 and 7 draw them (C-07); every number can be worked out on paper."""

import pytest
from pipeline_runs import RunBuilder, arrival, publication
from pyspark.testing import assertSchemaEqual

from brokerlab.pipeline.manifests import read_facts, read_runs
from brokerlab.pipeline.reduce.traces import trace_rows
from brokerlab.pipeline.schemas.traces import TRACES
from brokerlab.pipeline.sources import read_traces

pytestmark = pytest.mark.pipeline


def write_flow(study, latencies_ms, *, warmup=1, order=None, **about):
    """Messages due every 10 ms from 2 s on, after some of the warm-up; None is a lost one."""
    early = [publication(seq, 1000 + seq) for seq in range(warmup)]
    sent = [publication(warmup + at, 2000 + 10 * at) for at in range(len(latencies_ms))]
    came = [(message, late) for message, late in zip(sent, latencies_ms, strict=True) if late is not None]
    rows = [arrival(message, 1) for message in early] + [arrival(*came[at]) for at in order or range(len(came))]
    return RunBuilder(**about).write(study, publications={"p": early + sent}, deliveries={"s": rows})


def told(row):
    return tuple(row[name] for name in ("place", "message", "apart_ms", "latency_ms"))


def test_a_lost_message_leaves_a_gap_and_the_warm_up_is_not_traced(study):
    """Due at 0, 10, 20 and 30 ms; come at 5, 27 and 73 ms: 22 and 46 ms apart."""
    run = write_flow(study, [5, None, 7, 43])

    rows = list(trace_rows(read_facts(run), most=10))

    assert [told(row) for row in rows] == [(1, 1, None, 5.0), (2, 3, 22.0, 7.0), (3, 4, 46.0, 43.0)]
    assert {(row["subscriber"], row["publisher"]) for row in rows} == {(0, 0)}


def test_messages_are_traced_as_they_came(study):
    run = write_flow(study, [50, 1], order=[1, 0])  # at 50 and 11 ms

    assert [told(row) for row in trace_rows(read_facts(run), most=10)] == [(1, 2, None, 1.0), (2, 1, 39.0, 50.0)]


def test_messages_due_at_one_time_have_numbers_of_their_own(study):
    """Records of a file may have the same time, and need not be in order of it; of equals the earlier sent is first."""
    due_ms = [2010, 2000, 2010, 2010]  # so numbers 2, 1, 3 and 4; the third of them is lost
    sent = [publication(seq, ms) for seq, ms in enumerate(due_ms)]
    rows = [arrival(sent[1], 1), arrival(sent[3], 2), arrival(sent[0], 5)]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": rows})

    found = [told(row) for row in trace_rows(read_facts(run), most=10)]

    assert found == [(1, 1, None, 1.0), (2, 4, 11.0, 2.0), (3, 2, 3.0, 5.0)]


def test_a_trace_ends_where_nobody_would_look_any_more(study):
    run = write_flow(study, [1] * 30)

    assert [row["place"] for row in trace_rows(read_facts(run), most=3)] == [1, 2, 3]


def test_without_knowing_which_was_lost_only_the_rhythm_is_told(study):
    """Identity by order: after a loss every message would be taken for the one before it."""
    run = write_flow(study, [5, 7, None], warmup=0, more={"identity": {"form": "order"}})

    assert [told(row) for row in trace_rows(read_facts(run), most=10)] == [
        (1, None, None, None),
        (2, None, 12.0, None),
    ]


def test_the_table_has_every_run_with_its_cell(spark, study):
    write_flow(study, [5, 6], cell="broker-a.qos-0")
    write_flow(study, [9], cell="broker-b.qos-0", order=[0])

    table = read_traces(spark, read_runs(study)[0])

    assertSchemaEqual(table.schema, TRACES)
    rows = [(row.run_id, row.cell, row.place, row.latency_ms) for row in table.collect()]
    assert rows == [
        ("broker-a.qos-0/1", "broker-a.qos-0", 1, 5.0),
        ("broker-a.qos-0/1", "broker-a.qos-0", 2, 6.0),
        ("broker-b.qos-0/1", "broker-b.qos-0", 1, 9.0),
    ]
