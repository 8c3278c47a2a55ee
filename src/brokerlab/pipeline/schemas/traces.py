"""Single messages, one after the other, as 003's Figures 6 and 7 draw them (C-07)."""

from brokerlab.pipeline.schemas.kinds import INT, LONG, REAL, TEXT, Table, schema

MOST_OF_A_FLOW = 1000  # messages, the first to arrive: a trace is there to be looked at

TRACES = schema(
    run_id=TEXT,
    cell=TEXT,
    subscriber=INT,  # this and the next: the flow
    publisher=LONG,
    place=LONG,  # from 1, among the first arrivals of publications intended in the measure phase, as they came
    message=LONG,  # from 1, among those publications by the time they were due, then by seq; null: not known
    apart_ms=REAL,  # since the arrival before it; null for the first
    latency_ms=REAL,  # since the intended time; null: not known which message it is
)

_KEY = ("run_id", "subscriber", "publisher", "place")
TABLE = Table(TRACES, grain=_KEY, order=_KEY)
