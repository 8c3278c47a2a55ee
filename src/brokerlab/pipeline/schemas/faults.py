"""Faults of a run: what they did to messages, and how long the system took to come back."""

from brokerlab.pipeline.schemas.kinds import INT, LONG, REAL, TEXT, Table, schema

FAULTS = schema(
    run_id=TEXT,
    cell=TEXT,
    fault=INT,  # 0: the time before the first one, so that the rows of a run sum to its ledger
    kind=TEXT,
    target=TEXT,
    at_s=REAL,  # since the start of the measure phase
    lasted_s=REAL,  # null: until the end of the run, or no time at all
    noticed_ms=REAL,  # until the first client lost a connection or got none; null: nobody did
    connections_lost=LONG,  # and attempts that failed
    to_first_ms=REAL,  # until the first message of after it was delivered
    to_all_ms=REAL,  # until every flow that came back had delivered one
    to_steady_ms=REAL,  # until half a second had nine tenths of the rate before it, evenly; null: never, or too few
    relaid_ms=REAL,  # until a new tree of bridges had carried messages between all nodes that were left
    expected=LONG,
    delivered=LONG,
    lost=LONG,
    lost_local=LONG,
    lost_crossing=LONG,
    acknowledged_lost=LONG,
    duplicated=LONG,
    duplicated_local=LONG,
    duplicated_crossing=LONG,
    reordered=LONG,
    reordered_local=LONG,
    reordered_crossing=LONG,
)

TABLE = Table(FAULTS, grain=("run_id", "fault"), order=("position", "fault"))
