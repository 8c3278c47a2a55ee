"""The messages of small runs one by one: when each came after the one before it, and how late it was."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from brokerlab.pipeline.manifests import RunFacts
from brokerlab.pipeline.origin import INTENDED
from brokerlab.pipeline.reduce.ledger import FirstArrivals
from brokerlab.pipeline.reduce.parts import without_overheard
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import Longs, stretches
from brokerlab.pipeline.reduce.work import Work, empty_ledger, pieces_of, portions_of, read_run, timed_flows

_NS_PER_MS = 1e6


def trace_rows(run: RunFacts, *, most: int) -> Iterator[dict[str, Any]]:
    """Rows of schemas.traces but the cell, at most so many of each flow; none of subscribers that came later."""
    for work in pieces_of(run):
        if work.deliveries:
            yield from _rows(work, most=most)


def _rows(work: Work, *, most: int) -> Iterator[dict[str, Any]]:
    run = work.run
    publications, expected = read_run(run)
    if expected.subscribed_ns is not None:
        return
    ledger = empty_ledger(run, publications, expected)
    is_timed = timed_flows(run, lambda: portions_of(work.deliveries), ledger)
    arrived: dict[int, list[FirstArrivals]] = {}
    for rows in portions_of(work.deliveries):
        first = ledger.add(without_overheard(rows, run)).measured()
        for start, end in stretches(first.flow):
            own = np.zeros(first.flow.size, dtype=np.bool_)
            own[start:end] = True
            arrived.setdefault(int(first.flow[start]), []).append(first.where(own))
    for flow, portions in sorted(arrived.items()):
        publisher = int(expected.flows.publisher[flow])
        is_known = run.origin.knows(INTENDED) and (is_timed is None or bool(is_timed[flow]))
        due_ns = _due_ns(publications, publisher) if is_known else None
        about = {
            "run_id": run.run_id,
            "subscriber": int(expected.subscribers[expected.flows.subscriber[flow]]),
            "publisher": int(publications.publishers[publisher]),
        }
        received, intended = (
            np.concatenate([getattr(part, name) for part in portions])[:most] for name in ("received_ns", "intended_ns")
        )
        yield from ({**about, **row} for row in _trace(received, intended, due_ns))


def _due_ns(publications: Publications, publisher: int) -> Longs:
    """When the measured messages of this publisher (by its place) were due."""
    own = slice(int(publications.base[publisher]), int(publications.base[publisher + 1]))
    due_ns: Longs = np.sort(publications.intended_ns[own][publications.is_measured[own]])
    return due_ns


def _trace(received_ns: Longs, intended_ns: Longs, due_ns: Longs | None) -> Iterator[dict[str, Any]]:
    apart_ns = np.diff(received_ns)
    message = None if due_ns is None else np.searchsorted(due_ns, intended_ns) + 1
    for at in range(received_ns.size):
        yield {
            "place": at + 1,
            "message": None if message is None else int(message[at]),
            "apart_ms": float(apart_ns[at - 1]) / _NS_PER_MS if at else None,
            "latency_ms": None if message is None else float(received_ns[at] - intended_ns[at]) / _NS_PER_MS,
        }
