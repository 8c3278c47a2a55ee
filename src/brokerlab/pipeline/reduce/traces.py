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
        numbers = _numbers(publications, publisher) if is_known else None
        about = {
            "run_id": run.run_id,
            "subscriber": int(expected.subscribers[expected.flows.subscriber[flow]]),
            "publisher": int(publications.publishers[publisher]),
        }
        received_ns, intended_ns, publication = (
            np.concatenate([getattr(part, name) for part in portions])[:most]
            for name in ("received_ns", "intended_ns", "publication")
        )
        message = None if numbers is None else numbers[publication - publications.base[publisher]]
        yield from ({**about, **row} for row in _trace(received_ns, intended_ns, message))


def _numbers(publications: Publications, publisher: int) -> Longs:
    """By seq, from 1, the places of the measured messages of this publisher (by its place) by the time they were due.

    Of those due at one time, as records of a file may be, the one with the lower seq comes first.
    """
    own = slice(int(publications.base[publisher]), int(publications.base[publisher + 1]))
    measured = np.flatnonzero(publications.is_measured[own])
    numbers = np.zeros(own.stop - own.start, dtype=np.int64)
    due = np.argsort(publications.intended_ns[own][measured], kind="stable")
    numbers[measured[due]] = np.arange(1, measured.size + 1)
    return numbers


def _trace(received_ns: Longs, intended_ns: Longs, message: Longs | None) -> Iterator[dict[str, Any]]:
    apart_ns = np.diff(received_ns)
    for at in range(received_ns.size):
        yield {
            "place": at + 1,
            "message": None if message is None else int(message[at]),
            "apart_ms": float(apart_ns[at - 1]) / _NS_PER_MS if at else None,
            "latency_ms": None if message is None else float(received_ns[at] - intended_ns[at]) / _NS_PER_MS,
        }
