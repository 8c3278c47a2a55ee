"""Jitter, timeline and sessions, from raw rows to tables; every number can be worked out on paper."""

import pyarrow as pa
import pytest
from pipeline_runs import MS, RunBuilder, S, arrival, publication, write_rows

from brokerlab.pipeline.manifests import manifests_table, read_facts
from brokerlab.pipeline.reduce.work import pieces_of, reduce_work
from brokerlab.pipeline.schemas.families import PARTIALS
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.transforms.jitter import jitter_table
from brokerlab.pipeline.transforms.sessions import sessions_table
from brokerlab.pipeline.transforms.timeline import timeline_table

pytestmark = pytest.mark.pipeline


@pytest.fixture
def rows_of(spark):
    """The rows of one table of one run, in the order of their keys."""

    def make(table, run, *order):
        facts = read_facts(run)
        batches = [batch for work in pieces_of(facts) for batch in reduce_work(work)]
        # One chunk: createDataFrame stops at a chunk without rows.
        partials = spark.createDataFrame(pa.Table.from_batches(batches).combine_chunks(), schema=PARTIALS)
        runs = spark.createDataFrame(manifests_table([facts]), schema=MANIFESTS)
        return table(partials, runs=runs).orderBy(*order).collect()

    return make


@pytest.fixture
def flow_of(rows_of, study):
    """The jitter of a flow whose messages are due every 10 ms from 2 s on; None is a lost one."""

    def make(latencies_ms, *, order=None, **about):
        sent = [publication(seq, 2000 + 10 * seq) for seq in range(len(latencies_ms))]
        came = [(message, late) for message, late in zip(sent, latencies_ms, strict=True) if late is not None]
        run = RunBuilder(**about).write(
            study,
            publications={"p": sent},
            deliveries={"s": [arrival(*came[place]) for place in order or range(len(came))]},
        )
        (row,) = rows_of(jitter_table, run, "publisher")
        return row

    return make


def test_three_messages_on_paper(flow_of):
    """Arrivals at 5, 31 and 73 ms: 26 and 42 ms apart, mean 34, sd sqrt(128); D 16 and 32, J 1 + 31 / 16."""
    row = flow_of([5, 21, 53])

    assert (row.n, row.lost, row.interarrival_mean_ms, row.outcome) == (3, 0, 34.0, "ok")
    assert row.interarrival_sd_ms == pytest.approx(128**0.5)
    assert row.rfc3550_ms == pytest.approx(2.9375)
    assert (row.monotone_growth, row.growth_ms_per_message, row.blocks) == (False, 24.0, 0)


def test_one_message_has_no_rhythm(flow_of):
    row = flow_of([5])

    assert (row.n, row.interarrival_mean_ms, row.interarrival_sd_ms, row.rfc3550_ms) == (1, None, None, None)
    assert (row.monotone_growth, row.growth_p, row.blocks, row.outcome) == (None, None, 0, "ok")


@pytest.mark.parametrize(
    ("latencies_ms", "outcome"),
    [
        ([1] * 30, "ok"),
        ([1] * 20 + [None] + [1] * 9, "lost data"),
        ([1] * 20 + [4487] + [1] * 9, "temporary block"),
        (list(range(1, 31)), "growing"),
        ([*range(1, 30), None], "lost data"),
        ([None] * 3, "lost data"),
    ],
)
def test_outcomes(flow_of, latencies_ms, outcome):
    assert flow_of(latencies_ms).outcome == outcome


def test_a_collapsed_run_is_a_collapse_whatever_arrived(flow_of):
    assert flow_of([1] * 30, verdict={"value": "collapsed", "reasons": ["it fell"]}).outcome == "collapse"


def test_a_run_that_was_cut_off_has_no_outcome(flow_of):
    assert flow_of([1, None, 1], verdict=None).outcome is None


def test_reordered_messages_count_in_the_order_of_their_arrival(flow_of):
    """Due at 0 and 10 ms, 20 and 1 ms under way: the second comes first, 9 ms before the other; D is 19."""
    row = flow_of([20, 1], order=[1, 0])

    assert (row.interarrival_mean_ms, row.growth_ms_per_message) == (9.0, 19.0)
    assert row.rfc3550_ms == pytest.approx(19 / 16)


def test_duplicates_and_warmup_are_not_in_the_rhythm(rows_of, study):
    sent = [publication(0, 1900), publication(1, 2000), publication(2, 2010)]
    arrivals = [arrival(sent[0], 1), arrival(sent[1], 1), arrival(sent[1], 2), arrival(sent[2], 1)]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": arrivals})
    (row,) = rows_of(jitter_table, run, "publisher")

    assert (row.n, row.lost, row.interarrival_mean_ms, row.rfc3550_ms) == (2, 0, 10.0, 0.0)


def test_every_flow_has_its_own_row_also_across_files(rows_of, study):
    """Two publishers × two subscribers, a file for every arrival; subscriber 1 hears nothing of publisher 1."""
    sent = {p: [publication(seq, 2000 + 10 * seq, publisher=p) for seq in range(3)] for p in (0, 1)}
    run = RunBuilder(publishers={0: "t/0", 1: "t/1"}, subscribers={0: ("t/#", 0), 1: ("t/#", 0)}).write(
        study, publications={"p": [*sent[0], *sent[1]]}
    )
    heard = [(0, 0), (0, 1), (1, 0)]
    rows = [arrival(sent[p][seq], 1 + p, subscriber=s) for seq in range(3) for s, p in heard]
    write_rows(run, "deliveries", "s", rows, rows_per_file=1)

    made = rows_of(jitter_table, run, "subscriber", "publisher")
    assert [(row.subscriber, row.publisher, row.n, row.lost, row.interarrival_mean_ms) for row in made] == [
        (0, 0, 3, 0, 10.0),
        (0, 1, 3, 0, 10.0),
        (1, 0, 3, 0, 10.0),
        (1, 1, 0, 3, None),
    ]


