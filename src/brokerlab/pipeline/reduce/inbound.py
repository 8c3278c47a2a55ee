"""What came in at each interface of a router in each phase, from cumulative samples."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifest_row import Phase
from brokerlab.pipeline.reduce.raw import longs, read_files
from brokerlab.pipeline.reduce.usage import growth

COUNTS = ("rx_bytes", "rx_packets", "rx_dropped")


def read_interfaces(files: Iterable[str]) -> pa.Table | None:
    """All samples of a run; None where there are no files."""
    tables = list(read_files(files, "interfaces", ("node", "interface", "at_ns", *COUNTS)))
    return pa.concat_tables(tables) if tables else None


def inbound(samples: pa.Table | None, phases: Sequence[Phase]) -> Iterator[dict[str, Any]]:
    """One row per router, interface and phase in which it was sampled."""
    if samples is None:
        return
    keys = samples.select(["node", "interface"]).group_by(["node", "interface"], use_threads=False).aggregate([])
    nodes, interfaces = (samples.column(name).to_numpy(zero_copy_only=False) for name in ("node", "interface"))
    for key in keys.to_pylist():
        rows = np.flatnonzero((nodes == key["node"]) & (interfaces == key["interface"]))
        own = samples.take(pa.array(rows)).sort_by("at_ns")
        at_ns = longs(own, "at_ns")
        for phase in phases:
            if at_ns[0] < phase.end_ns and at_ns[-1] > phase.start_ns:
                grown = {name: growth(at_ns, longs(own, name), phase) for name in COUNTS}
                yield {**key, "phase": phase.name, "seconds": phase.seconds, **grown}
