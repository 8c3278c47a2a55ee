"""The metrics of table `cells` in words, and which direction is better.

Metric      a name of the table, such as latency.p99
Estimate    what the table says of one metric of one cell: mean over valid runs, and its interval
"""

from dataclasses import dataclass

from brokerlab.report.numbers import NOT_KNOWN, decimals, fixed, last_place, significant, timed

_NOT_TOLD = "resolution not known"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    label: str
    larger_is_better: bool = False

    @property
    def superlative(self) -> str:
        return "highest" if self.larger_is_better else "lowest"

    @property
    def is_latency(self) -> bool:
        return self.name.startswith("latency.")

    @property
    def is_time(self) -> bool:
        """Whether it is made of times of arrival, which are only so exact."""
        return self.is_latency or self.name.startswith("jitter.")


_KNOWN = (
    Metric("latency.mean", "mean latency"),
    Metric("latency.p50", "median latency"),
    Metric("latency.p95", "p95 latency"),
    Metric("latency.p99", "p99 latency"),
    Metric("latency.p99_9", "p99.9 latency"),
    Metric("latency.max", "largest latency"),
    Metric("delivery.failure_percent", "share of lost messages"),
    Metric("delivery.duplicated", "number of duplicates"),
    Metric("throughput.published_per_s", "publishing rate", larger_is_better=True),
    Metric("throughput.delivered_per_s", "delivery rate", larger_is_better=True),
    Metric("jitter.interarrival_sd", "spread of inter-arrival times"),
    Metric("jitter.rfc3550", "RFC 3550 jitter"),
    Metric("capacity.rate_per_s", "capacity", larger_is_better=True),
    Metric("resources.broker_cpu_percent", "CPU use of the broker"),
    Metric("resources.broker_rss_max_mib", "memory of the broker"),
    Metric("resources.cpu_us_per_delivery", "CPU time per delivery"),
    Metric("resources.deliveries_per_core_s", "deliveries per busy core-second", larger_is_better=True),
    Metric("resources.kib_per_connection", "memory per connection"),
)
METRICS = {metric.name: metric for metric in _KNOWN}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean of the valid runs of a cell; the interval is unknown below two runs."""

    metric: Metric
    unit: str
    n: int
    mean: float
    low: float | None
    high: float | None
    resolution: float | None = None  # of a time (numbers.py); None where it is not known, and of all else

    @property
    def least(self) -> float | None:
        """Where the interval begins if every message came as early as it may have: a latency is an upper bound."""
        return self.low if self.low is None or not self.metric.is_latency else self.low - (self.resolution or 0.0)

    def overlaps(self, other: "Estimate") -> bool:
        """Whether these runs do not tell the two apart; without intervals nothing is told apart."""
        if self.least is None or self.high is None or other.least is None or other.high is None:
            return True
        return self.least <= other.high and other.least <= self.high

    @property
    def places(self) -> int:
        """Decimals of the mean if it were exact.

        Three significant digits, and more where the interval is narrower than that.
        """
        usual = decimals(self.mean)
        if self.low is None or self.high is None or self.high == self.low:
            return usual
        needed = decimals((self.high - self.low) / 2, digits=1)
        return max(usual, min(needed, decimals(self.mean, digits=5)))

    @property
    def mean_text(self) -> str:
        return timed(self.mean, resolution=self.resolution, places=self.places, is_bound=self.metric.is_latency)

    @property
    def interval_text(self) -> str:
        """None of the metrics can be negative, so an interval that would reach below 0 is shown from 0."""
        if self.least is None or self.high is None:
            return NOT_KNOWN
        places = min(self.places, last_place(self.resolution))
        return f"{fixed(max(self.least, 0.0), places)} – {fixed(self.high, places)}"

    @property
    def below(self) -> str:
        """What stands small below the mean: the interval, and of a time how exact it is."""
        interval = "" if self.low is None else self.interval_text
        return "; ".join(part for part in (interval, self.resolution_text) if part)

    @property
    def resolution_text(self) -> str:
        """Of a time that is not known exactly; empty of all else, and where every arrival has a stamp of its own."""
        if not self.metric.is_time or self.resolution == 0:
            return ""
        return _NOT_TOLD if self.resolution is None else f"resolution {significant(self.resolution, digits=2)}"


def best_first(estimates: list[Estimate]) -> list[Estimate]:
    return sorted(estimates, key=lambda e: -e.mean if e.metric.larger_is_better else e.mean)
