"""How evenly flows arrive."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, LONG, REAL, TEXT, Table, schema

JITTER = schema(
    run_id=TEXT,
    cell=TEXT,
    subscriber=INT,  # this and the next: the flow
    publisher=LONG,
    n=LONG,  # first arrivals of publications intended in the measure phase, as all that follows
    interarrival_mean_ms=REAL,
    interarrival_sd_ms=REAL,
    rfc3550_ms=REAL,  # after the last message
    resolution_mean_ms=REAL,  # how much earlier they may have come, on average: messages of one read share a stamp
    lost=LONG,
    monotone_growth=BOOL,  # by the rule of stats/jitter.py; null below two arrivals
    growth_ms_per_message=REAL,  # Sen's slope
    growth_p=REAL,  # of Mann-Kendall's test, one-sided
    blocks=LONG,  # how often the flow stood still for more than 100 ms and went on
    outcome=TEXT,  # the first that holds: collapse | lost data | growing | temporary block | ok; null: not known
)

TABLE = Table(JITTER, grain=("run_id", "subscriber", "publisher"), order=("position", "subscriber", "publisher"))
