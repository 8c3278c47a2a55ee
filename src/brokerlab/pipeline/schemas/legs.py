"""Rates and responsiveness as a capture sees them (M-26)."""

from brokerlab.pipeline.schemas.kinds import LONG, REAL, TEXT, Among, Table, schema

TO_BROKER, FROM_BROKER, THROUGH_BROKER = LEG_NAMES = ("to broker", "from broker", "through broker")

LEGS = schema(
    run_id=TEXT,
    cell=TEXT,
    tap=TEXT,
    leg=TEXT,  # to broker | from broker | through broker
    messages=LONG,  # published in the measure phase, where the run has one; through broker: pairs that were found
    payload_bytes=LONG,
    unmatched=LONG,  # through broker: left, but not seen to come
    ambiguous=LONG,  # through broker: look alike, and not as many left as came
    window_s=REAL,  # of this leg: first to last PUBLISH
    per_s=REAL,  # over it
    whole_window_s=REAL,  # first PUBLISH that came to last that left
    whole_per_s=REAL,  # over that: T of M-26, eq. 8 and 9 as corrected
    mean_ms=REAL,  # this and the following: from the first byte that came to the last that left
    sd_ms=REAL,
    min_ms=REAL,
    p50_ms=REAL,
    p95_ms=REAL,
    p99_ms=REAL,
    p99_9_ms=REAL,
    max_ms=REAL,
    negative_count=LONG,
)

TABLE = Table(LEGS, grain=("run_id", "tap", "leg"), order=("position", "tap", Among("leg", LEG_NAMES)))
