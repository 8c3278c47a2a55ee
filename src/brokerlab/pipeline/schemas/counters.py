"""Brokers' own counts beside ours."""

from brokerlab.pipeline.schemas.kinds import REAL, TEXT, Among, Table, schema

_COUNTS = (
    "received",
    "received_bytes",
    "sent",
    "sent_bytes",
    "dropped",
    "connections",
    "subscriptions",
    "retained",
    "queued",
)

COUNTERS = schema(
    run_id=TEXT,
    cell=TEXT,
    node=TEXT,
    name=TEXT,  # as the broker calls it
    count=TEXT,  # received | received_bytes | sent | sent_bytes | dropped | connections | subscriptions | …
    measure_first=REAL,  # what the broker said as the measure phase began and ended
    measure_last=REAL,
    broker_value=REAL,  # what it said last; null: it told nothing
    our_value=REAL,  # of the ledger; null: there is none to hold against it
    difference=REAL,  # the broker's minus ours
    verdict=TEXT,  # equal | differs | not comparable
    why=TEXT,  # it is not comparable
    note=TEXT,
)

TABLE = Table(COUNTERS, grain=("run_id", "node", "name"), order=("position", "node", Among("count", _COUNTS), "name"))
