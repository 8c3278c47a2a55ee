"""Between jobs: what the raw files come to, in families of partial results, which Spark merges into tables."""

from pyspark.sql import types as T

from brokerlab.pipeline.schemas.kinds import BOOL, INT, LONG, REAL, TEXT, TEXTS, schema

# One row per publisher.
PUBLISHER = schema(
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
EXPECTED = schema(
    qos_granted=INT,
    pairs=LONG,
    acknowledged_pairs=LONG,
    crossing_pairs=LONG,  # of the pairs: publisher and subscriber at different nodes; null where there is one node
)

# One row per subscriber and publisher with an arrival.
FLOW = schema(
    subscriber=INT,
    publisher=LONG,
    qos_granted=INT,
    arrivals=LONG,
    delivered=LONG,  # first arrivals
    acknowledged_delivered=LONG,  # of those, publications that the broker acknowledged
    resized=LONG,  # of those delivered, with another payload size than published
    late=LONG,  # first arrivals later than the study's limit after the intended time
    duplicated=LONG,  # arrivals beyond the first, and beyond one for each filter that matches
    duplicated_flagged=LONG,  # of those, with DUP set
    overlapping=LONG,  # arrivals beyond the first for another matching filter, or retained for a new subscription
    reordered=LONG,  # first arrivals below the highest seq that came before
    stale=LONG,  # arrivals of retained messages before the last acknowledged one of their topic
    measured_delivered=LONG,
    measured_bytes=LONG,
    last_received_ns=LONG,  # of the measured first arrivals; null without any
    is_crossing=BOOL,  # publisher and subscriber are at different nodes; null where there is one node
    in_doubt=BOOL,  # its messages look alike, and some were lost, too much or out of turn: reduce/likeness.py
)

# One row per subscriber of the manifest.
SUBSCRIBER = schema(subscriber=INT, group=TEXT, filters=INT, qos_granted=INT)

# One row per subscriber with arrivals that match no publication or no subscription.
UNEXPECTED = schema(subscriber=INT, qos_granted=INT, arrivals=LONG)

# One row per kind of latency and group of messages.
MOMENTS = schema(
    kind=TEXT,
    group=TEXT,
    n=LONG,
    sum_ns=REAL,
    sum_of_squares_ns2=REAL,
    min_ns=LONG,
    max_ns=LONG,
    resolution_sum_ns=REAL,  # this and the next: null where it is not told of every arrival
    resolution_max_ns=LONG,
    zero_count=LONG,
    negative_count=LONG,
)

# One row per kind, group and bucket with a count.
BUCKET = schema(kind=TEXT, group=TEXT, bucket=INT, low_ns=LONG, high_ns=LONG, n=LONG)

# One row per process and phase.
USAGE = schema(
    node=TEXT,
    process=LONG,
    phase=TEXT,
    seconds=REAL,
    cpu_ns=REAL,
    rss_first_bytes=REAL,  # as the phase began
    rss_mean_bytes=REAL,
    rss_max_bytes=LONG,
    read_bytes=REAL,
    written_bytes=REAL,
    threads_max=LONG,
    open_files_max=LONG,
)

# One row per interface of a router and phase.
INBOUND = schema(node=TEXT, interface=TEXT, phase=TEXT, seconds=REAL, rx_bytes=REAL, rx_packets=REAL, rx_dropped=REAL)

# One row per counter of a node.
COUNTER = schema(
    node=TEXT,
    name=TEXT,
    value=REAL,  # the last
    measure_first=REAL,  # this and the next: as the measure phase began and ended; null: nothing was told before that
    measure_last=REAL,
    told_before=LONG,  # values of the node's counters that were told before the last of this one
)

# One row per subscriber and publisher whose messages it should get.
EXPECTED_FLOW = schema(subscriber=INT, publisher=LONG, measured=LONG)  # measured: null in a shared subscription

# One row per flow (subscriber, publisher) with a first arrival of the measure phase: stats/jitter.py.
RHYTHM = schema(
    subscriber=INT,
    publisher=LONG,
    n=LONG,
    interarrival_mean_ns=REAL,  # this, jitter, slope and p: null below two arrivals
    interarrival_sd_ns=REAL,  # null below three arrivals, which are two intervals
    resolution_mean_ns=REAL,  # null where it is not told of every arrival
    jitter_ns=REAL,
    growth_slope_ns=REAL,
    growth_p=REAL,
    monotone_growth=BOOL,
    blocks=LONG,
)

# One row per event of sessions.
SESSION = schema(
    event=TEXT,
    n=LONG,
    failures=LONG,
    p50_ns=LONG,  # this and the next two: of the events that have a latency
    p99_ns=LONG,
    max_ns=LONG,
    seconds=REAL,  # of the phases in which the event happened
)

# One row per second of a run, from the start of its warm-up to the end of its drain.
SECOND = schema(second=INT, phase=TEXT, broker_cpu_percent=REAL)

# One row per second, kind (latency: of first arrivals; lag: of sendings; acknowledged: without durations) and worker.
TICK = schema(
    second=INT,
    kind=TEXT,
    n=LONG,
    min_ns=LONG,
    max_ns=LONG,
    buckets=T.ArrayType(schema(bucket=INT, low_ns=LONG, high_ns=LONG, n=LONG)),
)

# One row per trial of a search: publications intended in it, and the deliveries that should come of them.
TRIAL_SENT = schema(phase=TEXT, published=LONG, expected=LONG, acknowledged_expected=LONG, last_sent_ns=LONG)

# One row per trial of a search and delivery worker, of first arrivals that were intended in the trial.
TRIAL_ARRIVED = schema(
    phase=TEXT,
    delivered=LONG,
    acknowledged_delivered=LONG,
    last_received_ns=LONG,
    min_ns=LONG,
    max_ns=LONG,
    under_way_second=REAL,  # this and the next: stats/backlog.py
    under_way_last=REAL,
    buckets=T.ArrayType(schema(bucket=INT, low_ns=LONG, high_ns=LONG, n=LONG)),
)

# One row per publisher of a run with devices.
ECHO = schema(
    publisher=LONG,
    qos_granted=INT,  # to who sent it and hears the answer
    heard=LONG,  # publications that reached the device
    missed=LONG,  # that the broker acknowledged and owed it by the QoS that it granted, and that did not
    answered=LONG,
)

# One row per fault of a run, and one of number 0 for the time before the first: what was owed of its publications.
FAULT_EXPECTED = schema(fault=INT, expected=LONG, crossing_expected=LONG, acknowledged_expected=LONG)

# The same per delivery worker, of what arrived; times are the earliest and the latest first arrival of a flow.
FAULT_ARRIVED = schema(
    fault=INT,
    delivered=LONG,
    crossing_delivered=LONG,
    acknowledged_delivered=LONG,
    duplicated_local=LONG,
    duplicated_crossing=LONG,
    reordered_local=LONG,
    reordered_crossing=LONG,
    first_ns=LONG,
    last_ns=LONG,
)

# One row per tenth of a second with first arrivals, of a run with faults, per delivery worker.
FAULT_BIN = schema(bin_ns=LONG, arrivals=LONG)

# One row per fault of a run: what clients noticed of it.
FAULT_NOTICED = schema(fault=INT, noticed_ns=LONG, noticed=LONG, subscribers_away=LONG)

# One row per raw file that cannot be read.
PROBLEM = schema(reason=TEXT)

# One row per raw file that can be read, but holds what should not be.
NOTE = schema(reason=TEXT)

FAMILIES = {
    "publisher": PUBLISHER,
    "expected": EXPECTED,
    "flow": FLOW,
    "subscriber": SUBSCRIBER,
    "unexpected": UNEXPECTED,
    "moments": MOMENTS,
    "bucket": BUCKET,
    "usage": USAGE,
    "inbound": INBOUND,
    "counter": COUNTER,
    "expected_flow": EXPECTED_FLOW,
    "rhythm": RHYTHM,
    "session": SESSION,
    "second": SECOND,
    "tick": TICK,
    "trial_sent": TRIAL_SENT,
    "trial_arrived": TRIAL_ARRIVED,
    "echo": ECHO,
    "fault_expected": FAULT_EXPECTED,
    "fault_arrived": FAULT_ARRIVED,
    "fault_bin": FAULT_BIN,
    "fault_noticed": FAULT_NOTICED,
    "problem": PROBLEM,
    "note": NOTE,
}

# A tagged union, so that the raw files are read once for all tables: exactly one family is not null in a row.
PARTIALS = schema(run_id=TEXT, **FAMILIES)

# What is to be read: one row per piece of work, the delivery files of one worker, or, with an empty list, all else.
WORK = schema(bundle=INT, run_directory=TEXT, deliveries=TEXTS)

# One row per delivery file of a foreign layout, and one per delivery on its way to be sorted: reduce/foreign.py.
FOREIGN_FILE = schema(run_directory=TEXT, file=TEXT, first_part=INT, parts=INT)
SORTABLE = schema(
    run_directory=TEXT,
    part=INT,
    problem=TEXT,  # of a file that cannot be read; then the rest is null
    subscriber=INT,
    publisher=LONG,
    seq=LONG,
    dup=BOOL,
    retain=BOOL,
    payload_bytes=INT,
    intended_ns=LONG,
    received_ns=LONG,
    resolution_ns=LONG,
)
