"""The points of the cumulative curves: table `histogram` as it is, one curve per valid run.

A point says: this share of the run's messages took longer than this many milliseconds.
Runs are drawn one by one rather than merged, so that their spread can be seen.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from brokerlab.report.cells import CellResult, Group
from brokerlab.report.results import Results, Row

# Distance of two points in natural logarithms of share and latency: below what the eye can see in a chart of
# this size, and coarser where many curves share the page, so that the file stays small.
_STEP = 0.02
_CURVES_AT_FULL_DETAIL = 40
_NS_PER_MS = 1e6


def curves(results: Results, compared: list[Group]) -> list[Row]:
    """Rows (group, broker, run, latency_ms, slower) for every valid run with positive latencies."""
    histograms = _by_run(results.histogram)
    step = _STEP * max(1.0, len(histograms) / _CURVES_AT_FULL_DETAIL)
    rows: list[Row] = []
    for group in compared:
        for cell in group.cells:
            rows.extend(_cell_rows(cell, group.label, histograms, step))
    return rows


def _cell_rows(cell: CellResult, label: str, histograms: dict[str, pa.Table], step: float) -> Iterator[Row]:
    for run in cell.runs:
        if run["verdict"] != "valid" or run["run_id"] not in histograms:
            continue
        for latency_ms, slower in _points(histograms[run["run_id"]], step):
            yield {
                "group": label,
                "broker": cell.broker,
                "run": run["run_id"],
                "latency_ms": float(f"{latency_ms:.4g}"),
                "slower": float(f"{slower:.4g}"),
            }


def _by_run(histogram: pa.Table) -> dict[str, pa.Table]:
    chosen = histogram.filter((pc.field("kind") == "intended") & (pc.field("group") == "all"))
    chosen = chosen.sort_by([("run_id", "ascending"), ("bucket", "ascending")])
    run_ids = pc.unique(chosen["run_id"]).to_pylist()
    return {run_id: chosen.filter(pc.field("run_id") == run_id) for run_id in run_ids}


def _points(histogram: pa.Table, step: float) -> list[tuple[float, float]]:
    """Upper edges of the buckets and the share above them; zero and negative latencies count, but have no place."""
    counts = histogram["n"].to_numpy().astype(np.float64)
    total = counts.sum()
    is_positive = histogram["bucket"].to_numpy() >= 0
    if total == 0 or not is_positive.any():
        return []
    # The share above the last edge is 0, which a logarithm cannot show: the slowest message is drawn instead.
    slower = np.maximum(1.0 - np.cumsum(counts) / total, 1.0 / total)[is_positive]
    high_ms = histogram["high_ns"].to_numpy()[is_positive] / _NS_PER_MS
    low_ms = histogram["low_ns"].to_numpy()[is_positive][0] / _NS_PER_MS
    start = float(counts[is_positive].sum() / total)
    edges = np.concatenate(([low_ms if low_ms > 0 else high_ms[0]], high_ms))
    return _thinned(edges, np.concatenate(([start], slower)), step)


def _thinned(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], step: float) -> list[tuple[float, float]]:
    """Leaves out points that lie too near the last one drawn; the ends stay."""
    kept = [0]
    for i in range(1, len(x) - 1):
        last = kept[-1]
        if abs(np.log(y[i] / y[last])) + abs(np.log(x[i] / x[last])) > step:
            kept.append(i)
    if len(x) > 1:
        kept.append(len(x) - 1)
    return [(float(x[i]), float(y[i])) for i in kept]
