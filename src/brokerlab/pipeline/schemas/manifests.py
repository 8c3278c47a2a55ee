"""Between jobs: what the manifests say, and the places of runs and cells in every table."""

from pyspark.sql import types as T

from brokerlab.pipeline.schemas.kinds import BOOL, INT, LONG, REAL, REAL_BY_TEXT, TEXT, TEXT_BY_TEXT, TEXTS, schema

COUNTER_CLAIM = schema(
    name=TEXT,
    count=TEXT,  # which of the counts that all brokers have: brokers/base.py
    has_proof=BOOL,  # includes the messages of the proof of readiness
    has_sys=BOOL,  # of what was sent: includes what our reader of counters was told
    why_not=TEXT,  # why it cannot be held against our count in this run; null: it can
    note=TEXT,
)

# A trial of a search, as it was decided when it was made.
TRIAL = schema(
    trial=INT,
    phase=TEXT,
    rate_per_s=REAL,
    start_ns=LONG,
    end_ns=LONG,
    passed=BOOL,  # null: a guard of the generator was broken, so it says nothing about the broker
    why_not=TEXTS,
)

# One direction of a link, as it was claimed and as it was measured before the run.
LINK = schema(
    link=TEXT,  # from host to host: router1>router2
    kind=TEXT,  # veth: the kernel's plain wire | netem | userspace
    claimed_rtt_ms=REAL,  # there and back
    measured_rtt_ms=REAL,  # the median; null: no echo came back
    claimed_delay_ms=REAL,  # of this direction
    measured_delay_ms=REAL,
    claimed_rate_bits_per_s=REAL,  # of whole frames; null: no limit is claimed
    measured_rate_bits_per_s=REAL,
    claimed_loss_percent=REAL,
    measured_loss_percent=REAL,  # null: nothing is claimed of the link, so none were sent
    probes=LONG,
    problems=TEXTS,
)

# One row per run directory whose manifest can be read.
ABOUT_A_RUN = {
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
    "capacity_low_per_s": REAL,  # the largest up to it that always passed; 0: none did
    "capacity_high_per_s": REAL,  # the smallest above it that always failed: the capacity lies between; null: none did
    "p99_limit_ms": REAL,  # of latency, in a trial that passes
    "schedule_lag_p99_ms": REAL,
    "generator_cpu_percent": REAL,  # of the busiest worker
    "kernel": TEXT,
    "cpu_model": TEXT,
    "cores": INT,
    "brokerlab": TEXT,
    "pipeline": INT,
}

# A fault that was done.
FAULT = schema(fault=INT, kind=TEXT, target=TEXT, at_ns=LONG, end_ns=LONG, relaid_ms=REAL)

MANIFESTS = schema(
    **ABOUT_A_RUN,
    is_cut_off=BOOL,
    qos_asked=INT,  # by those who subscribe: of devices' answers it is another than `qos`
    measure_start_ns=LONG,  # null: the run did not get that far
    measure_end_ns=LONG,
    other_publications=LONG,  # of ours that are no load: the proof of readiness, probes, devices' answers, commands
    other_bytes=LONG,  # of their payloads
    proof_publications=LONG,  # of those: the proof of readiness alone
    set_up=TEXT,  # driver, version, preset and options of the broker: two names with the same are the same thing
    connections=INT,  # of publishers, subscribers and idle clients
    has_lasting_sessions=BOOL,  # what comes while a client is away is kept for it
    may_be_away=BOOL,  # subscribers leave and come back by the study's plan
    may_expire=BOOL,  # messages had an expiry, and the run lasted longer: a broker drops those that wait so long
    is_scalable=BOOL,  # the broker uses several cores; null: not known
    system_cpu_percent=REAL,  # of all cores of the machine, measure phase
    energy_j=REAL,  # of all processors of the machine, measure phase; null: it has no counters
    unknown=TEXTS,  # what the source of an imported run does not tell: origin.py
    trials=T.ArrayType(TRIAL),
    counters=T.ArrayType(COUNTER_CLAIM),
    links=T.ArrayType(LINK),
    faults=T.ArrayType(FAULT),
)
