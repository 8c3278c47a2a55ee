"""From single deliveries, with whatever names their source gives, to numbered publications and deliveries.

A message is known by publisher and id. Its number is its place among those of its publisher in order of sending,
so that an arrival out of that order is seen as such.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.imports.base import Options, Reading
from brokerlab.record.schemas import DELIVERIES, PUBLICATIONS

_ALWAYS_UNKNOWN = ("sent", "acknowledged")


@dataclass(slots=True)
class Arrivals:
    """Deliveries as a source lists them, column by column."""

    subscriber: list[str] = field(default_factory=list)
    publisher: list[str] = field(default_factory=list)
    message: list[str] = field(default_factory=list)
    intended_ns: list[int | None] = field(default_factory=list)
    received_ns: list[int] = field(default_factory=list)
    payload_bytes: list[int | None] = field(default_factory=list)
    dup: list[bool | None] = field(default_factory=list)

    def add(
        self,
        subscriber: str,
        publisher: str,
        message: str,
        received_ns: int,
        *,
        intended_ns: int | None = None,
        payload_bytes: int | None = None,
        dup: bool | None = None,
    ) -> None:
        self.subscriber.append(subscriber)
        self.publisher.append(publisher)
        self.message.append(message)
        self.received_ns.append(received_ns)
        self.intended_ns.append(intended_ns)
        self.payload_bytes.append(payload_bytes)
        self.dup.append(dup)

    def __len__(self) -> int:
        return len(self.received_ns)


@dataclass(frozen=True, slots=True)
class About:
    """What a source says of all its messages at once."""

    qos: int | None = None
    granted_qos: int | None = None
    resolution_ns: int | None = None
    topics: dict[str, str] = field(default_factory=dict)  # by publisher; its name where there is none
    topic_filter: str = "#"


def reading_of(arrivals: Arrivals, about: About, options: Options) -> Reading:
    """One run: every message that arrived, and those beyond it that are known to have been published."""
    names = sorted(set(arrivals.publisher))
    hearers = sorted(set(arrivals.subscriber))
    number_of = {name: number for number, name in enumerate(names)}
    hearer_of = {name: number for number, name in enumerate(hearers)}
    seqs, messages = _numbered(arrivals)
    topics = [about.topics.get(name, name) for name in names]
    publications = [
        _publication(number_of[publisher], seq, topics[number_of[publisher]], arrivals, row, about.qos)
        for (publisher, _), (seq, row) in messages.items()
    ]
    missing, extra = _never_seen(messages, names, options.published, about.qos, topics)
    deliveries = {
        "subscriber": [hearer_of[name] for name in arrivals.subscriber],
        "publisher": [number_of[name] for name in arrivals.publisher],
        "seq": seqs,
        "qos": [about.granted_qos] * len(arrivals),
        "dup": arrivals.dup,
        "retain": [None] * len(arrivals),
        "payload_bytes": arrivals.payload_bytes,
        "intended_ns": arrivals.intended_ns,
        "received_ns": arrivals.received_ns,
        "resolution_ns": [about.resolution_ns] * len(arrivals),
    }
    times = [at_ns for at_ns in arrivals.intended_ns if at_ns is not None] or arrivals.received_ns
    return Reading(
        raw={
            "publications": pa.Table.from_pylist([*publications, *missing], schema=PUBLICATIONS),
            "deliveries": pa.table(deliveries, schema=DELIVERIES),
        },
        unknown=_unknown(arrivals, options),
        start_ns=min(times),
        end_ns=max(times) + 1,
        clients={
            "publishers": [{"publisher": number, "topic": topic} for number, topic in enumerate(topics)],
            "subscribers": [
                {"subscriber": number, "filter": about.topic_filter, "granted_qos": about.granted_qos}
                for number in range(len(hearers))
            ],
            "names": {"publishers": names, "subscribers": hearers},
        },
        workload={"publishers": len(names), "subscribers": len(hearers), "qos": about.qos, **_size(arrivals)},
        notes=extra,
    )


def _numbered(arrivals: Arrivals) -> tuple[list[int], dict[tuple[str, str], tuple[int, int]]]:
    """The number of each arrival's message, and number and first row of every message."""
    first: dict[tuple[str, str], int] = {}
    for row, key in enumerate(zip(arrivals.publisher, arrivals.message, strict=True)):
        first.setdefault(key, row)

    def sent(item: tuple[tuple[str, str], int]) -> tuple[str, int, int]:
        (publisher, _), row = item
        return publisher, arrivals.intended_ns[row] or arrivals.received_ns[row], row

    messages: dict[tuple[str, str], tuple[int, int]] = {}
    reached: dict[str, int] = {}
    for key, row in sorted(first.items(), key=sent):
        seq = reached.get(key[0], 0)
        reached[key[0]] = seq + 1
        messages[key] = (seq, row)
    seqs = [messages[key][0] for key in zip(arrivals.publisher, arrivals.message, strict=True)]
    return seqs, messages


