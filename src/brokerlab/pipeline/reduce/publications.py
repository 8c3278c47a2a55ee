"""The publications of a run as arrays that a delivery finds its publication in by one addition.

place of (publisher, seq) = base[publisher's place] + seq
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifest_row import Phase
from brokerlab.pipeline.reduce.raw import Bools, DamagedFileError, Longs, longs, longs_or_zero, read_files

COLUMNS = ("publisher", "seq", "payload_bytes", "intended_ns", "sent_ns", "acked_ns")
_SPARE_PLACES = 1_000_000  # gaps between sequence numbers are rare: only a run that was cut off has them


@dataclass(frozen=True, slots=True)
class Publications:
    """Arrays over places; a place without a publication that reached the wire is not published."""

    publishers: Longs  # ascending
    base: Longs  # first place of each publisher, and one more: the number of places
    is_published: Bools
    is_acknowledged: Bools
    is_measured: Bools  # published, and intended in the measure phase
    intended_ns: Longs
    sent_ns: Longs
    acked_ns: Longs  # without meaning where it is not acknowledged
    payload_bytes: Longs
    has_sent_times: bool = True  # else `sent_ns` is the time at which it was due

    @property
    def reach(self) -> Longs:
        """One more than the highest sequence number of each publisher."""
        return np.diff(self.base)

    def per_publisher(self, mask: Bools, weights: Longs | None = None) -> Longs:
        """How many places of each publisher are in the mask, or the sum of their weights."""
        publisher = np.repeat(np.arange(self.publishers.size), self.reach)[mask]
        if weights is None:
            return np.bincount(publisher, minlength=self.publishers.size)
        sums = np.zeros(self.publishers.size, dtype=np.int64)
        np.add.at(sums, publisher, weights[mask])
        return sums


def read_publications(
    files: Iterable[str], *, publishers: Iterable[int], measure: Phase | None, has_sent_times: bool = True,
    heard_until_ns: int | None = None,
) -> Publications:  # fmt: skip
    """The publications of a run; `publishers` are those of the manifest, some of which may have sent nothing."""
    tables = list(read_files(files, "publications", COLUMNS))
    empty = pa.table({column: pa.array([], pa.int64()) for column in COLUMNS})
    rows = pa.concat_tables(tables) if tables else empty
    return index_publications(
        rows, publishers=publishers, measure=measure, has_sent_times=has_sent_times, heard_until_ns=heard_until_ns
    )


def index_publications(
    rows: pa.Table, *, publishers: Iterable[int], measure: Phase | None, has_sent_times: bool = True,
    heard_until_ns: int | None = None,
) -> Publications:  # fmt: skip
    """Puts the rows in their places; two rows for one place mean that the files are not what they claim.

    What is acknowledged when no subscriber listens any more counts as not acknowledged: that it did not come is no loss
    of the broker's.

    A source that does not tell when messages were sent lists those that were; one that was never received has no
    time at all there, and an import is one phase.
    """
    publisher, seq = longs(rows, "publisher"), longs(rows, "seq")
    known = np.unique(np.concatenate([publisher, np.fromiter(publishers, dtype=np.int64)]))
    number = np.searchsorted(known, publisher)
    base = _bases(number, seq, known.size)
    place = base[number] + seq
    size = int(base[-1])
    intended, is_due = _scattered(rows, "intended_ns", place, size)
    payload, _ = _scattered(rows, "payload_bytes", place, size)
    sent, is_published = _scattered(rows, "sent_ns", place, size)
    if not has_sent_times:
        sent, is_published = intended, _filled(place, size)
    acked, is_acknowledged = _scattered(rows, "acked_ns", place, size)
    if heard_until_ns is not None:
        is_acknowledged &= acked < heard_until_ns
    if np.count_nonzero(_filled(place, size)) != place.size:
        raise DamagedFileError("publications/ cannot be used: a publisher has one sequence number twice")
    return Publications(
        publishers=known,
        base=base,
        is_published=is_published,
        is_acknowledged=is_acknowledged & is_published,
        is_measured=is_published & (within(intended, measure) | ~is_due),
        intended_ns=intended,
        sent_ns=sent,
        acked_ns=acked,
        payload_bytes=payload,
        has_sent_times=has_sent_times,
    )


def within(at_ns: Longs, phase: Phase | None) -> Bools:
    """Which times lie in the phase: none, if the run did not get that far."""
    if phase is None:
        return np.zeros(at_ns.size, dtype=np.bool_)
    return (phase.start_ns <= at_ns) & (at_ns < phase.end_ns)


def _bases(number: Longs, seq: Longs, publishers: int) -> Longs:
    reach = np.zeros(publishers, dtype=np.int64)
    np.maximum.at(reach, number, seq + 1)
    is_absurd = seq.size > 0 and (
        int(seq.min()) < 0 or float(reach.sum(dtype=np.float64)) > 4 * seq.size + _SPARE_PLACES
    )
    if is_absurd:
        raise DamagedFileError("publications/ cannot be used: sequence numbers do not count the publications")
    return np.concatenate([[0], np.cumsum(reach)])


def _scattered(rows: pa.Table, column: str, place: Longs, size: int) -> tuple[Longs, Bools]:
    values, known = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    values[place], known[place] = longs_or_zero(rows, column)
    return values, known


def _filled(place: Longs, size: int) -> Bools:
    filled = np.zeros(size, np.bool_)
    filled[place] = True
    return filled
