"""Seconds of runs."""

from brokerlab.pipeline.schemas.kinds import INT, LONG, REAL, TEXT, Table, schema

TIMELINE = schema(
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

TABLE = Table(TIMELINE, grain=("run_id", "second"), order=("position", "second"))
