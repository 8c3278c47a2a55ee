"""Who stands where by a printed metric: of a paper, and of ours (S-14)."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, Table, schema

RANKINGS = schema(
    metric=TEXT,  # as in published/names.yaml
    of=TEXT,  # the paper, such as 002, or ours
    circumstances=TEXT,  # environment and statistic as printed; levels of our other factors
    qos=TEXT,  # null: not stated
    kind=TEXT,  # scalable | non-scalable; null: not known
    broker=TEXT,  # the name that papers and we share
    name=TEXT,  # as printed, or as our study calls it
    version=TEXT,
    value=REAL,
    unit=TEXT,
    low=REAL,  # this and the next two: of ours
    high=REAL,
    n=INT,  # valid runs
    extrapolates=BOOL,  # a projection from less than 80 % of the CPU; null: no projection
    place=INT,  # the best is 1
    floor=REAL,  # what two names of the same broker lie apart here; null without such a pair
    is_tie=BOOL,  # no further from the place before than the floor; null without one
)

TABLE = Table(
    RANKINGS,
    grain=("metric", "of", "circumstances", "qos", "name"),
    order=("metric", "of", "circumstances", "qos", "place", "name"),
)
