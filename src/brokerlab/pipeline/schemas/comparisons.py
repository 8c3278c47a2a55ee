"""Pairs of levels beside each other."""

from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, TEXT_BY_TEXT, Among, Table, schema

COMPARISONS = schema(
    factor=TEXT,
    level_a=TEXT,
    level_b=TEXT,
    within=TEXT,  # the levels of the other factors, as "qos=1, rate=100"; "": no other varies; "all": over all of them
    levels=TEXT_BY_TEXT,  # the same as a map; empty over all
    metric=TEXT,
    unit=TEXT,
    method=TEXT,  # welch: of valid runs; paired: of the means of cells that differ in nothing else, over all
    n_a=INT,  # runs, or cells where paired
    n_b=INT,
    mean_a=REAL,
    mean_b=REAL,
    difference=REAL,  # a - b
    low=REAL,
    high=REAL,
    difference_percent=REAL,  # of b's mean
    hedges_g=REAL,  # in pooled standard deviations of runs; null where paired, or without a spread
    g_low=REAL,
    g_high=REAL,
    p=REAL,  # two-sided; null below two runs
    corrected_p=REAL,  # Holm, over all pairs of the factor here
    margin=REAL,  # what counts as equivalent
    equivalent_p=REAL,  # two one-sided tests against the margin, corrected as p
    same=BOOL,  # two names of the same set-up (A/A)
    floor=REAL,  # what two names of the same set-up lie apart here; null without such a pair
    is_tie=BOOL,  # the difference lies within the floor; null without one
    resolution=REAL,  # of a time: the coarser one's, beyond which a difference must be; null: not known, or no time
    answer=TEXT,  # of a beside b: better | worse | equivalent | not distinguishable
    confidence_percent=REAL,
)

TABLE = Table(
    COMPARISONS,
    grain=("factor", "level_a", "level_b", "within", "metric"),
    order=(Among("metric", tuple(UNITS)), "factor", "within", "level_a", "level_b"),
)
