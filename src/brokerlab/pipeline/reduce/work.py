"""Pieces of work that can be done alone, and the partial results that each comes to.

A run is one piece for what its publishers, samples and counters say, and one for each delivery worker.
"""

import heapq
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifests import RunFacts
from brokerlab.pipeline.origin import INTENDED, PUBLISHED, SENT
from brokerlab.pipeline.reduce.expectation import Expectation, expectation
from brokerlab.pipeline.reduce.faults import FaultCount, expected_rows, fault_times, noticed_rows
from brokerlab.pipeline.reduce.groups import ALL, Latencies
from brokerlab.pipeline.reduce.inbound import inbound, read_interfaces
from brokerlab.pipeline.reduce.latency import Tally
from brokerlab.pipeline.reduce.ledger import COLUMNS, Ledger
from brokerlab.pipeline.reduce.parts import (
    PROBE,
    device_columns,
    device_tallies,
    probe_tallies,
    window_notes,
    without_overheard,
)
from brokerlab.pipeline.reduce.publications import Publications, read_publications
from brokerlab.pipeline.reduce.raw import Bools, DamagedFileError, read_files
from brokerlab.pipeline.reduce.rhythm import Rhythm
from brokerlab.pipeline.reduce.sessions import read_sessions
from brokerlab.pipeline.reduce.timeline import Timeline, counted_ticks
from brokerlab.pipeline.reduce.tolds import told_columns
from brokerlab.pipeline.reduce.trials import TrialArrivals, sent_rows
from brokerlab.pipeline.reduce.usage import read_counters, read_samples, usage
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.families import PARTIALS

_ROWS_AT_ONCE = 250_000
_NUMBERED = re.compile(r"-\d+\.parquet$")
_SCHEMA = arrow_schema(PARTIALS)


@dataclass(frozen=True, slots=True)
class Work:
    """One piece: the delivery files of one worker, or, without any, everything else of the run."""

    run: RunFacts
    deliveries: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        publications = map(str, self.run.directory.files("publications"))
        return sum(Path(file).stat().st_size for file in (*publications, *self.deliveries))


def pieces_of(run: RunFacts) -> list[Work]:
    """The work that a run gives, one piece per delivery worker and one for the rest.

    Members of a group may be in several workers, and only together they tell what became of its messages.
    Deliveries of a foreign layout are no worker's: reduce/foreign.py.
    """
    files = [] if run.origin.is_foreign else [str(path.resolve()) for path in run.directory.files("deliveries")]
    if files and any(subscription.group is not None for subscription in run.subscriptions):
        return [Work(run), Work(run, tuple(files))]
    workers = groupby(files, key=lambda file: _NUMBERED.sub("", file))
    return [Work(run), *(Work(run, tuple(own)) for _, own in workers)]


def bundles_of(work: Sequence[Work], *, count: int) -> list[tuple[Work, ...]]:
    """At most `count` bundles of about the same number of bytes: the largest piece first, to the lightest bundle."""
    bundles: list[list[Work]] = [[] for _ in range(min(count, len(work)))]
    weights = [(0, number) for number in range(len(bundles))]
    sized = sorted(((piece.size_bytes, number) for number, piece in enumerate(work)), reverse=True)
    for size, number in sized:
        weight, lightest = heapq.heappop(weights)
        bundles[lightest].append(work[number])
        heapq.heappush(weights, (weight + size + 1, lightest))  # + 1: files without rows are spread as well
    return [tuple(bundle) for bundle in bundles]


def reduce_work(work: Work) -> Iterator[pa.RecordBatch]:
    """The partial results of one piece, as batches of schemas.families.PARTIALS; a damaged file becomes a problem."""
    parts: tuple[Callable[[Work], list[pa.RecordBatch]], ...] = (
        (_deliveries,) if work.deliveries else (_publications, _parts, _usage, _inbound, _counters, _sessions, _told)
    )
    for part in parts:
        try:
            yield from part(work)
        except DamagedFileError as problem:
            yield partial(work.run, "problem", {"reason": [str(problem)]})


