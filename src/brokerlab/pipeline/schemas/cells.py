"""Metrics of cells."""

from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.schemas.kinds import INT, REAL, TEXT, TEXT_BY_TEXT, Among, Table, schema

CELLS = schema(
    cell=TEXT,
    broker=TEXT,
    qos=INT,
    levels=TEXT_BY_TEXT,
    metric=TEXT,
    unit=TEXT,
    n=INT,  # valid runs that have the metric
    invalid_runs=INT,
    mean=REAL,
    low=REAL,
    high=REAL,
    sd=REAL,
    min=REAL,
    max=REAL,
    resolution=REAL,  # of a time: what arrival times do not tell of it, the mean of its runs; null: not known, no time
    confidence_percent=REAL,
)

TABLE = Table(CELLS, grain=("cell", "metric"), order=("position", Among("metric", tuple(UNITS))))
