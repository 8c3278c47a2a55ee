"""The boxes of 000's Figure 10: what the latencies of a cell look like (M-27)."""

from pyspark.sql import types as T

from brokerlab.pipeline.schemas.kinds import LONG, REAL, TEXT, Table, schema

# Quartiles and what follows from them are upper edges of histogram buckets, at most 1 % above the exact value.
BOXES = schema(
    cell=TEXT,
    n=LONG,  # first arrivals of all valid runs together
    min_ms=REAL,  # this and the largest: exact
    q1_ms=REAL,
    median_ms=REAL,
    q3_ms=REAL,
    max_ms=REAL,
    low_whisker_ms=REAL,  # the furthest message within 1.5 times the height of the box
    high_whisker_ms=REAL,
    outliers=LONG,  # messages beyond the whiskers
    outliers_ms=T.ArrayType(REAL),  # where they lie, each place once
)

TABLE = Table(BOXES, grain=("cell",), order=("cell",))
