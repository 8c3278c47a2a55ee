"""Latency of first arrivals."""

from brokerlab.pipeline.schemas.kinds import LONG, REAL, TEXT, Table, schema

LATENCY = schema(
    run_id=TEXT,
    cell=TEXT,
    # since the intended or the actual time of sending; earliest: since the intended one, if every message came as early
    # as its resolution allows; there: until a device has it; device: kept by it
    kind=TEXT,
    group=TEXT,  # all, a class of payloads, local or crossing (between nodes), or the probe beside them
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

TABLE = Table(LATENCY, grain=("run_id", "kind", "group"), order=("position", "kind", "group"))
