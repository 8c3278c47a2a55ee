"""The ledger of one delivery worker: what became of every publication × subscriber pair that it should get.

A pair has a place, and the pairs of a flow (subscriber, publisher) lie side by side in order of seq:

    place of a pair = base[subscriber, publisher] + seq        base is -1 where nothing is expected

Sorted by flow, stably, a running maximum of places therefore never looks back past the flow's own start,
and tells at once which arrivals are ahead of everything before them. Only the few others can be
duplicates or late, and only those are looked up.
"""

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.reduce.expectation import Expectation, places_of
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import Bools, Longs, longs, longs_or_zero

COLUMNS = ("subscriber", "publisher", "seq", "dup", "intended_ns", "received_ns", "resolution_ns")

# What is counted per flow; the names are columns of schemas.FLOW.
_COUNTS = (
    "arrivals",
    "delivered",
    "acknowledged_delivered",
    "late",
    "duplicated",
    "duplicated_flagged",
    "reordered",
    "measured_delivered",
    "measured_bytes",
)


@dataclass(frozen=True, slots=True)
class FirstArrivals:
    """Sorted by flow, and within a flow in order of arrival."""

    flow: Longs
    received_ns: Longs
    intended_ns: Longs
    sent_ns: Longs
    resolution_ns: Longs
    payload_bytes: Longs
    is_measured: Bools  # of publications that were intended in the measure phase
    is_acknowledged: Bools

    def measured(self) -> "FirstArrivals":
        """Those that latency is made of."""
        return self.where(self.is_measured)

    def where(self, mask: Bools) -> "FirstArrivals":
        return FirstArrivals(*(getattr(self, column.name)[mask] for column in fields(self)))


