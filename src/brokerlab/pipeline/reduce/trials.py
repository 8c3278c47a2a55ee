"""The trials of a search: what was sent in each, and what became of it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from brokerlab.pipeline.manifest_row import Phase
from brokerlab.pipeline.reduce.expectation import Expectation
from brokerlab.pipeline.reduce.latency import Tally
from brokerlab.pipeline.reduce.ledger import FirstArrivals
from brokerlab.pipeline.reduce.publications import Publications, within
from brokerlab.stats.backlog import under_way


def sent_rows(trials: Sequence[Phase], publications: Publications, expected: Expectation) -> Iterator[dict[str, Any]]:
    """Rows of families.TRIAL_SENT: publications that were intended in each trial."""
    for trial in trials:
        is_own = publications.is_published & within(publications.intended_ns, trial)
        is_acknowledged = is_own & publications.is_acknowledged
        yield {
            "phase": trial.name,
            "published": int(is_own.sum()),
            "expected": int(expected.pairs(publications, is_own).sum()),
            "acknowledged_expected": int(expected.pairs(publications, is_acknowledged).sum()),
            "last_sent_ns": int(publications.sent_ns[is_own].max()) if is_own.any() else None,
        }


class TrialArrivals:
    """Takes first arrivals in any portions and tallies them in the trials in which they were intended."""

    def __init__(self, trials: Sequence[Phase]) -> None:
        self._trials = trials
        self._tallies = [Tally() for _ in trials]
        self._acknowledged = [0 for _ in trials]
        self._last_ns = [0 for _ in trials]
        self._under_way = [np.zeros(2) for _ in trials]

    def add(self, first: FirstArrivals) -> None:
        for number, trial in enumerate(self._trials):
            is_own = within(first.intended_ns, trial)
            if not is_own.any():
                continue
            intended_ns, received_ns = first.intended_ns[is_own], first.received_ns[is_own]
            self._tallies[number].add(received_ns - intended_ns, resolution_ns=first.resolution_ns[is_own])
            self._acknowledged[number] += int(first.is_acknowledged[is_own].sum())
            self._last_ns[number] = max(self._last_ns[number], int(received_ns.max()))
            self._under_way[number] += under_way(intended_ns, received_ns, start_ns=trial.start_ns, end_ns=trial.end_ns)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of families.TRIAL_ARRIVED: trials of which something arrived."""
        for number, (trial, tally) in enumerate(zip(self._trials, self._tallies, strict=True)):
            if not tally.n:
                continue
            buckets = tally.buckets()
            second, last = self._under_way[number].tolist()
            yield {
                "phase": trial.name,
                "delivered": tally.n,
                "acknowledged_delivered": self._acknowledged[number],
                "last_received_ns": self._last_ns[number],
                "min_ns": tally.min_ns,
                "max_ns": tally.max_ns,
                "under_way_second": second,
                "under_way_last": last,
                "buckets": [dict(zip(buckets, values, strict=True)) for values in zip(*buckets.values(), strict=True)],
            }
