"""How much of a metric's variance is due to which factor."""

from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.schemas.kinds import INT, REAL, TEXT, Among, Table, schema

EFFECTS = schema(
    place=INT,  # factors, pairs, residual
    effect=TEXT,  # a factor, a pair as "broker × qos", or "residual"
    metric=TEXT,
    unit=TEXT,
    n=INT,  # valid runs
    degrees=INT,  # of freedom; 0: the levels vary only together with those of another factor, so no share
    sum_of_squares=REAL,  # of type II
    share_percent=REAL,  # of the whole variance; the shares add up where every cell has as many valid runs
    f=REAL,  # this and p: null of the residual, and where no run is left to hold it against
    p=REAL,
)

TABLE = Table(EFFECTS, grain=("effect", "metric"), order=(Among("metric", tuple(UNITS)), "place"))