def test_seconds_of_a_run(rows_of, study):
    """Warm-up from 1 s, measure 2 to 4 s, drain to 5 s; one message in second 0, two in 1, none in 2, one late in 3."""
    sent = [publication(seq, at, acked=True, qos=1) for seq, at in enumerate((1500, 2100, 2200, 3990))]
    arrivals = [arrival(message, late) for message, late in zip(sent, (1, 2, 2, 500), strict=True)]
    cpu = [(1, 0), (2, 100), (4, 500)]
    samples = [
        {"node": "broker/0", "process": 1, "at_ns": at * S, "cpu_ns": used * MS, "rss_bytes": 1} for at, used in cpu
    ]
    run = RunBuilder(qos=1, subscribers={0: ("t/#", 1)}).write(
        study, publications={"p": sent}, deliveries={"s": arrivals}, resources={"x": samples}
    )
    made = rows_of(timeline_table, run, "second")

    assert [(row.second, row.phase) for row in made] == [(0, "warmup"), (1, "measure"), (2, "measure"), (3, "drain")]
    assert [(row.published, row.acknowledged, row.delivered) for row in made] == [
        (1, 1, 1), (2, 2, 2), (1, 1, 0), (0, 0, 1),
    ]  # fmt: skip
    assert [row.latency_p50_ms for row in made] == pytest.approx([1.0, 2.0, None, 500.0])
    assert [row.latency_p99_ms for row in made] == pytest.approx([1.0, 2.0, None, 500.0])
    assert [row.schedule_lag_p99_ms for row in made] == pytest.approx([0.1, 0.1, 0.1, None])
    assert [row.broker_cpu_percent for row in made] == pytest.approx([10.0, 20.0, 20.0, None])


def test_a_second_of_two_workers_is_merged(rows_of, study):
    """Ninety-nine arrivals of 1 ms and one of 50 ms: the median is 1 ms, and p99 too."""
    sent = [publication(seq, 2000 + seq) for seq in range(100)]
    late = [50 if seq == 7 else 1 for seq in range(100)]
    arrivals = {
        f"s{worker}": [arrival(sent[seq], late[seq], subscriber=worker) for seq in range(worker, 100, 2)]
        for worker in (0, 1)
    }
    run = RunBuilder(subscribers={0: ("t/#", 0), 1: ("t/#", 0)}).write(
        study, publications={"p": sent}, deliveries=arrivals
    )
    second = rows_of(timeline_table, run, "second")[1]

    assert (second.delivered, second.published, second.acknowledged) == (100, 100, None)
    assert (second.latency_p50_ms, second.latency_p99_ms) == pytest.approx((1.0, 1.0), rel=0.01)


def test_a_run_without_messages_has_its_seconds_and_one_without_phases_has_none(rows_of, study):
    idle = RunBuilder().write(study)
    early = RunBuilder(repetition=2, phases={"connect": (0.0, 0.5)}).write(study)

    assert [(row.published, row.delivered) for row in rows_of(timeline_table, idle, "second")] == [(0, 0)] * 4
    assert rows_of(timeline_table, early, "second") == []


def test_sessions_of_a_run(rows_of, study):
    """Connecting takes half a second, in which three CONNACKs come, one of them a refusal."""
    events = [
        {"event": "connack", "at_ns": 100 * MS, "latency_ns": 3 * MS, "reason_code": 0},
        {"event": "connack", "at_ns": 200 * MS, "latency_ns": 1 * MS, "reason_code": 5},
        {"event": "connack", "at_ns": 300 * MS, "latency_ns": 2 * MS, "reason_code": 0},
        {"event": "suback", "at_ns": 600 * MS, "latency_ns": 4 * MS, "granted_qos": 2, "reason_code": 2},
        {"event": "suback", "at_ns": 700 * MS, "latency_ns": 6 * MS, "granted_qos": 128, "reason_code": 128},
        {"event": "disconnect", "at_ns": 5200 * MS},
        {"event": "disconnect failed: Broken pipe", "at_ns": 5300 * MS, "reason_code": 32},
        {"event": "closed by broker", "at_ns": 9 * S},
    ]
    run = RunBuilder().write(study, sessions={"a": events[:3], "b": events[3:]})
    made = {row.event: row for row in rows_of(sessions_table, run, "event")}

    connack, suback = made["connack"], made["suback"]
    assert (connack.n, connack.failures, connack.per_s) == (3, 1, 6.0)
    assert (connack.latency_p50_ms, connack.latency_p99_ms, connack.latency_max_ms) == (2.0, 3.0, 3.0)
    assert (suback.n, suback.failures, suback.latency_p50_ms, suback.per_s) == (2, 1, 4.0, 4.0)
    assert (made["disconnect"].failures, made["disconnect"].latency_max_ms) == (0, None)
    assert made["disconnect failed: Broken pipe"].failures == 1
    assert (made["closed by broker"].failures, made["closed by broker"].per_s) == (1, None)


def test_a_damaged_session_file_makes_a_problem(study):
    run = RunBuilder().write(study, sessions={"a": []})
    (run.raw("sessions")).mkdir(exist_ok=True)
    (run.raw("sessions") / "a-00000.parquet").write_bytes(b"PAR1 no more")
    rows = [row for work in pieces_of(read_facts(run)) for batch in reduce_work(work) for row in batch.to_pylist()]

    assert [row["problem"]["reason"].split(":")[0] for row in rows if row["problem"]] == [
        "sessions/a-00000.parquet cannot be read"
    ]
