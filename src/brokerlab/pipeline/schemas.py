"""Every table on disk and between jobs, once; nothing else declares a schema.

Fields are nullable throughout, because Spark takes everything that it reads from files as nullable.
The tests hold the key columns against null.
"""

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

PIPELINE_VERSION = 1  # raised by every change that can move numbers

TEXT, INT, LONG, REAL, BOOL = T.StringType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.BooleanType()
TEXTS = T.ArrayType(TEXT)
TEXT_BY_TEXT = T.MapType(TEXT, TEXT)
REAL_BY_TEXT = T.MapType(TEXT, REAL)


def _schema(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The same schema for Arrow batches on their way into Spark."""
    return to_arrow_schema(schema)


# ---- between jobs: what the manifests say -------------------------------------------------------------------

COUNTER_CLAIM = _schema(
    name=TEXT,
    equals=TEXT,  # which of our counts the broker's must equal: "publications" or "payload_bytes"
    qos=T.ArrayType(INT),  # the QoS levels that the broker includes
    note=TEXT,
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
    "payload_bytes": INT,
    "publishers": INT,
    "subscribers": INT,
    "arrivals": TEXT,
    "rate_per_s": REAL,  # per publisher; null when the load saturates
    "window": INT,  # outstanding messages; null when the rate is given
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
    measure_start_ns=LONG,  # null: the run did not get that far
    measure_end_ns=LONG,
    proof_publications=LONG,
    counters=T.ArrayType(COUNTER_CLAIM),
)

# Places in the order of every table: cells in natural order, then repetitions.
RUN_PLACES = _schema(run_id=TEXT, position=INT)
CELL_PLACES = _schema(cell=TEXT, position=INT)

# ---- between jobs: what is to be read ------------------------------------------------------------------------

# One row per piece of work: the delivery files of one worker, or, with an empty list, all other files of the run.
WORK = _schema(bundle=INT, run_directory=TEXT, deliveries=TEXTS)

# ---- between jobs: what the raw files come to ---------------------------------------------------------------

# One row per publisher.
PUBLISHER = _schema(
    publisher=LONG,
    published=LONG,
    acknowledged=LONG,
    published_bytes=LONG,  # payload
    measured=LONG,  # of those published: intended in the measure phase
    measured_acknowledged=LONG,
    measured_bytes=LONG,  # payload
    last_sent_ns=LONG,  # of the measured ones; null without any
)

# One row per granted QoS: publication × subscriber pairs that should be delivered.
EXPECTED = _schema(qos_granted=INT, pairs=LONG, acknowledged_pairs=LONG)

# One row per subscriber and publisher with an arrival.
FLOW = _schema(
    subscriber=INT,
    publisher=LONG,
    qos_granted=INT,
    arrivals=LONG,
    delivered=LONG,  # first arrivals
    acknowledged_delivered=LONG,  # of those, publications that the broker acknowledged
    duplicated=LONG,  # arrivals beyond the first
    duplicated_flagged=LONG,  # of those, with DUP set
    reordered=LONG,  # first arrivals below the highest seq that came before
    measured_delivered=LONG,
    measured_bytes=LONG,
    last_received_ns=LONG,  # of the measured first arrivals; null without any
)

# One row per subscriber with arrivals that match no publication or no subscription.
UNEXPECTED = _schema(subscriber=INT, qos_granted=INT, arrivals=LONG)

# One row per kind of latency and group of messages.
MOMENTS = _schema(
    kind=TEXT,
    group=TEXT,
    n=LONG,
    sum_ns=REAL,
    sum_of_squares_ns2=REAL,
    min_ns=LONG,
    max_ns=LONG,
    resolution_sum_ns=REAL,
    resolution_max_ns=LONG,
    zero_count=LONG,
    negative_count=LONG,
)

# One row per kind, group and bucket with a count.
BUCKET = _schema(kind=TEXT, group=TEXT, bucket=INT, low_ns=LONG, high_ns=LONG, n=LONG)

# One row per process and phase.
USAGE = _schema(
    node=TEXT,
    process=LONG,
    phase=TEXT,
    seconds=REAL,
    cpu_ns=REAL,
    rss_mean_bytes=REAL,
    rss_max_bytes=LONG,
    read_bytes=REAL,
    written_bytes=REAL,
)

# One row per counter of a node: its last value.
COUNTER = _schema(node=TEXT, name=TEXT, value=REAL)

# One row per raw file that cannot be read.
PROBLEM = _schema(reason=TEXT)

FAMILIES = {
    "publisher": PUBLISHER,
    "expected": EXPECTED,
    "flow": FLOW,
    "unexpected": UNEXPECTED,
    "moments": MOMENTS,
    "bucket": BUCKET,
    "usage": USAGE,
    "counter": COUNTER,
    "problem": PROBLEM,
}

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
    published=LONG,
    acknowledged=LONG,  # null at QoS 0, as the two others about acknowledgements
    never_acknowledged=LONG,
    expected=LONG,
    delivered=LONG,
    lost=LONG,
    acknowledged_lost=LONG,
    duplicated=LONG,
    duplicated_flagged=LONG,
    reordered=LONG,
    unexpected=LONG,
    failure_percent=REAL,
    verdict=TEXT,  # kept | broken | unknown
)

LATENCY = _schema(
    run_id=TEXT,
    cell=TEXT,
    kind=TEXT,  # since the intended or the actual time of sending
    group=TEXT,
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
    cpu_us_per_delivery=REAL,  # this and the next: measure phase only
    deliveries_per_core_s=REAL,
    projected_per_s=REAL,  # this and the next: broker nodes in the measure phase only
    projection_is_extrapolation=BOOL,
)

COUNTERS = _schema(
    run_id=TEXT,
    cell=TEXT,
    node=TEXT,
    name=TEXT,
    broker_value=REAL,
    our_value=REAL,
    agrees=BOOL,  # null: the broker leaves this run's QoS out, or we have no count of that kind
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
    "resources": ("run_id", "node", "phase"),
    "counters": ("run_id", "node", "name"),
    "cells": ("cell", "metric"),
}
