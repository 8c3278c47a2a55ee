"""What each run came to, one number a metric."""

from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.schemas.kinds import REAL, TEXT, Among, Table, schema

VALUES = schema(
    run_id=TEXT,
    metric=TEXT,  # of metrics.UNITS
    value=REAL,  # never null: a run without it has no row
    resolution=REAL,  # of a time: what arrival times do not tell of it; null where that is not known, or no time
)

TABLE = Table(VALUES, grain=("run_id", "metric"), order=("position", Among("metric", tuple(UNITS))))
