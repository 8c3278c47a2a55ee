"""The names that a study may use beside its own, and those that the design has and this version has not."""

METRICS = (
    "latency",
    "delivery",
    "throughput",
    "timeline",
    "jitter",
    "sessions",
    "capacity",
    "resources",
    "counters",
    "network",
    "traffic",
    "faults",
)
METRICS_LATER = ("quality",)

# The metrics of the cells table, by which brokers can be ranked.
RANKS = (
    "latency.mean",
    "latency.p50",
    "latency.p95",
    "latency.p99",
    "latency.p99_9",
    "latency.max",
    "delivery.failure_percent",
    "delivery.duplicated",
    "throughput.published_per_s",
    "throughput.delivered_per_s",
    "jitter.interarrival_sd",
    "jitter.rfc3550",
    "capacity.rate_per_s",
    "resources.broker_cpu_percent",
    "resources.broker_rss_max_mib",
    "resources.cpu_us_per_delivery",
    "resources.deliveries_per_core_s",
    "resources.kib_per_connection",
)

ARRIVALS_LATER: tuple[str, ...] = ()
FACTORS_LATER = ("deployment", "security", "environment", "topology", "arrivals")
TAPS = ("publisher", "broker", "subscriber", "router")
LOAD_ON = ("local", "spark")
PROTOCOLS = ("3.1", "3.1.1", "5.0")
DRIVERS_LATER = ("remote",)
BROKER_KEYS_MOVED = {
    "address": "options, as in options: {address: broker.example:1883}",
    "tls": "scenario.workload, as transport: tls",
    "credentials": "scenario.workload, for all brokers of the study",
}