def partial(run: RunFacts, family: str, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Rows of one family; all other families are null in them."""
    fields = list(_SCHEMA.field(family).type)
    arrays = [pa.array(columns[field.name], field.type) for field in fields]
    rows = len(arrays[0])
    filled = {
        "run_id": pa.repeat(pa.scalar(run.run_id), rows),
        family: pa.StructArray.from_arrays(arrays, fields=fields),
    }
    return pa.RecordBatch.from_arrays(
        [filled[field.name] if field.name in filled else pa.nulls(rows, field.type) for field in _SCHEMA],
        schema=_SCHEMA,
    )


def _partial_of_rows(run: RunFacts, family: str, rows: Sequence[Mapping[str, Any]]) -> list[pa.RecordBatch]:
    names = [field.name for field in _SCHEMA.field(family).type]
    return [partial(run, family, {name: [row[name] for row in rows] for name in names})] if rows else []


def read_run(run: RunFacts) -> tuple[Publications, Expectation]:
    files = map(str, run.directory.files("publications"))
    has_sent_times = run.origin.knows(SENT)
    publications = read_publications(
        files, publishers=run.topics, measure=run.measure, has_sent_times=has_sent_times,
        heard_until_ns=run.heard_until_ns,
    )  # fmt: skip
    expected = expectation(run.subscriptions, topics=run.topics, publishers=publications.publishers, rule=run.rule)
    return publications, expected


def empty_ledger(run: RunFacts, publications: Publications, expected: Expectation) -> Ledger:
    """A client without a lasting session that comes back, by plan or after a fault, subscribes anew."""
    resubscribes = bool(run.row["may_be_away"] or run.row["faults"])
    return Ledger(publications, expected, late_ns=run.late_ns, window=run.window, resubscribes=resubscribes)


def _crossing(run: RunFacts, publications: Publications, expected: Expectation) -> Bools | None:
    """By flow; None where the broker has one node."""
    if run.nodes is None:
        return None
    subscribed = {each.subscriber: each.node for each in run.subscriptions}
    return expected.crossing(subscribed, run.nodes, publications.publishers)


def _publications(work: Work) -> list[pa.RecordBatch]:
    publications, expected = read_run(work.run)
    published = publications.per_publisher(publications.is_published)
    acknowledged = publications.per_publisher(publications.is_acknowledged)
    measured = publications.is_measured
    columns = {
        "publisher": publications.publishers,
        "published": published,
        "acknowledged": acknowledged,
        "published_bytes": publications.per_publisher(publications.is_published, publications.payload_bytes),
        "measured": publications.per_publisher(measured),
        "measured_acknowledged": publications.per_publisher(measured & publications.is_acknowledged),
        "measured_bytes": publications.per_publisher(measured, publications.payload_bytes),
        "last_sent_ns": _last_sent_ns(publications),
    }
    has_clients = bool(publications.publishers.size or expected.granted_qos)
    if not has_clients:
        return []
    is_told, crosses = PUBLISHED in work.run.origin.told, _crossing(work.run, publications, expected)
    return [
        *([] if is_told else [partial(work.run, "publisher", columns)]),
        partial(work.run, "expected", _expected_columns(work.run, publications, expected)),
        partial(work.run, "subscriber", _subscriber_columns(work.run)),
        partial(work.run, "expected_flow", _expected_flow_columns(publications, expected)),
        *([] if is_told else _sending_ticks(work.run, publications)),
        *_partial_of_rows(work.run, "trial_sent", list(sent_rows(work.run.trials, publications, expected))),
        *_partial_of_rows(
            work.run, "fault_expected", list(expected_rows(fault_times(work.run), publications, expected, crosses))
        ),
    ]


def _expected_columns(run: RunFacts, publications: Publications, expected: Expectation) -> dict[str, Any]:
    """Without a subscriber there is still a ledger to show: one that expects nothing."""
    levels = sorted(set(expected.granted_qos), key=str) or [None]
    owed, granted = expected.owed(publications), expected.granted_of_flows()
    pairs = expected.pairs(publications, owed)
    acknowledged = expected.pairs(publications, owed & publications.is_acknowledged)
    own = [granted == (-1 if qos is None else qos) for qos in levels]
    crosses = _crossing(run, publications, expected)
    return {
        "qos_granted": levels,
        "pairs": [int(pairs[each].sum()) for each in own],
        "acknowledged_pairs": [int(acknowledged[each].sum()) for each in own],
        "crossing_pairs": [None if crosses is None else int(pairs[each & crosses].sum()) for each in own],
    }


def _subscriber_columns(run: RunFacts) -> dict[str, Any]:
    return {
        "subscriber": [each.subscriber for each in run.subscriptions],
        "group": [each.group for each in run.subscriptions],
        "filters": [len(each.filters) for each in run.subscriptions],
        "qos_granted": [each.granted_qos for each in run.subscriptions],
    }


def _expected_flow_columns(publications: Publications, expected: Expectation) -> dict[str, Any]:
    """What each flow is owed; of a group nobody knows which member was to get it."""
    is_rhythmic = publications.is_measured & (not expected.is_replay)  # a replay is one burst
    measured = expected.pairs(publications, is_rhythmic)
    return {
        "subscriber": expected.subscribers[expected.flows.subscriber],
        "publisher": publications.publishers[expected.flows.publisher],
        "measured": pa.array(measured, mask=expected.is_shared),
    }


def _sending_ticks(run: RunFacts, publications: Publications) -> list[pa.RecordBatch]:
    timeline, is_published = Timeline(run.phases), publications.is_published
    sent_ns = publications.sent_ns[is_published]
    acknowledged = counted_ticks("acknowledged", timeline.counts(publications.acked_ns[publications.is_acknowledged]))
    if not publications.has_sent_times:
        return _partial_of_rows(run, "tick", [*counted_ticks("lag", timeline.counts(sent_ns)), *acknowledged])
    timeline.add(sent_ns, sent_ns - publications.intended_ns[is_published])
    return _partial_of_rows(run, "tick", [*timeline.ticks("lag"), *acknowledged])


def _last_sent_ns(publications: Publications) -> list[int | None]:
    edges = zip(publications.base, publications.base[1:], strict=False)
    own = (publications.sent_ns[start:end][publications.is_measured[start:end]] for start, end in edges)
    return [int(sent.max()) if sent.size else None for sent in own]


def _deliveries(work: Work) -> list[pa.RecordBatch]:
    worker = _NUMBERED.sub("", Path(work.deliveries[0]).name)
    return reduce_deliveries(work.run, lambda: portions_of(work.deliveries), of=f"deliveries/{worker}-*.parquet")


def reduce_deliveries(
    run: RunFacts, portions: Callable[[], Iterator[pa.Table]], *, of: str = "deliveries/"
) -> list[pa.RecordBatch]:
    """The partial results of deliveries, all of some subscribers in order of their arrival; they may be asked twice.

    `of` names them where something is wrong with them.
    """
    publications, expected = read_run(run)
    ledger = empty_ledger(run, publications, expected)
    has_times = run.origin.knows(INTENDED)
    crosses = _crossing(run, publications, expected)
    latencies = Latencies(run.payload_classes, is_crossing=crosses, has_sent_times=publications.has_sent_times)
    replays, trials, faults = Tally(), TrialArrivals(run.trials), FaultCount(fault_times(run), expected, crosses)
    timeline, rhythm = Timeline(run.phases), Rhythm(has_latency=has_times)
    is_timed, untimed = timed_flows(run, portions, ledger), timeline.counts(np.empty(0, dtype=np.int64))
    arrivals_only = Rhythm(has_latency=False)
    for rows in portions():
        first = ledger.add(without_overheard(rows, run))
        faults.add(ledger.received_ns, ledger.received_flow, first)
        if is_timed is not None:
            open_ = first.where(~is_timed[first.flow])
            untimed += timeline.counts(open_.received_ns)
            if not expected.is_replay:
                arrivals_only.add(open_.measured())
            first = first.where(is_timed[first.flow])
        if expected.subscribed_ns is not None:
            # A message that waited in the broker was not sent for a subscriber that came later.
            since_ns = expected.subscribed_ns[expected.flows.subscriber[first.flow]]
            replays.add(first.received_ns - since_ns, resolution_ns=first.resolution_ns)
            continue
        measured = first.measured()
        rhythm.add(measured)
        if not has_times:
            untimed += timeline.counts(first.received_ns)
            continue
        timeline.add(first.received_ns, first.received_ns - first.intended_ns)
        trials.add(first)
        latencies.add(measured)
    latency = [batch for found in latencies.filled() for batch in _latency(run, *found)]
    latency += _latency(run, "subscribe", ALL, replays) if replays.n else []
    backwards = [f"{of}: the clock goes back ({ledger.steps_back} ×)"] if ledger.steps_back else []
    if unsure := _clocks_too_far_apart(run, latencies):
        return [partial(run, "problem", {"reason": [unsure]})]
    in_doubt = ledger.settle()
    return [
        *_partial_of_rows(run, "note", [{"reason": reason} for reason in backwards]),
        partial(run, "flow", _flow_columns(ledger, publications, expected, crosses, in_doubt)),
        partial(run, "unexpected", _unexpected_columns(ledger, expected)),
        *latency,
        *_partial_of_rows(run, "tick", [*timeline.ticks("latency"), *counted_ticks("latency", untimed)]),
        *_partial_of_rows(run, "trial_arrived", list(trials.rows())),
        *_partial_of_rows(run, "rhythm", list(rhythm.rows(publications, expected))),
        *_partial_of_rows(run, "rhythm", list(arrivals_only.rows(publications, expected))),
        *_partial_of_rows(run, "fault_arrived", list(faults.rows())),
        *_partial_of_rows(run, "fault_bin", list(faults.bin_rows())),
    ]


def _clocks_too_far_apart(run: RunFacts, latencies: Latencies) -> str | None:
    """A latency between two machines is rejected where it is no more than what is not known of their clocks."""
    for kind, group, tally in latencies.filled() if run.clocks_bound_ns else ():
        if (kind, group) == ("intended", ALL) and (median_ns := tally.median_ns()) < run.clocks_bound_ns:
            bound_ms, median_ms = run.clocks_bound_ns / 1e6, median_ns / 1e6
            return f"clocks agree to {bound_ms:.3g} ms only, and half of the latencies are below {median_ms:.3g} ms"
    return None


def timed_flows(run: RunFacts, portions: Callable[[], Iterator[pa.Table]], empty: Ledger) -> Bools | None:
    """Flows whose latency is known where messages look alike (reduce/likeness.py); None where none do."""
    if run.window is None:
        return None
    counted = empty.anew()
    for rows in portions():
        counted.add(without_overheard(rows, run))
    return ~counted.in_doubt()


def portions_of(files: Sequence[str]) -> Iterator[pa.Table]:
    """Deliveries in order of arrival, so many at a time that the arrays made of them stay small."""
    for table in read_files(files, "deliveries", COLUMNS):
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            yield table.slice(start, _ROWS_AT_ONCE)


def _flow_columns(
    ledger: Ledger, publications: Publications, expected: Expectation, crosses: Bools | None, in_doubt: Bools
) -> dict[str, Any]:
    """Flows with an arrival, of a ledger that is settled."""
    flow = np.flatnonzero(ledger.counts["arrivals"] + ledger.counts["stale"])
    subscriber, publisher = expected.flows.subscriber[flow], expected.flows.publisher[flow]
    last_ns = ledger.last_received_ns[flow]
    return {
        "subscriber": expected.subscribers[subscriber],
        "publisher": publications.publishers[publisher],
        "qos_granted": [expected.granted_qos[number] for number in subscriber],
        **{name: counts[flow] for name, counts in ledger.counts.items()},
        "last_received_ns": pa.array(last_ns, mask=last_ns == np.iinfo(np.int64).min),
        "is_crossing": [None] * flow.size if crosses is None else crosses[flow],
        "in_doubt": in_doubt[flow],
    }


def _unexpected_columns(ledger: Ledger, expected: Expectation) -> dict[str, Any]:
    granted = dict(zip(expected.subscribers.tolist(), expected.granted_qos, strict=True))
    return {
        "subscriber": list(ledger.unexpected),
        "qos_granted": [granted.get(subscriber) for subscriber in ledger.unexpected],
        "arrivals": list(ledger.unexpected.values()),
    }


def _latency(run: RunFacts, kind: str, group: str, tally: Tally) -> list[pa.RecordBatch]:
    buckets = tally.buckets()
    names = {"kind": [kind] * len(buckets["n"]), "group": [group] * len(buckets["n"])}
    return [
        *_partial_of_rows(run, "moments", [{"kind": kind, "group": group, **tally.moments()}]),
        partial(run, "bucket", {**names, **buckets}),
    ]


def _parts(work: Work) -> list[pa.RecordBatch]:
    """What devices and the probe saw, and what is to be said of the window."""
    run = work.run
    if not run.devices and run.probe is None:
        return _partial_of_rows(run, "note", window_notes(run))
    publications, _ = read_run(run)
    echo = device_columns(run, publications)
    own = {(kind, ALL): tally for kind, tally in device_tallies(run, publications).items()}
    probed, notes = probe_tallies(run)
    own |= {(kind, PROBE): tally for kind, tally in probed.items()}
    return [
        *_partial_of_rows(run, "note", [*window_notes(run), *notes]),
        *([] if echo is None else [partial(run, "echo", echo)]),
        *(batch for (kind, group), tally in own.items() if tally.n for batch in _latency(run, kind, group, tally)),
    ]


def _inbound(work: Work) -> list[pa.RecordBatch]:
    samples = read_interfaces(map(str, work.run.directory.files("interfaces")))
    return _partial_of_rows(work.run, "inbound", list(inbound(samples, work.run.phases)))


def _usage(work: Work) -> list[pa.RecordBatch]:
    """What the samples say of phases, and of seconds, which are there also without samples."""
    samples, phases = read_samples(map(str, work.run.directory.files("resources"))), work.run.phases
    return [
        *_partial_of_rows(work.run, "usage", list(usage(samples, phases))),
        *_partial_of_rows(work.run, "second", Timeline(phases).rows(samples)),
    ]


def _sessions(work: Work) -> list[pa.RecordBatch]:
    files = list(map(str, work.run.directory.files("sessions")))
    return [
        *_partial_of_rows(work.run, "session", read_sessions(files, work.run.phases)),
        *_partial_of_rows(work.run, "fault_noticed", list(noticed_rows(fault_times(work.run), files))),
    ]


def _counters(work: Work) -> list[pa.RecordBatch]:
    files = map(str, work.run.directory.files("counters"))
    return _partial_of_rows(work.run, "counter", read_counters(files, work.run.phases))


def _told(work: Work) -> list[pa.RecordBatch]:
    """Of a source that counted its messages and kept none of them: its totals as if they were ours."""
    return [partial(work.run, family, columns) for family, columns in told_columns(work.run).items()]
