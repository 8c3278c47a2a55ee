"""Rates over two windows."""

from brokerlab.pipeline.schemas.kinds import LONG, REAL, TEXT, Among, Table, schema

THROUGHPUT = schema(
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
    millijoules_per_delivery=REAL,  # of the whole machine; delivery window; null: it has no counters of energy
)

TABLE = Table(THROUGHPUT, grain=("run_id", "window"), order=("position", Among("window", ("send", "delivery"))))
