"""What came in at routers, by phase (B-21)."""

from brokerlab.pipeline.schemas.kinds import BOOL, REAL, TEXT, Table, schema

OVERHEAD = schema(
    run_id=TEXT,
    cell=TEXT,
    node=TEXT,  # the router
    interface=TEXT,  # by where it leads: "site2", "switch"
    is_between_sites=BOOL,  # from another router
    phase=TEXT,
    seconds=REAL,
    rx_bytes=REAL,  # of whole frames; between two samples, on the line between them
    rx_packets=REAL,
    rx_dropped=REAL,
    bits_per_s=REAL,  # what came in over the time of the phase
    above_idle_bits_per_s=REAL,  # less that of the idle phase; null where there is none, and of it
)

_KEY = ("node", "interface", "phase")

TABLE = Table(OVERHEAD, grain=("run_id", *_KEY), order=("position", *_KEY))
