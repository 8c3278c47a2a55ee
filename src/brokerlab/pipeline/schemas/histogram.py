"""Latency as mergeable counts."""

from brokerlab.pipeline.schemas.kinds import INT, LONG, TEXT, Table, schema

HISTOGRAM = schema(
    run_id=TEXT,
    cell=TEXT,
    kind=TEXT,
    group=TEXT,
    bucket=INT,
    low_ns=LONG,  # values [low, high); null in the negative bucket, which has no lower bound
    high_ns=LONG,
    n=LONG,
)

TABLE = Table(HISTOGRAM, grain=("run_id", "kind", "group", "bucket"), order=("position", "kind", "group", "bucket"))
