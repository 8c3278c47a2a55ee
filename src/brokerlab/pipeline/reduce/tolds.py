"""Totals that a foreign tool printed while it ran, as partial results.

Such a tool keeps no message: what was published and delivered is known, which one is not, and nothing of latency.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from brokerlab.pipeline.manifests import RunFacts
from brokerlab.pipeline.reduce.raw import Longs, longs, read_files
from brokerlab.pipeline.reduce.timeline import Timeline, counted_ticks
from brokerlab.pipeline.schemas.families import FLOW, PUBLISHER

Columns = dict[str, Any]
_TICKS = {"published": "lag", "delivered": "latency"}


def told_columns(run: RunFacts) -> dict[str, Columns]:
    """The columns of families.PUBLISHER and FLOW, one row each, as far as they were told; and rows of TICK."""
    if not run.origin.told:
        return {}
    files = map(str, run.directory.files("counters"))
    tables = list(read_files(files, "counters", ("node", "name", "at_ns", "value")))
    counters = pa.concat_tables(tables) if tables else None
    totals = {what: total for what, names in run.origin.told.items() if (total := _total(counters, names))}
    families = {}
    if "published" in totals:
        times, values = totals["published"]
        n = int(values[-1])
        families["publisher"] = _row(PUBLISHER, published=n, measured=n, last_sent_ns=int(times[-1]))
    if "delivered" in totals:
        times, values = totals["delivered"]
        n = int(values[-1])
        last_ns = int(times[-1])
        families["flow"] = _row(FLOW, arrivals=n, delivered=n, measured_delivered=n, last_received_ns=last_ns)
    if ticks := _ticks(run, totals):
        families["tick"] = {name: [tick[name] for tick in ticks] for name in ticks[0]}
    return families


def _total(counters: pa.Table | None, names: tuple[str, ...]) -> tuple[Longs, Longs] | None:
    """Times, and the sum of the last values of the counters at each of them."""
    if counters is None:
        return None
    label = np.array(counters.column("name").to_pylist())
    node = np.array(counters.column("node").to_pylist())
    rows = np.flatnonzero(np.isin(label, names))
    if rows.size == 0:
        return None
    at_ns, value = longs(counters, "at_ns"), counters.column("value").to_numpy()
    times = np.unique(at_ns[rows])
    total = np.zeros(times.size)
    for key in sorted({(node[row], label[row]) for row in rows}):
        own = rows[(node[rows] == key[0]) & (label[rows] == key[1])]
        own = own[np.argsort(at_ns[own], kind="stable")]
        place = np.searchsorted(at_ns[own], times, side="right") - 1
        total += np.where(place >= 0, value[own][np.maximum(place, 0)], 0)
    return times, total.astype(np.int64)


def _row(family: T.StructType, **known: int) -> Columns:
    return {name: [known.get(name)] for name in family.names}


def _ticks(run: RunFacts, totals: Mapping[str, tuple[Longs, Longs]]) -> list[Columns]:
    """What each total grew by, in the second that ends with its being told."""
    timeline = Timeline(run.phases)
    rows: list[Columns] = []
    for what, total in totals.items():
        if what not in _TICKS:
            continue
        seconds, grown = timeline.second_of(total[0] - 1), np.diff(total[1], prepend=0)
        counts = np.zeros(timeline.seconds, dtype=np.int64)
        np.add.at(counts, seconds[seconds >= 0], grown[seconds >= 0])
        rows += counted_ticks(_TICKS[what], counts)
    return rows
