"""Whether messages that look alike were told apart.

Messages without an identity of their own are alike: those known by their order, those whose number is short and comes
again after a window of others, and equal records of a file. Each arrival is taken for one of the publications that
look like it; that is right while nothing is lost, too much or out of turn. In a flow where something is, it is
still right if no other publication could have been meant:

    too early    it was taken for a publication that was not due yet, so it was another one
    open         the next publication that looks alike had been sent too, at least `window` numbers later

Flows in doubt are counted, as many arrivals as could be meant, and have no latency.
"""

import numpy as np

from brokerlab.pipeline.reduce.expectation import Expectation
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import Bools, Longs


class Likeness:
    """Takes the arrivals of a worker whose messages are alike, and says which flows are in doubt."""

    def __init__(self, publications: Publications, expected: Expectation, *, window: int) -> None:
        self._publications, self._expected, self._window = publications, expected, window
        self._early, self._open, self.measured = (np.zeros(expected.flows.size, dtype=np.int64) for _ in range(3))

    def add(self, flow: Longs, publication: Longs, received_ns: Longs) -> None:
        """Arrivals, and the publications that they are taken for."""
        publications = self._publications
        self._count(self._early, flow, publications.intended_ns[publication] > received_ns)
        self._count(self.measured, flow, publications.is_measured[publication])
        end = publications.base[self._expected.flows.publisher[flow] + 1]
        has_next = np.flatnonzero(publication + self._window < end)
        next_ = publication[has_next] + self._window
        is_open = publications.is_published[next_] & (publications.sent_ns[next_] < received_ns[has_next])
        self._count(self._open, flow[has_next], is_open)

    def _count(self, counts: Longs, flow: Longs, mask: Bools) -> None:
        counts += np.bincount(flow[mask], minlength=counts.size)

    def in_doubt(self, delivered: Longs, duplicated: Longs, owed: Longs, has_others: Bools) -> Bools:
        """By flow; `owed` has the pairs of a group at its first member, `has_others` what the subscriber got besides.

        By order nothing tells which message an arrival is: there any loss leaves all others open.
        """
        leader = self._expected.leader
        of_pairs = np.bincount(leader, weights=delivered, minlength=leader.size).astype(np.int64)
        is_whole = (of_pairs == owed)[leader] & (duplicated == 0) & ~has_others
        is_open = np.ones(leader.size, dtype=np.bool_) if self._window == 1 else self._open > 0
        in_doubt: Bools = (self._early > 0) | (~is_whole & is_open)
        return in_doubt
