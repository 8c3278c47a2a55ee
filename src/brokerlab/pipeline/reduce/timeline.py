"""A run second by second, from the start of its warm-up to the end of its drain.

second k holds the times [start + k s, start + (k + 1) s)
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifest_row import Phase
from brokerlab.pipeline.reduce.raw import Longs, longs, longs_or_zero, stretches
from brokerlab.stats.histogram import BUCKETS, NEGATIVE_BUCKET, bucket_bounds, bucket_index

NS_PER_S = 1_000_000_000
_SHOWN = ("warmup", "measure", "drain")
_TRIAL = "trial-"
_SPARSE = 4  # places for each value: more is dearer to count than to sort


class Timeline:
    """The seconds of one run, and durations of one kind tallied in them."""

    def __init__(self, phases: Sequence[Phase]) -> None:
        self._phases = [phase for phase in phases if phase.name in _SHOWN or phase.name.startswith(_TRIAL)]
        self._start_ns = min((phase.start_ns for phase in self._phases), default=0)
        end_ns = max((phase.end_ns for phase in self._phases), default=0)
        self.seconds = -(-(end_ns - self._start_ns) // NS_PER_S)
        self._portions: list[tuple[Longs, Longs]] = []  # second * BUCKETS + bucket, and how often: most are empty
        self._min_ns = np.full(self.seconds, np.iinfo(np.int64).max)
        self._max_ns = np.full(self.seconds, np.iinfo(np.int64).min)

    def second_of(self, at_ns: Longs) -> Longs:
        """The second of each time, -1 where it is outside."""
        second = (at_ns - self._start_ns) // NS_PER_S
        return np.where((second >= 0) & (second < self.seconds), second, -1)

    def counts(self, at_ns: Longs) -> Longs:
        """How many of the times lie in each second."""
        second = self.second_of(at_ns)
        return np.bincount(second[second >= 0], minlength=self.seconds)

    def add(self, at_ns: Longs, duration_ns: Longs) -> None:
        """Tallies durations in the seconds of their times."""
        second = self.second_of(at_ns)
        is_inside = second >= 0
        if not is_inside.all():
            second, duration_ns = second[is_inside], duration_ns[is_inside]
        place = second * BUCKETS + bucket_index(duration_ns) - NEGATIVE_BUCKET
        self._portions.append(_counted(place))
        np.minimum.at(self._min_ns, second, duration_ns)
        np.maximum.at(self._max_ns, second, duration_ns)

    def ticks(self, kind: str) -> Iterator[dict[str, Any]]:
        """Rows of families.TICK: the seconds in which something was tallied."""
        second, bucket, n = self._merged()
        for start, end in stretches(second):
            at = int(second[start])
            yield {
                "second": at,
                "kind": kind,
                "n": int(n[start:end].sum()),
                "min_ns": int(self._min_ns[at]),
                "max_ns": int(self._max_ns[at]),
                "buckets": _buckets(bucket[start:end], n[start:end]),
            }

    def _merged(self) -> tuple[Longs, Longs, Longs]:
        """Second, bucket and count, ascending."""
        empty: Longs = np.zeros(0, dtype=np.int64)
        places, counts = (np.concatenate(part) for part in zip((empty, empty), *self._portions, strict=True))
        place, inverse = np.unique(places, return_inverse=True)
        n = np.zeros(place.size, dtype=np.int64)
        np.add.at(n, inverse, counts)
        second, bucket = np.divmod(place, BUCKETS)
        return second, bucket + NEGATIVE_BUCKET, n

    def rows(self, samples: pa.Table | None) -> list[dict[str, Any]]:
        """Rows of families.SECOND, all of them, also where nothing happened."""
        begins_ns = self._start_ns + NS_PER_S * np.arange(self.seconds)
        cpu = self._broker_cpu_percent(samples)
        return [
            {"second": second, "phase": self._phase_at(int(at_ns)), "broker_cpu_percent": cpu[second]}
            for second, at_ns in enumerate(begins_ns)
        ]

    def _phase_at(self, at_ns: int) -> str | None:
        return next((phase.name for phase in self._phases if phase.start_ns <= at_ns < phase.end_ns), None)

    def _broker_cpu_percent(self, samples: pa.Table | None) -> list[float | None]:
        """Of all broker processes together, on lines between samples; None where no process covers the second."""
        used_ns, is_covered = np.zeros(self.seconds), np.zeros(self.seconds, dtype=np.bool_)
        for at_ns, cpu_ns in _broker_processes(samples):
            edges_ns = NS_PER_S * np.arange(self.seconds + 1)
            since_ns = at_ns - self._start_ns
            is_within = (since_ns[0] <= edges_ns[:-1]) & (edges_ns[1:] <= since_ns[-1])
            used_ns += np.where(is_within, np.diff(np.interp(edges_ns, since_ns, cpu_ns - cpu_ns[0])), 0)
            is_covered |= is_within
        return [
            100 * float(used) / NS_PER_S if known else None for used, known in zip(used_ns, is_covered, strict=True)
        ]


def _counted(place: Longs) -> tuple[Longs, Longs]:
    """Each place that is there, and how often; without sorting where places lie close together."""
    least, most = (int(place.min()), int(place.max())) if place.size else (0, 0)
    if most - least > _SPARSE * place.size:
        return np.unique(place, return_counts=True)
    counts = np.bincount(place - least)
    filled = np.flatnonzero(counts)
    return filled + least, counts[filled]


def counted_ticks(kind: str, counts: Longs) -> list[dict[str, Any]]:
    """Rows of families.TICK that count and hold no durations."""
    empty: dict[str, Any] = {"min_ns": None, "max_ns": None, "buckets": []}
    return [
        {"second": int(second), "kind": kind, "n": int(counts[second]), **empty} for second in np.flatnonzero(counts)
    ]


def _buckets(bucket: Longs, n: Longs) -> list[dict[str, int | None]]:
    low, high = bucket_bounds(bucket)
    return [
        {"bucket": at, "low_ns": None if at == NEGATIVE_BUCKET else least, "high_ns": bound, "n": count}
        for at, least, bound, count in zip(bucket.tolist(), low.tolist(), high.tolist(), n.tolist(), strict=True)
    ]


def _broker_processes(samples: pa.Table | None) -> Iterator[tuple[Longs, Longs]]:
    """Times and CPU time of each process of the broker's nodes, in order of time."""
    if samples is None:
        return
    nodes, processes = samples.column("node").to_numpy(zero_copy_only=False), longs(samples, "process")
    is_broker = np.array([node.startswith("broker/") for node in nodes], dtype=np.bool_)
    for process in np.unique(processes[is_broker]):
        rows = np.flatnonzero(is_broker & (processes == process))
        at_ns, (cpu_ns, is_known) = longs(samples, "at_ns")[rows], longs_or_zero(samples, "cpu_ns")
        if is_known[rows].all():
            order = np.argsort(at_ns, kind="stable")
            yield at_ns[order], cpu_ns[rows][order]
