"""The ledger of one delivery worker: what became of every publication × subscriber pair that it should get.

A pair has a place, and the pairs of a flow (subscriber, publisher) lie side by side in order of seq:

    place of a pair = base[flow] + place in the flow      the seq itself where the flow hears all topics

Sorted by flow, stably, a running maximum of places therefore never looks back past the flow's own start,
and tells at once which arrivals are ahead of everything before them. Only the few others can be
duplicates or late, and only those are looked up. In a group of a shared subscription order is a matter of each
member, but the pairs are the group's: there every arrival is looked up.

An arrival beyond the first is `overlapping` where the subscriber asked for it once more: another filter of it matches
the message too, and the broker may deliver it once for each (MQTT 3.1.1 section 3.3.5), or it subscribed anew and got
what was retained (section 3.8.4). It is `duplicated` beyond that, or with DUP set.

What fulfils the pair of a retained replay may be another publication than the owed one (expectation.py). Beyond the
first such an arrival is `overlapping` too: the broker came to it only when its subscriber was there.
"""

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.reduce.expectation import Expectation, places_of
from brokerlab.pipeline.reduce.likeness import Likeness
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import Bools, Longs, flags, longs, longs_or_zero, resolutions

COLUMNS = (
    "subscriber", "publisher", "seq", "dup", "retain", "payload_bytes", "intended_ns", "received_ns", "resolution_ns",
)  # fmt: skip

