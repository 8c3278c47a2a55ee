"""Clocks of several machines: how far a worker's is from the lab's, and how well that is known.

The lab asks, the worker answers with its time; the answer was given somewhere between asking and hearing:

    offset = (asked + heard) / 2 - answered         lab's time = worker's time + offset
    bound  = (heard - asked) / 2                    of the quickest exchange: the offset is off by this at most

Processes of one boot of one machine have one clock (CLOCK_MONOTONIC): offset and bound are 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from brokerlab.load.spec import Began, Connect, Drain, Go, Granted, Left, Retime, Stopped, Subscribed
from brokerlab.record.schemas import RAW_SCHEMAS

EXCHANGES = 32

# Times of a worker's own clock, by kind of raw file without its prefix; what a message carries is its publisher's.
_OWN = {
    "publications": ("intended_ns", "sent_ns", "acked_ns"),
    "deliveries": ("received_ns",),
    "sessions": ("at_ns",),
}


@dataclass(frozen=True, slots=True)
class Clock:
    """A worker's clock against the lab's."""

    offset_ns: int = 0
    bound_ns: int = 0


SAME = Clock()


def compare(ask: Callable[[], int], now_ns: Callable[[], int], *, exchanges: int = EXCHANGES) -> Clock:
    """The clock that answers, by the quickest of some exchanges."""
    best: tuple[int, int] | None = None
    for _ in range(exchanges):
        asked_ns = now_ns()
        answered_ns = ask()
        heard_ns = now_ns()
        if best is None or heard_ns - asked_ns < best[0]:
            best = heard_ns - asked_ns, (asked_ns + heard_ns) // 2 - answered_ns
    assert best is not None
    return Clock(offset_ns=best[1], bound_ns=-(-best[0] // 2))


def to_worker(order: Any, clock: Clock) -> Any:
    """What the lab says, in the worker's time."""
    return _shifted(order, -clock.offset_ns)


def to_lab(answer: Any, clock: Clock) -> Any:
    """What a worker says, in the lab's time."""
    return _shifted(answer, clock.offset_ns)


def _shifted(word: Any, by_ns: int) -> Any:
    if by_ns == 0:
        return word
    match word:
        case Go():
            times = {name: getattr(word, name) + by_ns for name in ("start_ns", "measure_ns", "end_ns")}
            return replace(word, **times)
        case Connect() | Began():
            return replace(word, start_ns=word.start_ns + by_ns)
        case Retime():
            return Retime(_shifted(word.order, by_ns))
        case Drain():
            return replace(word, deadline_ns=word.deadline_ns + by_ns)
        case Granted():
            return replace(word, asked_ns=word.asked_ns + by_ns)
        case Subscribed():
            granted, devices = (tuple(_shifted(each, by_ns) for each in part) for part in (word.granted, word.devices))
            return Subscribed(granted, devices)
        case Left():
            return replace(word, closed=tuple((number, at_ns + by_ns) for number, at_ns in word.closed))
        case Stopped():
            return replace(word, first_ns=word.first_ns + by_ns if word.first_ns else 0)
    return word


def publish_files(staged: Path, run: Path, own: Clock, publishers: Mapping[int, Clock]) -> None:
    """Moves a worker's raw files to the run directory, every time in them the lab's.

    A delivery's resolution grows by what is not known of both clocks: the error of a latency between two machines.
    """
    for kind in RAW_SCHEMAS:
        for path in sorted((staged / kind).glob("*.parquet")):
            shifted = translated(pq.ParquetFile(path).read(), kind.rpartition("_")[2], own, publishers)
            (run / kind).mkdir(exist_ok=True)
            beside = run / kind / f"{path.name}.part"
            pq.write_table(shifted.cast(RAW_SCHEMAS[kind]), beside, compression="zstd")
            beside.rename(run / kind / path.name)


def translated(rows: pa.Table, kind: str, own: Clock, publishers: Mapping[int, Clock]) -> pa.Table:
    """Rows of a raw file in the lab's time."""
    for name in _OWN[kind]:
        rows = _with(rows, name, pc.add(rows.column(name), own.offset_ns))
    if kind == "deliveries":
        senders = [publishers.get(number, SAME) for number in rows.column("publisher").to_pylist()]
        offsets = pa.array([clock.offset_ns for clock in senders], pa.int64())
        unsure = pa.array([own.bound_ns + clock.bound_ns if clock != own else 0 for clock in senders], pa.int64())
        rows = _with(rows, "intended_ns", pc.add(rows.column("intended_ns"), offsets))
        rows = _with(rows, "resolution_ns", pc.add(rows.column("resolution_ns"), unsure))
    return rows


def _with(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(name), values.cast(rows.schema.field(name).type))
