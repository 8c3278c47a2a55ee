"""What happened in a run on the scripted broker: by its own notes, by the raw rows, and by arithmetic on these.

Messages are named as in the script, from 1; times are of the one clock of the machine.
"""

import math
from dataclasses import dataclass

import pyarrow.parquet as pq

from brokerlab.load.deeds import read_deeds

CLOCK_NS = 50_000  # arrivals are stamped by the wall clock, which is brought onto ours (load/wallclock.py)
QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p99_9_ms": 0.999, "p99_99_ms": 0.9999}
NOTHING_MS = ("mean_ms", "sd_ms", "min_ms", *QUANTILES, "max_ms", "resolution_mean_ms", "resolution_max_ms")


@dataclass(frozen=True)
class Truth:
    """Of one run with one publisher, whose messages subscriber 0 should get."""

    publications: dict  # rows by number
    arrivals: dict  # rows of first arrivals by number
    deeds: list

    def times(self, name, client=""):
        """When the broker did this first with each message; `client` is how the client's name ends."""
        found = {}
        for deed in self.deeds:
            if deed.name == name and deed.client.endswith(client):
                found.setdefault(deed.number, deed.at_ns)
        return found

    def latencies_ns(self, kind):
        """By number, since the intended time or the time of sending."""
        return {n: row["received_ns"] - self.publications[n][f"{kind}_ns"] for n, row in self.arrivals.items()}

    def late(self, late_s):
        return {n for n, ns in self.latencies_ns("intended").items() if ns > late_s * 1e9}


def truth_of(run):
    publications = {row["seq"] + 1: row for row in _rows(run, "publications")}
    own = [row for row in _rows(run, "deliveries") if row["subscriber"] == 0 and row["publisher"] == 0]
    arrivals = {}
    for row in own:
        arrivals.setdefault(row["seq"] + 1, row)
    return Truth(publications, arrivals, read_deeds(run.broker / "0" / "deeds.csv"))


def _rows(run, kind):
    return [row for file in run.files(kind) for row in pq.read_table(file).to_pylist()]


def exact_ms(latencies_ns):
    """The columns of table `latency` that follow from some latencies, without histograms."""
    values, n = sorted(latencies_ns), len(latencies_ns)
    mean = sum(values) / n
    return {
        "mean_ms": mean / 1e6,
        "sd_ms": math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1)) / 1e6,
        "min_ms": values[0] / 1e6,
        "max_ms": values[-1] / 1e6,
        **{name: values[math.ceil(round(n * share, 6)) - 1] / 1e6 for name, share in QUANTILES.items()},
    }
