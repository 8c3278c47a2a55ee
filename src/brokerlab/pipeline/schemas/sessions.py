"""Connecting, subscribing, leaving."""

from brokerlab.pipeline.schemas.kinds import LONG, REAL, TEXT, Among, Table, schema

_EVENTS = ("tcp", "connack", "suback", "disconnect")

SESSIONS = schema(
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

TABLE = Table(SESSIONS, grain=("run_id", "event"), order=("position", Among("event", _EVENTS), "event"))
