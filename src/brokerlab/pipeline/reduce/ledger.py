"""The ledger of one delivery worker: what became of every publication × subscriber pair that it should get.

A pair has a place, and the pairs of a flow (subscriber, publisher) lie side by side in order of seq:

    place of a pair = base[flow] + place in the flow      the seq itself where the flow hears all topics

Sorted by flow, stably, a running maximum of places therefore never looks back past the flow's own start,
and tells at once which arrivals are ahead of everything before them. Only the few others can be
duplicates or late, and only those are looked up. In a group of a shared subscription order is a matter of each
member, but the pairs are the group's: there every arrival is looked up.

An arrival beyond the first is `overlapping` where another filter of the subscriber matches the message too: the
broker may deliver it once for each (MQTT 3.1.1 section 3.3.5). It is `duplicated` beyond that, or with DUP set.
"""

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.reduce.expectation import Expectation, places_of
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import Bools, Longs, longs, longs_or_zero

COLUMNS = ("subscriber", "publisher", "seq", "dup", "intended_ns", "received_ns", "resolution_ns")

# What is counted per flow; the names are columns of schemas.families.FLOW.
_COUNTS = (
    "arrivals",
    "delivered",
    "acknowledged_delivered",
    "late",
    "duplicated",
    "duplicated_flagged",
    "overlapping",
    "reordered",
    "stale",
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


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """Rows of a file; without meaning where the subscriber does not hear the publication."""

    flow: Longs
    place: Longs  # in the flow
    copies: Longs  # filters of the subscriber that match
    publication: Longs
    is_dup: Bools
    received_ns: Longs
    resolution_ns: Longs
    row: Longs  # in the file

    def only(self, rows: Longs) -> "_Arrivals":
        return _Arrivals(*(getattr(self, column.name)[rows] for column in fields(self)))


class Ledger:
    """Takes a worker's deliveries file by file, in order of arrival, and counts."""

    def __init__(self, publications: Publications, expected: Expectation, *, late_ns: int) -> None:
        self._late_ns = late_ns
        self.publications, self.expected = publications, expected
        self._is_owed = expected.owed(publications)
        sizes = expected.sizes(publications.reach)
        self._base = np.cumsum(sizes) - sizes
        flows = expected.flows.size
        # Zeroed memory that is never touched costs nothing, so pairs of other workers' subscribers are free.
        self._is_seen = np.zeros(int(sizes.sum()), dtype=np.bool_)
        self._again = np.zeros(self._is_seen.size if expected.flows.is_overlapping else 0, dtype=np.uint8)
        self._highest = np.full(flows, -1, dtype=np.int64)
        self.counts = {name: np.zeros(flows, dtype=np.int64) for name in _COUNTS}
        self._latest_ns = np.full(flows, np.iinfo(np.int64).min, dtype=np.int64)  # whatever it was
        self.steps_back = 0  # arrivals before the one that was written before them: no clock of ours does that
        self.last_received_ns = np.full(flows, np.iinfo(np.int64).min, dtype=np.int64)
        self.received_ns = np.empty(0, dtype=np.int64)  # of the last rows that were entered: all that are expected
        self.unexpected: dict[int, int] = {}  # arrivals by subscriber

    def anew(self) -> "Ledger":
        """An empty ledger of the same run."""
        return Ledger(self.publications, self.expected, late_ns=self._late_ns)

    def add(self, deliveries: pa.Table) -> FirstArrivals:
        """Enters the rows of one file; returns the first arrivals among them."""
        arrivals, is_expected = self._identify(deliveries)
        self._count_unexpected(longs(deliveries, "subscriber")[~is_expected])
        if self.expected.is_replay:
            is_stale = is_expected & ~self._is_owed[arrivals.publication]
            self._count("stale", arrivals.flow[is_stale])
            is_expected &= ~is_stale
        rows = np.flatnonzero(is_expected)
        self.received_ns = arrivals.received_ns[rows]
        # Stable, so that arrivals of a flow stay in their order; sixteen bits are sorted in linear time.
        key = arrivals.flow[rows].astype(np.uint16) if self._base.size <= 2**16 else arrivals.flow[rows]
        return self._enter(arrivals.only(rows[np.argsort(key, kind="stable")]))

    def _identify(self, deliveries: pa.Table) -> tuple[_Arrivals, Bools]:
        """The rows, and which of them are publications that their subscriber hears; a payload may claim anything."""
        publications, expected = self.publications, self.expected
        subscriber = places_of(longs(deliveries, "subscriber"), among=expected.subscribers)
        publisher = places_of(longs(deliveries, "publisher"), among=publications.publishers)
        seq = longs(deliveries, "seq")
        is_known = (subscriber >= 0) & (publisher >= 0) & (seq >= 0)
        flow = np.where(is_known, expected.flow_of(subscriber, publisher), -1)
        is_known &= flow >= 0
        is_known[is_known] = seq[is_known] < publications.reach[publisher[is_known]]
        publication = np.zeros(seq.size, dtype=np.int64)
        publication[is_known] = publications.base[publisher[is_known]] + seq[is_known]
        place, copies = np.full(seq.size, -1, dtype=np.int64), np.zeros(seq.size, dtype=np.int64)
        place[is_known], copies[is_known] = expected.place_in(flow[is_known], seq[is_known])
        is_known &= place >= 0
        # The intended time is part of a message's identity: a message of another run carries another one.
        # One that does not carry it must at least have been due before it came.
        intended, carries_time = longs_or_zero(deliveries, "intended_ns")
        received_ns, own = longs(deliveries, "received_ns"), publication[is_known]
        due = publications.intended_ns[own]
        is_right = np.where(carries_time[is_known], due == intended[is_known], due <= received_ns[is_known])
        is_known[is_known] = publications.is_published[own] & is_right
        arrivals = _Arrivals(
            flow=flow,
            place=place,
            copies=copies,
            publication=publication,
            is_dup=deliveries.column("dup").fill_null(False).to_numpy(),
            received_ns=received_ns,
            resolution_ns=longs_or_zero(deliveries, "resolution_ns")[0],
            row=np.arange(seq.size),
        )
        return arrivals, is_known

    def _count_unexpected(self, subscribers: Longs) -> None:
        for subscriber, arrivals in zip(*np.unique(subscribers, return_counts=True), strict=True):
            self.unexpected[int(subscriber)] = self.unexpected.get(int(subscriber), 0) + int(arrivals)

    def _enter(self, arrivals: _Arrivals) -> FirstArrivals:
        """Enters rows that are sorted by flow."""
        self._count_steps_back(arrivals)
        publications, flow, publication = self.publications, arrivals.flow, arrivals.publication
        pair = self._base[self.expected.leader[flow]] + arrivals.place
        is_first, is_late = self._first_arrivals(arrivals, pair)
        if self.expected.is_replay:  # one message a topic has no order, and topics have none among them
            is_late = np.zeros_like(is_late)
        is_overlapping = self._overlapping(arrivals, pair, ~is_first & ~arrivals.is_dup)
        is_again = ~is_first & ~is_overlapping
        is_measured = is_first & publications.is_measured[publication]
        self._count("arrivals", flow)
        self._count("delivered", flow[is_first])
        self._count("acknowledged_delivered", flow[is_first & publications.is_acknowledged[publication]])
        after_ns = arrivals.received_ns - publications.intended_ns[publication]
        self._count("late", flow[is_first & (after_ns > self._late_ns) & (not self.expected.is_replay)])
        self._count("duplicated", flow[is_again])
        self._count("duplicated_flagged", flow[is_again & arrivals.is_dup])
        self._count("overlapping", flow[is_overlapping])
        self._count("reordered", flow[is_late])
        self._count("measured_delivered", flow[is_measured])
        of = publication[is_measured]
        np.add.at(self.counts["measured_bytes"], flow[is_measured], publications.payload_bytes[of])
        np.maximum.at(self.last_received_ns, flow[is_measured], arrivals.received_ns[is_measured])
        first = publication[is_first]
        return FirstArrivals(
            flow=flow[is_first],
            received_ns=arrivals.received_ns[is_first],
            intended_ns=publications.intended_ns[first],
            sent_ns=publications.sent_ns[first],
            resolution_ns=arrivals.resolution_ns[is_first],
            payload_bytes=publications.payload_bytes[first],
            is_measured=is_measured[is_first],
            is_acknowledged=publications.is_acknowledged[first],
        )

    def _count_steps_back(self, arrivals: _Arrivals) -> None:
        flow, received_ns = arrivals.flow, arrivals.received_ns
        begins = np.flatnonzero(np.diff(flow, prepend=-1))
        before_ns = np.concatenate([received_ns[:1], received_ns[:-1]])
        before_ns[begins] = self._latest_ns[flow[begins]]
        self.steps_back += int(np.count_nonzero(received_ns < before_ns))
        ends = np.flatnonzero(np.diff(flow, append=-1))
        self._latest_ns[flow[ends]] = received_ns[ends]

    def _count(self, name: str, flow: Longs) -> None:
        self.counts[name] += np.bincount(flow, minlength=self._base.size)

    def _first_arrivals(self, arrivals: _Arrivals, pair: Longs) -> tuple[Bools, Bools]:
        """Which rows are first arrivals, and which of these are late: below the highest seq before them."""
        flow = arrivals.flow
        own = self._base[flow] + arrivals.place  # as the pair, but apart for each member of a group
        running = np.maximum.accumulate(own)
        before = np.maximum(np.concatenate([[-1], running[:-1]])[: own.size], self._highest[flow])
        ends = np.flatnonzero(np.diff(flow, append=-1))
        self._highest[flow[ends]] = np.maximum(self._highest[flow[ends]], running[ends])
        is_ahead = own > before
        if self.expected.is_shared.any():
            is_first = self._looked_up(pair, np.argsort(arrivals.row, kind="stable"))
            return is_first, is_first & ~is_ahead
        self._is_seen[pair[is_ahead]] = True
        is_late = self._looked_up(pair, np.flatnonzero(~is_ahead))
        return is_ahead | is_late, is_late

    def _looked_up(self, pair: Longs, rows: Longs) -> Bools:
        """Which of the rows, in the order given, are the first of pairs that were not seen before."""
        rows = rows[~self._is_seen[pair[rows]]]
        new, at = np.unique(pair[rows], return_index=True)  # the first of equals
        self._is_seen[new] = True
        is_first = np.zeros(pair.size, dtype=np.bool_)
        is_first[rows[at]] = True
        return is_first

    def _overlapping(self, arrivals: _Arrivals, pair: Longs, is_again: Bools) -> Bools:
        """Which arrivals beyond the first another filter of their subscriber may have brought."""
        is_overlapping = np.zeros(pair.size, dtype=np.bool_)
        rows = np.flatnonzero(is_again & (arrivals.copies > 1))
        if rows.size:
            rows = rows[np.argsort(pair[rows], kind="stable")]
            own, starts, counts = np.unique(pair[rows], return_index=True, return_counts=True)
            nth = self._again[pair[rows]] + np.arange(rows.size) - np.repeat(starts, counts) + 1
            is_overlapping[rows] = nth < arrivals.copies[rows]
            self._again[own] = np.minimum(self._again[own] + counts, 255)
        return is_overlapping
