"""Printed values beside ours: present.beside of a study."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, Table, schema

TABLE = Table(
    columns=schema(
        source=TEXT,  # PAPER/TABLE
        metric=TEXT,
        environment=TEXT,
        qos=TEXT,
        interval_ms=TEXT,
        statistic=TEXT,
        variant=TEXT,
        printed_broker=TEXT,
        printed_version=TEXT,
        printed=TEXT,  # as it stands there
        printed_value=REAL,
        unit=TEXT,
        note=TEXT,  # why it is suspect
        cell=TEXT,  # of ours; null: we have none to stand beside it
        our_broker=TEXT,
        our_qos=TEXT,
        others=TEXT,  # levels of our other factors
        our_version=TEXT,
        our_metric=TEXT,
        our_value=REAL,
        our_low=REAL,
        our_high=REAL,
        our_n=INT,
        compared=INT,  # brokers that stand in both, for this metric, QoS and environment and these levels of ours
        printed_ratio=REAL,  # to the first of those, as printed
        our_ratio=REAL,  # to the same broker, of ours
        printed_rank=INT,  # among those
        our_rank=INT,
        same_place=BOOL,
    ),
    grain=("source", "metric", "environment", "qos", "interval_ms", "statistic", "variant", "printed_broker", "cell"),
    order=("source", "metric", "qos", "printed_rank", "printed_broker"),
)
