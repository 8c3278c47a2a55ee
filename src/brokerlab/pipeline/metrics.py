"""The metrics of runs: name, unit, and which direction is better. No Spark in sight: the report reads them too."""

from brokerlab.study.names import RANKS

# In the order of the tables.
UNITS = {
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
    "resources.deliveries_per_core_s": "1/s",
    "resources.kib_per_connection": "KiB",
}
LARGER_IS_BETTER = frozenset(
    {
        "throughput.published_per_s",
        "throughput.delivered_per_s",
        "capacity.rate_per_s",
        "resources.deliveries_per_core_s",
    }
)

assert tuple(UNITS) == RANKS, "a study can rank by every metric, and by no other"