# What is counted per flow; the names are columns of schemas.families.FLOW.
_COUNTS = (
    "arrivals",
    "delivered",
    "acknowledged_delivered",
    "resized",
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
    publication: Longs  # its place in Publications
    received_ns: Longs
    intended_ns: Longs
    sent_ns: Longs
    resolution_ns: Longs  # NOT_TOLD where it is not known
    payload_bytes: Longs
    is_measured: Bools  # of publications that were intended in the measure phase
    is_acknowledged: Bools

    def measured(self) -> "FirstArrivals":
        """Those that latency is made of."""
        return self.where(self.is_measured)

    def where(self, mask: Bools) -> "FirstArrivals":
        return self if mask.all() else FirstArrivals(*(getattr(self, column.name)[mask] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a file that may be publications which their subscriber hears; the others are sorted out step by step."""

    subscriber: Longs  # places
    publisher: Longs
    seq: Longs
    received_ns: Longs
    row: Longs  # in the file

    def where(self, mask: Bools) -> "_Rows":
        return self if mask.all() else _Rows(*(getattr(self, column.name)[mask] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """Sorted by flow, and within a flow in order of arrival."""

    flow: Longs
    place: Longs  # in the flow
    publication: Longs  # that is owed
    came: Longs  # the publication itself: in a retained replay it may be another one
    received_ns: Longs
    row: Longs  # in the file
    starts: Longs  # of each flow that is there


class Ledger:
    """Takes a worker's deliveries file by file, in order of arrival, and counts."""

    def __init__(
        self,
        publications: Publications,
        expected: Expectation,
        *,
        late_ns: int,
        window: int | None = None,
        resubscribes: bool = False,
    ) -> None:
        """`window`: how many publications of a publisher further on the next one looks alike; None where none does."""
        self._late_ns, self._window, self._resubscribes = late_ns, window, resubscribes
        self._likeness = None if window is None else Likeness(publications, expected, window=window)
        self.publications, self.expected = publications, expected
        self._is_owed = expected.owed(publications)
        self._owed_for = expected.owed_for(publications) if expected.is_replay else None
        sizes = expected.sizes(publications.reach)
        self._base = np.cumsum(sizes) - sizes
        flows = expected.flows.size
        # Zeroed memory that is never touched costs nothing, so pairs of other workers' subscribers are free.
        self._is_seen = np.zeros(int(sizes.sum()), dtype=np.bool_)
        self._turn = np.empty(self._is_seen.size, dtype=np.int32)
        self._again = np.zeros(self._is_seen.size if expected.flows.is_overlapping else 0, dtype=np.uint8)
        self._highest = np.full(flows, -1, dtype=np.int64)
        self.counts = {name: np.zeros(flows, dtype=np.int64) for name in _COUNTS}
        self._latest_ns = np.full(flows, np.iinfo(np.int64).min, dtype=np.int64)  # whatever it was
        self.steps_back = 0  # arrivals before the one that was written before them: no clock of ours does that
        self.last_received_ns = np.full(flows, np.iinfo(np.int64).min, dtype=np.int64)
        # Of the last rows that were entered, all that are expected, in order of arrival.
        self.received_ns = self.received_flow = np.empty(0, dtype=np.int64)
        self.unexpected: dict[int, int] = {}  # arrivals by subscriber

    def anew(self) -> "Ledger":
        """An empty ledger of the same run."""
        return Ledger(
            self.publications,
            self.expected,
            late_ns=self._late_ns,
            window=self._window,
            resubscribes=self._resubscribes,
        )

    def add(self, deliveries: pa.Table) -> FirstArrivals:
        """Enters the rows of one file; returns the first arrivals among them."""
        rows, flow, place, publication = self._identify(deliveries)
        self._count_unexpected(longs(deliveries, "subscriber"), rows.row)
        came = publication
        if self._owed_for is not None:
            publication = self._owed_for[came]
            is_new = publication >= 0
            self._count("stale", flow[~is_new])
            rows, flow, came, publication = rows.where(is_new), flow[is_new], came[is_new], publication[is_new]
            place = self.expected.place_in(flow, publication - self.publications.base[rows.publisher])
        self.received_ns, self.received_flow = rows.received_ns, flow
        if self._likeness is not None:
            self._likeness.add(flow, publication, rows.received_ns)
        order = _stable_order(flow, below=self._base.size)
        flow, owed = flow[order], publication[order]
        arrivals = _Arrivals(
            flow=flow,
            place=place[order],
            publication=owed,
            came=owed if came is publication else came[order],
            received_ns=rows.received_ns[order],
            row=order if rows.row.size == deliveries.num_rows else rows.row[order],
            starts=np.flatnonzero(np.diff(flow, prepend=-1)),
        )
        return self._enter(arrivals, deliveries)

    def in_doubt(self) -> Bools:
        """By flow, after all files: whether its messages could be others than those that they are taken for."""
        if self._likeness is None:
            return np.zeros(self._base.size, dtype=np.bool_)
        owed = self.expected.pairs(self.publications, self._is_owed)
        has_others = np.isin(self.expected.subscribers[self.expected.flows.subscriber], list(self.unexpected))
        return self._likeness.in_doubt(self.counts["delivered"], self.counts["duplicated"], owed, has_others)

    def settle(self) -> Bools:
        """After all files: counts the messages of flows in doubt, and says which these are.

        Nobody knows which messages they had, but how many: no more than they were owed; what came beyond that is
        unexpected.
        """
        in_doubt = self.in_doubt()
        own = in_doubt & ~self.expected.is_shared  # what each member of a group was owed is not known
        if self._likeness is None or not own.any():
            return in_doubt
        for name, arrivals, mask in (
            ("delivered", self.counts["arrivals"], self._is_owed),
            ("measured_delivered", self._likeness.measured, self._is_owed & self.publications.is_measured),
        ):
            owed = self.expected.pairs(self.publications, mask)
            self.counts[name][own] = np.minimum(arrivals, owed)[own]
        surplus = self.counts["arrivals"] - self.counts["delivered"]
        for flow in np.flatnonzero(own & (surplus > 0)):
            subscriber = int(self.expected.subscribers[self.expected.flows.subscriber[flow]])
            self.unexpected[subscriber] = self.unexpected.get(subscriber, 0) + int(surplus[flow])
        return in_doubt

    def _identify(self, deliveries: pa.Table) -> tuple[_Rows, Longs, Longs, Longs]:
        """The rows that are publications which their subscriber hears, with flow, place in it, and publication.

        A payload may claim anything.
        """
        publications, expected = self.publications, self.expected
        rows = _Rows(
            subscriber=places_of(longs(deliveries, "subscriber"), among=expected.subscribers),
            publisher=places_of(longs(deliveries, "publisher"), among=publications.publishers),
            seq=longs(deliveries, "seq"),
            received_ns=longs(deliveries, "received_ns"),
            row=np.arange(deliveries.num_rows),
        )
        rows = rows.where((rows.subscriber >= 0) & (rows.publisher >= 0) & (rows.seq >= 0))
        flow = expected.flow_of(rows.subscriber, rows.publisher)
        is_known = (flow >= 0) & (rows.seq < publications.reach[rows.publisher])
        rows, flow = rows.where(is_known), flow[is_known]
        place, publication = expected.place_in(flow, rows.seq), publications.base[rows.publisher] + rows.seq
        is_known = (place >= 0) & publications.is_published[publication]
        # The intended time is part of a message's identity: a message of another run carries another one.
        # One that does not carry it must at least have been due before it came, or is like others.
        intended_ns, carries_time = longs_or_zero(deliveries, "intended_ns")
        due_ns = publications.intended_ns[publication]
        is_right = due_ns == intended_ns[rows.row]
        if not carries_time.all():
            may_be = due_ns <= rows.received_ns if self._likeness is None else True
            is_right = np.where(carries_time[rows.row], is_right, may_be)
        is_known &= is_right
        if is_known.all():
            return rows, flow, place, publication
        return rows.where(is_known), flow[is_known], place[is_known], publication[is_known]

    def _count_unexpected(self, subscribers: Longs, expected_rows: Longs) -> None:
        if expected_rows.size == subscribers.size:
            return
        others = np.delete(subscribers, expected_rows)
        for subscriber, arrivals in zip(*np.unique(others, return_counts=True), strict=True):
            self.unexpected[int(subscriber)] = self.unexpected.get(int(subscriber), 0) + int(arrivals)

    def _enter(self, arrivals: _Arrivals, deliveries: pa.Table) -> FirstArrivals:
        """Enters rows that are sorted by flow."""
        self._count_steps_back(arrivals)
        flow = arrivals.flow
        pair = self._base[self.expected.leader[flow]] + arrivals.place
        is_first, is_late = self._first_arrivals(arrivals, pair)
        self._count("arrivals", flow)
        self._count_again(arrivals, pair, np.flatnonzero(~is_first), deliveries)
        first = self._first_of(arrivals, is_first, resolutions(deliveries))
        self._count("delivered", first.flow)
        self._count("acknowledged_delivered", first.flow, first.is_acknowledged)
        self._count("resized", first.flow, _is_resized(first, arrivals.row[is_first], deliveries))
        if not self.expected.is_replay:  # one message a topic has no order, and topics have none among them
            self._count("late", first.flow, first.received_ns - first.intended_ns > self._late_ns)
            self._count("reordered", flow, is_late)
        self._count_measured(first.measured())
        return first

    def _first_of(self, arrivals: _Arrivals, is_first: Bools, resolution_ns: Longs) -> FirstArrivals:
        publications, rows = self.publications, slice(None) if is_first.all() else is_first
        publication = arrivals.publication[rows]
        came = publication if arrivals.came is arrivals.publication else arrivals.came[rows]
        return FirstArrivals(
            flow=arrivals.flow[rows],
            publication=publication,
            received_ns=arrivals.received_ns[rows],
            intended_ns=publications.intended_ns[publication],
            sent_ns=publications.sent_ns[publication],
            resolution_ns=resolution_ns[arrivals.row[rows]],
            payload_bytes=publications.payload_bytes[came],
            is_measured=publications.is_measured[publication],
            is_acknowledged=publications.is_acknowledged[publication],
        )

    def _count_measured(self, measured: FirstArrivals) -> None:
        flow = measured.flow
        if not flow.size:
            return
        self._count("measured_delivered", flow)
        starts = np.flatnonzero(np.diff(flow, prepend=-1))
        own = flow[starts]
        self.counts["measured_bytes"][own] += np.add.reduceat(measured.payload_bytes, starts)
        last_ns = np.maximum.reduceat(measured.received_ns, starts)
        self.last_received_ns[own] = np.maximum(self.last_received_ns[own], last_ns)

    def _count_again(self, arrivals: _Arrivals, pair: Longs, rows: Longs, deliveries: pa.Table) -> None:
        """Arrivals beyond the first."""
        if not rows.size:
            return
        is_dup = flags(deliveries, "dup")[arrivals.row[rows]]
        is_asked = np.zeros(rows.size, dtype=np.bool_)
        if self._resubscribes:
            is_asked |= flags(deliveries, "retain")[arrivals.row[rows]]
        if self.expected.is_replay:
            is_asked |= arrivals.came[rows] != arrivals.publication[rows]
        if self.expected.flows.is_overlapping:
            is_asked |= self._overlapping(arrivals, pair, rows, ~is_dup & ~is_asked)
        self._count("overlapping", arrivals.flow[rows], is_asked)
        self._count("duplicated", arrivals.flow[rows], ~is_asked)
        self._count("duplicated_flagged", arrivals.flow[rows], ~is_asked & is_dup)

    def _count_steps_back(self, arrivals: _Arrivals) -> None:
        flow, received_ns, starts = arrivals.flow, arrivals.received_ns, arrivals.starts
        ends = np.append(starts[1:], flow.size)[: starts.size] - 1
        is_back = received_ns[1:] < received_ns[:-1]
        is_back[starts[1:] - 1] = False
        before = self._latest_ns[flow[starts]]
        self.steps_back += int(np.count_nonzero(is_back)) + int(np.count_nonzero(received_ns[starts] < before))
        self._latest_ns[flow[ends]] = received_ns[ends]

    def _count(self, name: str, flow: Longs, mask: Bools | None = None) -> None:
        """Adds the rows of a mask to their flows; bincount is the dearer, the more rows there are."""
        if mask is not None and np.count_nonzero(mask) < flow.size:
            flow = flow[mask]
        if flow.size:
            self.counts[name] += np.bincount(flow, minlength=self._base.size)

    def _first_arrivals(self, arrivals: _Arrivals, pair: Longs) -> tuple[Bools, Bools]:
        """Which rows are first arrivals, and which of these are late: below the highest seq before them."""
        flow, starts = arrivals.flow, arrivals.starts
        if not flow.size:
            return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
        is_shared = bool(self.expected.is_shared.any())
        own = self._base[flow] + arrivals.place if is_shared else pair  # apart for each member of a group
        highest = self._highest[flow[starts]]
        running = own.copy()
        running[starts] = np.maximum(own[starts], highest)
        np.maximum.accumulate(running, out=running)
        is_ahead = np.empty(own.size, dtype=np.bool_)
        np.greater(own[1:], running[:-1], out=is_ahead[1:])
        is_ahead[starts] = own[starts] > highest
        self._highest[flow[starts]] = running[np.append(starts[1:], own.size) - 1]
        if is_shared:
            is_first = self._looked_up(pair, np.argsort(arrivals.row, kind="stable"))
            return is_first, is_first & ~is_ahead
        self._is_seen[pair[is_ahead]] = True
        is_late = self._looked_up(pair, np.flatnonzero(~is_ahead))
        return is_ahead | is_late, is_late

    def _looked_up(self, pair: Longs, rows: Longs) -> Bools:
        """Which of the rows, in the order given, are the first of pairs that were not seen before."""
        rows = rows[~self._is_seen[pair[rows]]]
        pairs, turn = pair[rows], np.arange(rows.size, dtype=np.int32)
        self._turn[pairs[::-1]] = turn[::-1]  # of equals the first stays: the last that is written
        self._is_seen[pairs] = True
        is_first = np.zeros(pair.size, dtype=np.bool_)
        is_first[rows[self._turn[pairs] == turn]] = True
        return is_first

    def _overlapping(self, arrivals: _Arrivals, pair: Longs, again: Longs, may_be: Bools) -> Bools:
        """Which of the rows beyond the first another filter of their subscriber may have brought."""
        copies = self.expected.copies_of(arrivals.flow[again], self._seq(arrivals, again))
        is_overlapping = np.zeros(again.size, dtype=np.bool_)
        at = np.flatnonzero(may_be & (copies > 1))
        if at.size:
            at = at[np.argsort(pair[again[at]], kind="stable")]
            pairs = pair[again[at]]
            own, starts, counts = np.unique(pairs, return_index=True, return_counts=True)
            nth = self._again[pairs] + np.arange(at.size) - np.repeat(starts, counts) + 1
            is_overlapping[at] = nth < copies[at]
            self._again[own] = np.minimum(self._again[own] + counts, 255)
        return is_overlapping

    def _seq(self, arrivals: _Arrivals, rows: Longs) -> Longs:
        publisher = self.expected.flows.publisher[arrivals.flow[rows]]
        return arrivals.publication[rows] - self.publications.base[publisher]


def _is_resized(first: FirstArrivals, rows: Longs, deliveries: pa.Table) -> Bools:
    """Which came with more or fewer bytes than they were published with, as far as the source tells."""
    size_bytes, is_told = longs_or_zero(deliveries, "payload_bytes")
    is_resized: Bools = is_told[rows] & (size_bytes[rows] != first.payload_bytes)
    return is_resized


def _stable_order(flow: Longs, *, below: int) -> Longs:
    """The order in which arrivals of a flow stay as they are; eight and sixteen bits are sorted in linear time."""
    narrow = np.uint8 if below <= 2**8 else np.uint16 if below <= 2**16 else np.int64
    return np.argsort(flow.astype(narrow, copy=False), kind="stable")
