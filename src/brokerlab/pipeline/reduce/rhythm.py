"""The rhythm of every flow of one delivery worker: when its messages came, one after the other.

It keeps sixteen bytes for each first arrival of the measure phase, because a median must have seen all of them.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from brokerlab.pipeline.reduce.expectation import Expectation
from brokerlab.pipeline.reduce.latency import unknown_ns
from brokerlab.pipeline.reduce.ledger import FirstArrivals
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import NOT_TOLD, Longs, stretches
from brokerlab.stats.jitter import block_count, growth, rfc3550_jitter_ns


class Rhythm:
    """Takes first arrivals portion by portion; within a flow they are in order of arrival."""

    def __init__(self, *, has_latency: bool = True) -> None:
        self._has_latency = has_latency
        self._portions: dict[int, list[tuple[Longs, Longs]]] = {}  # by flow: times of arrival, and latencies
        self._resolution_sum_ns: dict[int, float] = {}  # by flow; not a number where one of it is not told

    def add(self, measured: FirstArrivals) -> None:
        received_ns, latency_ns = measured.received_ns, measured.received_ns - measured.intended_ns
        resolution_ns = measured.resolution_ns
        if self._has_latency:
            resolution_ns = unknown_ns(resolution_ns, of=latency_ns)
        for start, end in stretches(measured.flow):
            own = self._portions.setdefault(int(measured.flow[start]), [])
            own.append((received_ns[start:end], latency_ns[start:end]))
            self._add_resolution(int(measured.flow[start]), resolution_ns[start:end])

    def _add_resolution(self, flow: int, resolution_ns: Longs) -> None:
        is_told = int(resolution_ns.min()) != NOT_TOLD
        own = float(resolution_ns.sum(dtype=np.float64)) if is_told else math.nan
        self._resolution_sum_ns[flow] = self._resolution_sum_ns.get(flow, 0.0) + own

    def rows(self, publications: Publications, expected: Expectation) -> Iterator[dict[str, Any]]:
        """Rows of families.RHYTHM."""
        for flow, portions in sorted(self._portions.items()):
            received_ns, latency_ns = (np.concatenate(part) for part in zip(*portions, strict=True))
            subscriber, publisher = expected.flows.subscriber[flow], expected.flows.publisher[flow]
            resolution_ns = self._resolution_sum_ns[flow] / received_ns.size
            yield {
                "subscriber": int(expected.subscribers[subscriber]),
                "publisher": int(publications.publishers[publisher]),
                "resolution_mean_ns": None if math.isnan(resolution_ns) else resolution_ns,
                **(rhythm(received_ns, latency_ns) if self._has_latency else intervals(received_ns)),
            }


def rhythm(received_ns: Longs, latency_ns: Longs) -> dict[str, Any]:
    """The columns of families.RHYTHM but the flow's name and its resolution."""
    grown = growth(latency_ns)
    return intervals(received_ns) | {
        "jitter_ns": rfc3550_jitter_ns(latency_ns),
        "growth_slope_ns": grown.slope_ns if grown else None,
        "growth_p": grown.p if grown else None,
        "monotone_growth": grown.is_monotone if grown else None,
        "blocks": block_count(latency_ns),
    }


def intervals(received_ns: Longs) -> dict[str, Any]:
    """The same, of a flow of which only the arrivals are known."""
    apart_ns = np.diff(received_ns).astype(np.float64)
    return {
        "n": received_ns.size,
        "interarrival_mean_ns": float(apart_ns.mean()) if apart_ns.size else None,
        "interarrival_sd_ns": float(apart_ns.std(ddof=1)) if apart_ns.size > 1 else None,
        **dict.fromkeys(("jitter_ns", "growth_slope_ns", "growth_p", "monotone_growth", "blocks")),
    }
