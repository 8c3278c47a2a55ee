"""What each process used in each phase, from cumulative samples."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifest_row import Phase
from brokerlab.pipeline.reduce.raw import Bools, Longs, longs, longs_or_zero, read_files

COLUMNS = ("node", "process", "at_ns", "cpu_ns", "rss_bytes", "read_bytes", "written_bytes", "threads", "open_files")


def read_samples(files: Iterable[str]) -> pa.Table | None:
    """All samples of a run; None where there are no files."""
    tables = list(read_files(files, "resources", COLUMNS))
    return pa.concat_tables(tables) if tables else None


def usage(samples: pa.Table | None, phases: Sequence[Phase]) -> Iterator[dict[str, Any]]:
    """One row per node, process and phase in which the process was seen."""
    if samples is None:
        return
    by_process = samples.select(["node", "process"]).group_by(["node", "process"], use_threads=False).aggregate([])
    nodes, processes = samples.column("node").to_numpy(zero_copy_only=False), longs(samples, "process")
    for key in by_process.to_pylist():
        rows = np.flatnonzero((nodes == key["node"]) & (processes == key["process"]))
        own = samples.take(pa.array(rows)).sort_by("at_ns")
        at_ns = longs(own, "at_ns")
        for phase in phases:
            if at_ns[0] < phase.end_ns and at_ns[-1] > phase.start_ns:
                yield {**key, "phase": phase.name, "seconds": phase.seconds, **_in_phase(own, at_ns, phase)}


def _in_phase(samples: pa.Table, at_ns: Longs, phase: Phase) -> dict[str, Any]:
    """Growth and memory of one process; a sample on the edge belongs to both phases."""
    rss, is_rss_known = longs_or_zero(samples, "rss_bytes")
    is_inside = (phase.start_ns <= at_ns) & (at_ns <= phase.end_ns)
    # A phase shorter than the time between two samples may hold none: then the ones around it speak for it.
    place = is_inside if is_inside.any() else _around(at_ns, phase)
    inside = rss[place]
    if inside.any():
        inside = inside[inside > 0]  # a process that has ended, and is waited for, has no memory left to tell of
    return {
        "cpu_ns": _growth_if_known(samples, "cpu_ns", at_ns, phase),
        "rss_first_bytes": float(np.interp(0, at_ns - phase.start_ns, rss)) if is_rss_known.all() else None,
        "rss_mean_bytes": float(inside.mean()) if is_rss_known.all() else None,
        "rss_max_bytes": int(inside.max()) if is_rss_known.all() else None,
        "read_bytes": _growth_if_known(samples, "read_bytes", at_ns, phase),
        "written_bytes": _growth_if_known(samples, "written_bytes", at_ns, phase),
        "threads_max": _largest_if_known(samples, "threads", place),
        "open_files_max": _largest_if_known(samples, "open_files", place),
    }


def _around(at_ns: Longs, phase: Phase) -> slice:
    after = int(np.searchsorted(at_ns, phase.start_ns))
    return slice(after - 1, after + 1)


def growth(at_ns: Longs, total: Longs, phase: Phase) -> float:
    """How much a cumulative value grew in the phase.

    With a sample at each edge this is the largest minus the smallest value; without one the edge
    lies on the line between its neighbours. Times are taken from the phase's start to keep a float exact.
    """
    edges = np.interp([0, phase.end_ns - phase.start_ns], at_ns - phase.start_ns, total - total[0])
    return float(edges[1] - edges[0])


def _growth_if_known(samples: pa.Table, column: str, at_ns: Longs, phase: Phase) -> float | None:
    values, known = longs_or_zero(samples, column)
    return growth(at_ns, values, phase) if known.all() else None


def _largest_if_known(samples: pa.Table, column: str, place: Bools | slice) -> int | None:
    values, known = longs_or_zero(samples, column)
    return int(values[place].max()) if known[place].all() else None


def read_counters(files: Iterable[str], phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """Rows of families.COUNTER."""
    tables = list(read_files(files, "counters", ("node", "name", "at_ns", "value")))
    told = pa.concat_tables(tables).sort_by("at_ns").to_pylist() if tables else []
    measure = next((phase for phase in phases if phase.name == "measure"), None)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    before: dict[str, int] = {}
    for each in told:
        node, name, value = each["node"], each["name"], each["value"]
        row = rows.setdefault((node, name), {"node": node, "name": name, "measure_first": None, "measure_last": None})
        row |= {"value": value, "told_before": before.get(node, 0)}
        before[node] = before.get(node, 0) + 1
        if measure and each["at_ns"] <= measure.start_ns:
            row["measure_first"] = value
        if measure and each["at_ns"] <= measure.end_ns:
            row["measure_last"] = value
    return list(rows.values())
