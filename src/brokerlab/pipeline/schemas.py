"""Every table on disk and between jobs, once; nothing but this and families.py declares a schema.

Fields are nullable throughout, because Spark takes everything that it reads from files as nullable.
The tests hold the key columns against null.
"""

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from brokerlab.pipeline.families import BOOL, FAMILIES, INT, LONG, REAL, REAL_BY_TEXT, TEXT, TEXT_BY_TEXT, TEXTS
from brokerlab.pipeline.families import schema as _schema

PIPELINE_VERSION = 5  # raised by every change that can move numbers


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The same schema for Arrow batches on their way into Spark."""
    return to_arrow_schema(schema)


# ---- between jobs: what the manifests say -------------------------------------------------------------------

COUNTER_CLAIM = _schema(
    name=TEXT,
    count=TEXT,  # which of the counts that all brokers have: brokers/base.py
    has_proof=BOOL,  # includes the messages of the proof of readiness
    has_sys=BOOL,  # of what was sent: includes what our reader of counters was told
    why_not=TEXT,  # why it cannot be held against our count in this run; null: it can
    note=TEXT,
)

# A trial of a search, as it was decided when it was made.
TRIAL = _schema(
    trial=INT,
    phase=TEXT,
    rate_per_s=REAL,
    start_ns=LONG,
    end_ns=LONG,
    passed=BOOL,  # null: a guard of the generator was broken, so it says nothing about the broker
    why_not=TEXTS,
)

# One row per run directory whose manifest can be read.
_ABOUT_A_RUN = {
    "run_id": TEXT,
    "cell": TEXT,
    "repetition": INT,
    "order": INT,
    "broker": TEXT,
    "driver": TEXT,
    "version": TEXT,
    "qos": INT,
    "levels": TEXT_BY_TEXT,
    "verdict": TEXT,  # valid | invalid | collapsed
    "reasons": TEXTS,
    "started_at": TEXT,  # ISO 8601, UTC
    "phases": REAL_BY_TEXT,  # seconds
    "role": TEXT,  # one-way | echo | loop
    "payload_bytes": INT,  # null where the messages of the run differ
    "identity": TEXT,  # how deliveries were told apart: study/identity.py
    "publishers": INT,
    "subscribers": INT,
    "arrivals": TEXT,
    "rate_per_s": REAL,  # per publisher; null where no one rate holds: ramp, step, contact, closed loops
    "window": INT,  # outstanding messages; null when the rate is given
    "capacity_per_s": REAL,  # of a search: the largest rate of all publishers that passed twice; null: none did
    "capacity_high_per_s": REAL,  # the smallest that failed twice: the capacity lies between; null: none did
    "p99_limit_ms": REAL,  # of latency, in a trial that passes
    "schedule_lag_p99_ms": REAL,
    "generator_cpu_percent": REAL,  # of the busiest worker
    "kernel": TEXT,
    "cpu_model": TEXT,
    "cores": INT,
    "brokerlab": TEXT,
    "pipeline": INT,
}

MANIFESTS = _schema(
    **_ABOUT_A_RUN,
    is_cut_off=BOOL,
    qos_asked=INT,  # by those who subscribe: of devices' answers it is another than `qos`
    measure_start_ns=LONG,  # null: the run did not get that far
    measure_end_ns=LONG,
    other_publications=LONG,  # of ours that are no load: the proof of readiness, probes, devices' answers, commands
    other_bytes=LONG,  # of their payloads
    proof_publications=LONG,  # of those: the proof of readiness alone
    is_scalable=BOOL,  # the broker uses several cores; null: not known
    system_cpu_percent=REAL,  # of all cores of the machine, measure phase
    trials=T.ArrayType(TRIAL),
    counters=T.ArrayType(COUNTER_CLAIM),
)

# Places in the order of every table: cells in natural order, then repetitions.
RUN_PLACES = _schema(run_id=TEXT, position=INT)
CELL_PLACES = _schema(cell=TEXT, position=INT)

# ---- between jobs: what is to be read ------------------------------------------------------------------------

# One row per piece of work: the delivery files of one worker, or, with an empty list, all other files of the run.
WORK = _schema(bundle=INT, run_directory=TEXT, deliveries=TEXTS)

# ---- between jobs: what the raw files come to (families.py) --------------------------------------------------

# A tagged union, so that the raw files are read once for all tables: exactly one family is not null in a row.
PARTIALS = _schema(run_id=TEXT, **FAMILIES)

# ---- on disk: tables/<name>/ --------------------------------------------------------------------------------

RUNS = _schema(**_ABOUT_A_RUN)

DELIVERY = _schema(
    run_id=TEXT,
    cell=TEXT,
    qos_asked=INT,
    qos_granted=INT,  # null: arrivals at a subscriber that the manifest does not know
    contract=TEXT,
    identity=TEXT,  # "order": what was delivered is counted, which one it was is not known
    published=LONG,
    acknowledged=LONG,  # null at QoS 0, as the two others about acknowledgements
    never_acknowledged=LONG,
    expected=LONG,
    delivered=LONG,
    late=LONG,  # of those: more than analysis.late after the intended time; null by order where some were lost
    lost=LONG,
    acknowledged_lost=LONG,
    lost_there=LONG,  # this and the next: of those lost, on the way to a device and back; null without devices
    lost_back=LONG,
    duplicated=LONG,  # this, the next and reordered: null with identity by order
    duplicated_flagged=LONG,
    overlapping=LONG,  # once more for another filter of the subscriber, which MQTT allows
    reordered=LONG,
    stale=LONG,  # retained, but not the last of its topic
    unexpected=LONG,
    failure_percent=REAL,
    verdict=TEXT,  # kept | broken | unknown
)

LATENCY = _schema(
    run_id=TEXT,
    cell=TEXT,
    kind=TEXT,  # since the intended or the actual time of sending; there: until a device has it; device: kept by it
    group=TEXT,  # all, or the probe beside them
    n=LONG,
    mean_ms=REAL,
    sd_ms=REAL,
    min_ms=REAL,
    p50_ms=REAL,
    p90_ms=REAL,
    p95_ms=REAL,
    p99_ms=REAL,
    p99_9_ms=REAL,
    p99_99_ms=REAL,
    max_ms=REAL,
    resolution_mean_ms=REAL,
    resolution_max_ms=REAL,
    zero_count=LONG,
    negative_count=LONG,
)

HISTOGRAM = _schema(
    run_id=TEXT,
    cell=TEXT,
    kind=TEXT,
    group=TEXT,
    bucket=INT,
    low_ns=LONG,  # values [low, high); null in the negative bucket, which has no lower bound
    high_ns=LONG,
    n=LONG,
)

THROUGHPUT = _schema(
    run_id=TEXT,
    cell=TEXT,
    window=TEXT,  # send | delivery
    seconds=REAL,
    published=LONG,
    acknowledged=LONG,  # null at QoS 0
    delivered=LONG,
    published_per_s=REAL,
    acknowledged_per_s=REAL,
    delivered_per_s=REAL,
    payload_bytes_per_s=REAL,  # published in the send window, delivered in the delivery window
)

TIMELINE = _schema(
    run_id=TEXT,
    cell=TEXT,
    second=INT,  # since the start of the warm-up
    phase=TEXT,  # in which the second begins
    published=LONG,  # this and the next two: sent, acknowledged, first received within the second
    acknowledged=LONG,  # null at QoS 0
    delivered=LONG,
    latency_p50_ms=REAL,  # of what was received within the second, since the intended time of sending
    latency_p99_ms=REAL,
    schedule_lag_p99_ms=REAL,  # of what was sent within the second
    broker_cpu_percent=REAL,  # of one core; null where the samples do not cover the second
)

JITTER = _schema(
    run_id=TEXT,
    cell=TEXT,
    subscriber=INT,  # this and the next: the flow
    publisher=LONG,
    n=LONG,  # first arrivals of publications intended in the measure phase, as all that follows
    interarrival_mean_ms=REAL,
    interarrival_sd_ms=REAL,
    rfc3550_ms=REAL,  # after the last message
    lost=LONG,
    monotone_growth=BOOL,  # by the rule of stats/jitter.py; null below two arrivals
    growth_ms_per_message=REAL,  # Sen's slope
    growth_p=REAL,  # of Mann-Kendall's test, one-sided
    blocks=LONG,  # how often the flow stood still for more than 100 ms and went on
    outcome=TEXT,  # the first that holds: collapse | lost data | growing | temporary block | ok; null: not known
)

SUBSCRIBERS = _schema(
    run_id=TEXT,
    cell=TEXT,
    subscriber=INT,
    group=TEXT,  # of a shared subscription; null without one
    filters=INT,  # that were granted
    qos_granted=INT,
    delivered=LONG,  # first arrivals, warm-up included, as all that follows
    duplicated=LONG,
    overlapping=LONG,
    reordered=LONG,
    stale=LONG,
    unexpected=LONG,
    group_percent=REAL,  # of what the group got; null without one, or where it got nothing
)

SESSIONS = _schema(
    run_id=TEXT,
    cell=TEXT,
    event=TEXT,
    n=LONG,
    failures=LONG,  # refused, closed by the other side, or failed
    latency_p50_ms=REAL,
    latency_p99_ms=REAL,
    latency_max_ms=REAL,
    per_s=REAL,  # over the phases in which the event happened
)

CAPACITY = _schema(
    run_id=TEXT,
    cell=TEXT,
    trial=INT,  # from 1; the last one is the measure phase, at the rate that was found
    phase=TEXT,
    rate_per_s=REAL,  # asked of each publisher
    asked_per_s=REAL,  # of all publishers
    seconds=REAL,
    published=LONG,
    expected=LONG,
    delivered=LONG,
    published_per_s=REAL,
    delivered_per_s=REAL,
    latency_p50_ms=REAL,  # since the intended time
    latency_p99_ms=REAL,
    lost=LONG,
    acknowledged_lost=LONG,  # null at QoS 0
    backlog_growth_percent=REAL,  # stats/backlog.py
    passed=BOOL,  # this and the next: as decided when it was made; null: the generator was the limit
    why_not=TEXTS,
)

RESOURCES = _schema(
    run_id=TEXT,
    cell=TEXT,
    node=TEXT,
    phase=TEXT,
    seconds=REAL,
    cpu_s=REAL,
    cpu_percent=REAL,  # of one core
    rss_mean_mib=REAL,
    rss_max_mib=REAL,
    read_bytes=LONG,
    written_bytes=LONG,
    threads_max=LONG,  # this and the next: null in runs of before they were sampled
    open_files_max=LONG,
    cpu_us_per_delivery=REAL,  # this and the next: measure phase only
    deliveries_per_core_s=REAL,
    projected_per_s=REAL,  # this and the next: broker nodes in the measure phase only
    projection_is_extrapolation=BOOL,
)

COUNTERS = _schema(
    run_id=TEXT,
    cell=TEXT,
    node=TEXT,
    name=TEXT,  # as the broker calls it
    count=TEXT,  # received | received_bytes | sent | sent_bytes | dropped | connections | subscriptions | …
    measure_first=REAL,  # what the broker said as the measure phase began and ended
    measure_last=REAL,
    broker_value=REAL,  # what it said last; null: it told nothing
    our_value=REAL,  # of the ledger; null: there is none to hold against it
    difference=REAL,  # the broker's minus ours
    verdict=TEXT,  # equal | differs | not comparable
    why=TEXT,  # it is not comparable
    note=TEXT,
)

CELLS = _schema(
    cell=TEXT,
    broker=TEXT,
    qos=INT,
    levels=TEXT_BY_TEXT,
    metric=TEXT,
    unit=TEXT,
    n=INT,  # valid runs that have the metric
    invalid_runs=INT,
    mean=REAL,
    low=REAL,
    high=REAL,
    sd=REAL,
    min=REAL,
    max=REAL,
    confidence_percent=REAL,
)

TABLES = {
    "runs": RUNS,
    "delivery": DELIVERY,
    "latency": LATENCY,
    "histogram": HISTOGRAM,
    "throughput": THROUGHPUT,
    "timeline": TIMELINE,
    "jitter": JITTER,
    "subscribers": SUBSCRIBERS,
    "sessions": SESSIONS,
    "capacity": CAPACITY,
    "resources": RESOURCES,
    "counters": COUNTERS,
    "cells": CELLS,
}

# The columns that identify a row; together they are unique and, but for qos_granted, never null.
GRAIN = {
    "runs": ("run_id",),
    "delivery": ("run_id", "qos_asked", "qos_granted"),
    "latency": ("run_id", "kind", "group"),
    "histogram": ("run_id", "kind", "group", "bucket"),
    "throughput": ("run_id", "window"),
    "timeline": ("run_id", "second"),
    "jitter": ("run_id", "subscriber", "publisher"),
    "subscribers": ("run_id", "subscriber"),
    "sessions": ("run_id", "event"),
    "capacity": ("run_id", "trial"),
    "resources": ("run_id", "node", "phase"),
    "counters": ("run_id", "node", "name"),
    "cells": ("cell", "metric"),
}
