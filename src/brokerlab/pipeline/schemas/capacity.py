"""The trials of searches."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, LONG, REAL, TEXT, TEXTS, Table, schema

CAPACITY = schema(
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

TABLE = Table(CAPACITY, grain=("run_id", "trial"), order=("position", "trial"))
