"""What each subscriber got."""

from brokerlab.pipeline.schemas.kinds import INT, LONG, REAL, TEXT, Table, schema

SUBSCRIBERS = schema(
    run_id=TEXT,
    cell=TEXT,
    subscriber=INT,
    group=TEXT,  # of a shared subscription; null without one
    filters=INT,  # that were granted
    qos_granted=INT,
    delivered=LONG,  # first arrivals, warm-up included, as all that follows
    duplicated=LONG,
    overlapping=LONG,
    reordered=LONG,
    stale=LONG,
    unexpected=LONG,
    group_percent=REAL,  # of what the group got; null without one, or where it got nothing
)

TABLE = Table(SUBSCRIBERS, grain=("run_id", "subscriber"), order=("position", "subscriber"))
