"""What the nodes used."""

from brokerlab.pipeline.schemas.kinds import BOOL, LONG, REAL, TEXT, Among, Table, schema

_PHASES = ("idle", "connect", "subscribe", "warmup", "measure", "drain", "teardown")

RESOURCES = schema(
    run_id=TEXT,
    cell=TEXT,
    node=TEXT,
    phase=TEXT,
    seconds=REAL,
    cpu_s=REAL,
    cpu_percent=REAL,  # of one core
    rss_mean_mib=REAL,
    rss_max_mib=REAL,
    read_bytes=LONG,
    written_bytes=LONG,
    threads_max=LONG,  # this and the next: null in runs of before they were sampled
    open_files_max=LONG,
    cpu_us_per_delivery=REAL,  # this and the next: measure phase only
    deliveries_per_core_s=REAL,
    rss_kib_per_connection=REAL,  # broker nodes, measure phase: mean memory over what it was before anybody connected
    projected_per_s=REAL,  # this and the next: broker nodes in the measure phase only
    projection_is_extrapolation=BOOL,
)

TABLE = Table(
    RESOURCES, grain=("run_id", "node", "phase"), order=("position", "node", Among("phase", _PHASES), "phase")
)
