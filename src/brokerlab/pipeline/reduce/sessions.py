"""What happened to the sessions of a run's clients, by event."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifest_row import Phase
from brokerlab.pipeline.reduce.publications import within
from brokerlab.pipeline.reduce.raw import Bools, Longs, longs, longs_or_zero, read_files
from brokerlab.stats.histogram import rank

COLUMNS = ("event", "at_ns", "latency_ns", "reason_code")

_FAILED = ("failed", "closed", "refused")  # words in the name of an event that is a failure by itself
_REFUSED = 128  # from here on, in SUBACK of every version and everywhere in MQTT 5.0 (section 2.4)


def read_sessions(files: Iterable[str], phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """Rows of families.SESSION."""
    tables = list(read_files(files, "sessions", COLUMNS))
    return list(sessions(pa.concat_tables(tables), phases)) if tables else []


def sessions(rows: pa.Table, phases: Sequence[Phase]) -> Iterator[dict[str, Any]]:
    """One row per event, in the order in which they are first seen."""
    events = rows.column("event").to_numpy(zero_copy_only=False)
    for event in dict.fromkeys(events.tolist()):
        own = rows.filter(pa.array(events == event))
        latency, known = longs_or_zero(own, "latency_ns")
        yield {
            "event": event,
            "n": own.num_rows,
            "failures": int(_is_failure(event, own).sum()),
            **_quantiles(np.sort(latency[known])),
            "seconds": _seconds(longs(own, "at_ns"), phases),
        }


def _is_failure(event: str, rows: pa.Table) -> Bools:
    """CONNACK refuses with any code but 0 (MQTT 3.1.1 section 3.2.2.3), everything else from 128 on."""
    if any(word in event for word in _FAILED):
        return np.ones(rows.num_rows, dtype=np.bool_)
    code, known = longs_or_zero(rows, "reason_code")
    is_refusal: Bools = known & (code > 0 if event == "connack" else code >= _REFUSED)
    return is_refusal


def _quantiles(ascending_ns: Longs) -> dict[str, int | None]:
    """Exact: sessions are few beside messages."""
    n = ascending_ns.size
    shares = {"p50_ns": 0.5, "p99_ns": 0.99, "max_ns": 1.0}
    return {name: int(ascending_ns[rank(n, quantile=share) - 1]) if n else None for name, share in shares.items()}


def _seconds(at_ns: Longs, phases: Sequence[Phase]) -> float | None:
    """Of the phases in which something happened; None if all of it was outside."""
    return sum(phase.seconds for phase in phases if within(at_ns, phase).any()) or None
