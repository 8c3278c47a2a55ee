"""Metrics of cells."""

from brokerlab.pipeline.schemas.kinds import INT, REAL, TEXT, TEXT_BY_TEXT, Among, Table, schema

# Name and unit of every metric, in the order of the table.
METRICS = {
    "latency.mean": "ms",
    "latency.p50": "ms",
    "latency.p95": "ms",
    "latency.p99": "ms",
    "latency.p99_9": "ms",
    "latency.max": "ms",
    "delivery.failure_percent": "%",
    "delivery.duplicated": "messages",
    "throughput.published_per_s": "1/s",
    "throughput.delivered_per_s": "1/s",
    "jitter.interarrival_sd": "ms",
    "jitter.rfc3550": "ms",
    "capacity.rate_per_s": "1/s",
    "resources.broker_cpu_percent": "%",
    "resources.broker_rss_max_mib": "MiB",
    "resources.cpu_us_per_delivery": "µs",
}

CELLS = schema(
    cell=TEXT,
    broker=TEXT,
    qos=INT,
    levels=TEXT_BY_TEXT,
    metric=TEXT,
    unit=TEXT,
    n=INT,  # valid runs that have the metric
    invalid_runs=INT,
    mean=REAL,
    low=REAL,
    high=REAL,
    sd=REAL,
    min=REAL,
    max=REAL,
    confidence_percent=REAL,
)

TABLE = Table(CELLS, grain=("cell", "metric"), order=("position", Among("metric", tuple(METRICS))))