class Ledger:
    """Takes a worker's deliveries file by file, in order of arrival, and counts."""

    def __init__(self, publications: Publications, expected: Expectation, *, late_ns: int) -> None:
        self._late_ns = late_ns
        self._publications, self._expected = publications, expected
        reach = np.where(expected.matches, publications.reach, 0).ravel()
        starts = np.cumsum(reach) - reach
        self._base = np.where(expected.matches.ravel(), starts, -1)
        flows = self._base.size
        # Zeroed memory that is never touched costs nothing, so pairs of other workers' subscribers are free.
        self._is_seen = np.zeros(int(reach.sum()), dtype=np.bool_)
        self._highest = np.full(flows, -1, dtype=np.int64)
        self.counts = {name: np.zeros(flows, dtype=np.int64) for name in _COUNTS}
        self.last_received_ns = np.full(flows, np.iinfo(np.int64).min, dtype=np.int64)
        self.unexpected: dict[int, int] = {}  # arrivals by subscriber

    def add(self, deliveries: pa.Table) -> FirstArrivals:
        """Enters the rows of one file; returns the first arrivals among them."""
        flow, publication, is_expected = self._identify(deliveries)
        self._count_unexpected(longs(deliveries, "subscriber")[~is_expected])
        rows = np.flatnonzero(is_expected)
        # Stable, so that arrivals of a flow stay in their order; sixteen bits are sorted in linear time.
        key = flow[rows].astype(np.uint16) if self._base.size <= 2**16 else flow[rows]
        rows = rows[np.argsort(key, kind="stable")]
        is_dup = deliveries.column("dup").to_numpy()[rows]
        received_ns, resolution_ns = (longs(deliveries, name)[rows] for name in ("received_ns", "resolution_ns"))
        return self._enter(flow[rows], publication[rows], is_dup, received_ns, resolution_ns)

    def _identify(self, deliveries: pa.Table) -> tuple[Longs, Longs, Bools]:
        """Flow and publication of each row, and whether there are such; a foreign payload may claim anything."""
        publications, expected = self._publications, self._expected
        subscriber = places_of(longs(deliveries, "subscriber"), among=expected.subscribers)
        publisher = places_of(longs(deliveries, "publisher"), among=publications.publishers)
        seq = longs(deliveries, "seq")
        is_known = (subscriber >= 0) & (publisher >= 0) & (seq >= 0)
        flow = np.where(is_known, subscriber * publications.publishers.size + publisher, 0)
        is_known[is_known] = (self._base[flow[is_known]] >= 0) & (
            seq[is_known] < publications.reach[publisher[is_known]]
        )
        publication = np.zeros(seq.size, dtype=np.int64)
        publication[is_known] = publications.base[publisher[is_known]] + seq[is_known]
        # The intended time is part of a message's identity: a message of another run carries another one.
        # One that does not carry it must at least have been due before it came.
        intended, carries_time = longs_or_zero(deliveries, "intended_ns")
        received, place = longs(deliveries, "received_ns")[is_known], publication[is_known]
        due = publications.intended_ns[place]
        is_right = np.where(carries_time[is_known], due == intended[is_known], due <= received)
        is_known[is_known] = publications.is_published[place] & is_right
        return flow, publication, is_known

    def _count_unexpected(self, subscribers: Longs) -> None:
        for subscriber, arrivals in zip(*np.unique(subscribers, return_counts=True), strict=True):
            self.unexpected[int(subscriber)] = self.unexpected.get(int(subscriber), 0) + int(arrivals)

    def _enter(
        self, flow: Longs, publication: Longs, is_dup: Bools, received_ns: Longs, resolution_ns: Longs
    ) -> FirstArrivals:
        """Enters rows that are sorted by flow."""
        publications = self._publications
        publisher = flow % max(publications.publishers.size, 1)
        pair = self._base[flow] + publication - publications.base[publisher]
        is_first, is_late = self._first_arrivals(flow, pair)
        is_measured = is_first & publications.is_measured[publication]
        self._count("arrivals", flow)
        self._count("delivered", flow[is_first])
        self._count("acknowledged_delivered", flow[is_first & publications.is_acknowledged[publication]])
        self._count("late", flow[is_first & (received_ns - publications.intended_ns[publication] > self._late_ns)])
        self._count("duplicated", flow[~is_first])
        self._count("duplicated_flagged", flow[~is_first & is_dup])
        self._count("reordered", flow[is_late])
        self._count("measured_delivered", flow[is_measured])
        of = publication[is_measured]
        np.add.at(self.counts["measured_bytes"], flow[is_measured], publications.payload_bytes[of])
        np.maximum.at(self.last_received_ns, flow[is_measured], received_ns[is_measured])
        first = publication[is_first]
        return FirstArrivals(
            flow=flow[is_first],
            received_ns=received_ns[is_first],
            intended_ns=publications.intended_ns[first],
            sent_ns=publications.sent_ns[first],
            resolution_ns=resolution_ns[is_first],
            payload_bytes=publications.payload_bytes[first],
            is_measured=is_measured[is_first],
            is_acknowledged=publications.is_acknowledged[first],
        )

    def _count(self, name: str, flow: Longs) -> None:
        self.counts[name] += np.bincount(flow, minlength=self._base.size)

    def _first_arrivals(self, flow: Longs, pair: Longs) -> tuple[Bools, Bools]:
        """Which rows are first arrivals, and which of these are late: below the highest seq before them."""
        running = np.maximum.accumulate(pair)
        before = np.maximum(np.concatenate([[-1], running[:-1]])[: pair.size], self._highest[flow])
        is_ahead = pair > before
        self._is_seen[pair[is_ahead]] = True
        behind = np.flatnonzero(~is_ahead)
        behind = behind[~self._is_seen[pair[behind]]]
        late_pair, at = np.unique(pair[behind], return_index=True)  # the first of equals
        self._is_seen[late_pair] = True
        is_late = np.zeros(pair.size, dtype=np.bool_)
        is_late[behind[at]] = True
        ends = np.flatnonzero(np.diff(flow, append=-1))
        self._highest[flow[ends]] = np.maximum(self._highest[flow[ends]], running[ends])
        return is_ahead | is_late, is_late
