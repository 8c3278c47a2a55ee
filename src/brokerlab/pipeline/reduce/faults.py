"""What faults did to the messages of a run, by fault; number 0 is the time before the first.

A publication belongs to the last fault that began before it should have arrived, a tenth of a second after it was
due: what was on its way when a fault came is that fault's. So every pair of the ledger belongs to exactly one row.
Duplicates belong to the fault in whose time they arrived.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifests import RunFacts
from brokerlab.pipeline.reduce.expectation import Expectation
from brokerlab.pipeline.reduce.ledger import FirstArrivals
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import Bools, Longs, longs, read_files

ON_THE_WAY_NS = 100_000_000
BIN_NS = 100_000_000  # of the rate of arrivals
_NEVER = np.iinfo(np.int64).max
_NOTICED = ("closed", "failed")  # words in the name of an event by which a client notices
_AWAY = (*_NOTICED, "dropped")  # and of those by which it has no connection: in a storm it is the client that drops it
_LOCAL, _CROSSING = 0, 1


class FaultCount:
    """Takes the arrivals of one delivery worker."""

    def __init__(self, at_ns: Sequence[int], expected: Expectation, crosses: Bools | None) -> None:
        self._at_ns = np.array(at_ns, dtype=np.int64)
        flows = expected.flows.size
        self._crosses = np.zeros(flows, dtype=np.int64) if crosses is None else crosses.astype(np.int64)
        self._delivered = np.zeros((self._at_ns.size + 1, 2), dtype=np.int64)
        self._acknowledged = np.zeros(self._at_ns.size + 1, dtype=np.int64)
        self._again = np.zeros_like(self._delivered)  # arrivals that were not the first of their pair, by their time
        self._reordered = np.zeros_like(self._delivered)
        self._again_ns = np.full((self._at_ns.size + 1, flows), _NEVER, dtype=np.int64)
        self._highest = np.full(flows, -1, dtype=np.int64)  # intended, of what came before
        self._bins: dict[int, int] = {}

    def add(self, received_ns: Longs, flow: Longs, first: FirstArrivals) -> None:
        """Times and flows are of all arrivals of known messages, `first` of those that were first of their pair."""
        if not self._at_ns.size:
            return
        owner, crosses = owners(self._at_ns, first.intended_ns), self._crosses[first.flow]
        np.add.at(self._again, (self._time_of(received_ns), self._crosses[flow]), 1)
        np.subtract.at(self._again, (self._time_of(first.received_ns), crosses), 1)
        np.add.at(self._delivered, (owner, crosses), 1)
        np.add.at(self._acknowledged, owner[first.is_acknowledged], 1)
        after = first.intended_ns >= np.concatenate([[0], self._at_ns])[owner]
        np.minimum.at(self._again_ns, (owner[after], first.flow[after]), first.received_ns[after])
        behind = self._is_behind(first)
        np.add.at(self._reordered, (owner[behind], crosses[behind]), 1)
        for place, count in zip(*np.unique(first.received_ns // BIN_NS, return_counts=True), strict=True):
            self._bins[int(place)] = self._bins.get(int(place), 0) + int(count)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of families.FAULT_ARRIVED."""
        for number in range(self._at_ns.size + 1 if self._at_ns.size else 0):
            again = self._again_ns[number]
            came = again[again < _NEVER]
            yield {
                "fault": number,
                "delivered": int(self._delivered[number, _LOCAL]),
                "crossing_delivered": int(self._delivered[number, _CROSSING]),
                "acknowledged_delivered": int(self._acknowledged[number]),
                "duplicated_local": int(self._again[number, _LOCAL]),
                "duplicated_crossing": int(self._again[number, _CROSSING]),
                "reordered_local": int(self._reordered[number, _LOCAL]),
                "reordered_crossing": int(self._reordered[number, _CROSSING]),
                "first_ns": int(came.min()) if came.size else None,
                "last_ns": int(came.max()) if came.size else None,
            }

    def bin_rows(self) -> Iterator[dict[str, Any]]:
        """Rows of families.FAULT_BIN."""
        for place, count in sorted(self._bins.items()):
            yield {"bin_ns": place * BIN_NS, "arrivals": count}

    def _time_of(self, at_ns: Longs) -> Longs:
        return np.searchsorted(self._at_ns, at_ns, side="right")

    def _is_behind(self, first: FirstArrivals) -> Bools:
        """Which were intended before something of their flow that came before them."""
        if not first.flow.size:
            return np.zeros(0, dtype=np.bool_)
        # Flows lie side by side: with the flow on top, a running maximum starts anew with each.
        span = int(first.intended_ns.max()) + 1
        own = np.maximum.accumulate(first.flow * span + first.intended_ns) - first.flow * span
        starts = np.concatenate([[True], np.diff(first.flow) != 0])
        before = np.where(starts, -1, np.concatenate([[-1], own[:-1]]))
        behind: Bools = first.intended_ns < np.maximum(before, self._highest[first.flow])
        ends = np.flatnonzero(np.concatenate([np.diff(first.flow) != 0, [True]]))
        self._highest[first.flow[ends]] = np.maximum(self._highest[first.flow[ends]], own[ends])
        return behind


def owners(at_ns: Longs, intended_ns: Longs) -> Longs:
    """The fault that each publication belongs to; 0 is none."""
    return np.searchsorted(at_ns, intended_ns + ON_THE_WAY_NS, side="right")


def expected_rows(
    at_ns: Sequence[int], publications: Publications, expected: Expectation, crosses: Bools | None
) -> Iterator[dict[str, Any]]:
    """Rows of families.FAULT_EXPECTED."""
    if not at_ns:
        return
    owner = owners(np.array(at_ns, dtype=np.int64), publications.intended_ns)
    owed = expected.owed(publications)
    for number in range(len(at_ns) + 1):
        own = owed & (owner == number)
        pairs = expected.pairs(publications, own)
        acknowledged = expected.pairs(publications, own & publications.is_acknowledged)
        crossing = int(pairs[crosses].sum()) if crosses is not None else 0
        yield {
            "fault": number,
            "expected": int(pairs.sum()) - crossing,
            "crossing_expected": crossing,
            "acknowledged_expected": int(acknowledged.sum()),
        }


def noticed_rows(at_ns: Sequence[int], files: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Rows of families.FAULT_NOTICED: when the first client noticed, and how often a subscriber was away."""
    if not at_ns:
        return
    tables = list(read_files(files, "sessions", ("event", "at_ns", "node")))
    if not tables:
        return
    rows = pa.concat_tables(tables)
    hears = np.array([node.startswith("subscribers") for node in rows.column("node").to_pylist()], np.bool_)
    at = longs(rows, "at_ns")
    bad_ns, away_ns = np.sort(at[_says(rows, _NOTICED)]), at[_says(rows, _AWAY) & hears]
    ends = [*at_ns[1:], _NEVER]
    for number, (start, end) in enumerate(zip(at_ns, ends, strict=True), start=1):
        own = bad_ns[(bad_ns >= start) & (bad_ns < end)]
        yield {
            "fault": number,
            "noticed_ns": int(own[0]) if own.size else None,
            "noticed": int(own.size),
            "subscribers_away": int(((away_ns >= start) & (away_ns < end)).sum()),
        }


def _says(rows: pa.Table, words: Sequence[str]) -> Bools:
    """Which events have one of the words in their name."""
    return np.array([any(word in event for word in words) for event in rows.column("event").to_pylist()], np.bool_)


def fault_times(run: RunFacts) -> list[int]:
    """When each of a run's faults began, in order."""
    return [int(each["at_ns"]) for each in run.row["faults"]]
