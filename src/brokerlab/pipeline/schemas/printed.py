"""Between jobs: what was printed, and claims about it."""

from pyspark.sql import types as T

from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, TEXT_BY_TEXT, TEXTS, schema

# One row per printed number, or per number of ours under the same names; published/values.py says what they mean.
VALUES = schema(
    source=TEXT,
    broker=TEXT,
    printed_broker=TEXT,
    version=TEXT,
    qos=TEXT,
    environment=TEXT,
    kind=TEXT,
    interval_ms=TEXT,
    statistic=TEXT,
    variant=TEXT,
    feature=TEXT,
    outcome=TEXT,
    metric=TEXT,
    value=REAL,
    bound=TEXT,
    printed=TEXT,
    unit=TEXT,
    note=TEXT,
    levels=TEXT_BY_TEXT,
)

# Claims of the rules order, change and limit; null lists mean everything.
LEVEL_CLAIMS = schema(
    claim=TEXT,
    sources=TEXTS,
    metric=TEXT,
    of=TEXT,  # the axis: broker, or a factor whose levels are compared; null: nothing is compared
    each=TEXTS,  # levels that make a cell
    where=T.MapType(TEXT, TEXTS),  # levels that a value must have, one of several
    among=TEXTS,  # brokers
    without=TEXTS,
    lowest=BOOL,  # the lowest value is best
    asks=TEXT,  # of order: first | last | order
    expected=TEXTS,
    before=TEXTS,  # of change: levels
    after=TEXTS,
    at_least=REAL,  # of the ratio of a change, or of a value
    at_most=REAL,
)

# One row per claim and cell: what its rule found there.
FINDINGS = schema(claim=TEXT, cell=TEXT, holds=BOOL, said=TEXT)

ABOUT_CLAIMS = schema(claim=TEXT, position=INT, paper=TEXT, section=TEXT, text=TEXT, rule=TEXT, held_against=TEXT)

# One row per cell of ours and printed metric that says the same.
OURS = schema(
    metric=TEXT,
    broker=TEXT,  # under the name that papers and we share
    our_qos=TEXT,
    our_statistic=TEXT,  # the printed one that this may stand beside; null: any
    others=TEXT,  # levels of the other factors
    kind=TEXT,  # scalable | non-scalable
    lowest=BOOL,
    cell=TEXT,
    our_broker=TEXT,
    our_version=TEXT,
    our_metric=TEXT,
    our_value=REAL,
    our_unit=TEXT,
    our_low=REAL,
    our_high=REAL,
    our_n=INT,
    extrapolates=BOOL,  # of projected rates: in some of the runs the CPU was below 80 %
)