def _publication(publisher: int, seq: int, topic: str, arrivals: Arrivals, row: int, qos: int | None) -> dict[str, Any]:
    return {
        "publisher": publisher,
        "seq": seq,
        "topic": topic,
        "qos": qos,
        "payload_bytes": arrivals.payload_bytes[row],
        "intended_ns": arrivals.intended_ns[row],
    }


def _never_seen(
    messages: dict[tuple[str, str], tuple[int, int]],
    names: Sequence[str],
    published: int | None,
    qos: int | None,
    topics: Sequence[str],
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Publications that the user knows of and nobody received; of their times nothing is known."""
    if published is None:
        return [], ()
    seen = np.zeros(len(names), dtype=np.int64)
    for publisher, _ in messages:
        seen[names.index(publisher)] += 1
    rows = [
        {"publisher": number, "seq": seq, "topic": topics[number], "qos": qos}
        for number in range(len(names))
        for seq in range(int(seen[number]), published)
    ]
    more = [number for number in range(len(names)) if seen[number] > published]
    return rows, tuple(f"{names[number]} has {seen[number]} messages, more than {published}" for number in more)


def _unknown(arrivals: Arrivals, options: Options) -> frozenset[str]:
    unknown = set(_ALWAYS_UNKNOWN)
    if options.published is None:
        unknown |= {"published", "expected"}
    if any(at_ns is None for at_ns in arrivals.intended_ns):
        unknown.add("intended")
    if any(size is None for size in arrivals.payload_bytes):
        unknown.add("payload")
    if any(flag is None for flag in arrivals.dup):
        unknown.add("dup")
    return frozenset(unknown)


def _size(arrivals: Arrivals) -> dict[str, Any]:
    sizes = sorted({size for size in arrivals.payload_bytes if size is not None})
    if len(sizes) == 1:
        return {"payload_bytes": sizes[0]}
    few = 1 < len(sizes) <= 8
    return {"payload": {"each": sizes}} if few else {}


def parts_of(arrivals: Arrivals, split_s: float | None) -> list[Arrivals]:
    """The arrivals of each repetition: a new one begins where nobody sent for longer than `split_s`."""
    if split_s is None or not len(arrivals):
        return [arrivals]
    at_ns = np.array([due or got for due, got in zip(arrivals.intended_ns, arrivals.received_ns, strict=True)])
    times = np.unique(at_ns)
    begins = times[np.flatnonzero(np.diff(times) > split_s * 1e9) + 1]
    number = np.searchsorted(begins, at_ns, side="right")
    parts = [Arrivals() for _ in range(begins.size + 1)]
    for row, part in enumerate(number.tolist()):
        parts[part].add(
            arrivals.subscriber[row],
            arrivals.publisher[row],
            arrivals.message[row],
            arrivals.received_ns[row],
            intended_ns=arrivals.intended_ns[row],
            payload_bytes=arrivals.payload_bytes[row],
            dup=arrivals.dup[row],
        )
    return parts
