"""Between jobs: what was printed, and claims about it."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, TEXTS, schema

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
)

# Claims of the rule `order`; null lists mean everything.
ORDER_CLAIMS = schema(
    claim=TEXT,
    sources=TEXTS,
    metric=TEXT,
    lowest=BOOL,  # the lowest value is best
    each=TEXTS,  # columns whose values make a cell
    qos=TEXTS,
    intervals_ms=TEXTS,
    among=TEXTS,
    without=TEXTS,
    asks=TEXT,  # first | last | order
    expected=TEXTS,  # brokers
)

CHANGE_CLAIMS = schema(claim=TEXT, sources=TEXTS, metric=TEXT, lowest=BOOL, before=TEXT, after=TEXT)

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
