"""What papers printed, beside what the runs of a study measured, and the papers' own figures of these runs.

boxes, equations ──► our values under the papers' names ──► published, rankings
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from brokerlab.pipeline.manifests import read_runs
from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.placing import place
from brokerlab.pipeline.schemas import TABLES
from brokerlab.pipeline.schemas.printed import OURS, VALUES
from brokerlab.pipeline.sources import read_back, read_traces, small_frame
from brokerlab.pipeline.tables import read_table
from brokerlab.pipeline.transforms.boxes import boxes_table
from brokerlab.pipeline.transforms.equations import equations_table
from brokerlab.pipeline.transforms.published import published_table
from brokerlab.pipeline.transforms.rankings import rankings_table
from brokerlab.published.values import lowest_is_best, metrics_of_ours, values_of
from brokerlab.record.bundle import HISTOGRAMS, bundled
from brokerlab.record.directory import StudyDirectory
from brokerlab.stats.formulas import is_extrapolated

Row = Mapping[str, Any]
Estimates = dict[tuple[str, str], Row]  # by cell and metric

# Units of what the table `cells` does not have.
_UNITS = {"latency.probe": "ms", "projected_per_s": "1/s", "limiting_cpu_percent": "%"}
_BOX = ("min", "q1", "median", "q3", "max")


def write_beside(spark: SparkSession, results: StudyDirectory, names: Sequence[str]) -> None:
    """Writes the tables of these printed tables beside the finished tables of the study."""

    def finished(name: str) -> DataFrame:
        return read_back(spark, results.table(name), TABLES[name].columns)

    runs, latency = finished("runs"), finished("latency")
    place(boxes_table(finished("histogram"), latency=latency, runs=runs), results, "boxes")
    if any(name.startswith("000/") for name in names):
        parts = {name: finished(name) for name in ("delivery", "throughput", "legs")}
        place(equations_table(runs=runs, latency=latency, **parts), results, "equations")
    # Of a bundle of histograms the traces stay as they were packed: they are made of raw files.
    if any(name.startswith("003/") for name in names) and bundled(results) != HISTOGRAMS:
        place(read_traces(spark, read_runs(results)[0]), results, "traces")
    values = [asdict(value) for name in names for value in values_of(name)]
    printed, ours = small_frame(spark, values, VALUES), small_frame(spark, list(our_rows(results)), OURS)
    place(published_table(printed, ours=ours), results, "published")
    place(rankings_table(printed, ours=ours, same=_same(results)), results, "rankings")


def our_rows(results: StudyDirectory) -> Iterator[dict[str, Any]]:
    """Rows of OURS from the finished tables; the latency of the probe stands for a printed one under load."""
    cells: list[Row] = read_table(results, "cells").to_pylist(maps_as_pydicts="strict")
    about = {row["cell"]: row for row in _runs(results)}
    found = _estimates(results, cells, about)
    for cell in dict.fromkeys(row["cell"] for row in cells if row["cell"] in about):
        for printed, statistic, metric in metrics_of_ours():
            wanted = "latency.probe" if printed == "average_latency" and (cell, "latency.probe") in found else metric
            estimate = found.get((cell, wanted))
            if estimate is not None:
                yield _row((printed, statistic, wanted), about[cell], estimate)


def _runs(results: StudyDirectory) -> list[dict[str, Any]]:
    """The runs with what their manifests say of the CPU that limits their broker."""
    rows: list[dict[str, Any]] = read_table(results, "runs").to_pylist(maps_as_pydicts="strict")
    facts = {run.run_id: run.row for run in read_runs(results)[0]}
    known = ("is_scalable", "system_cpu_percent")
    return [{**row, **{name: facts.get(row["run_id"], {}).get(name) for name in known}} for row in rows]


def _estimates(results: StudyDirectory, cells: Sequence[Row], about: Mapping[str, Row]) -> Estimates:
    """By cell and metric: those of the table `cells`, and what else papers print."""
    runs = {row["run_id"]: row for row in _runs(results) if row["verdict"] == "valid"}
    found: Estimates = {(row["cell"], row["metric"]): row for row in cells if row["mean"] is not None}
    values: dict[tuple[str, str], list[float]] = {}
    for row in _probes(read_table(results, "latency").to_pylist()):
        if row["run_id"] in runs:
            values.setdefault((row["cell"], "latency.probe"), []).append(row["mean_ms"])
    for row in read_table(results, "resources").to_pylist():
        if row["run_id"] in runs and row["phase"] == "measure" and row["projected_per_s"] is not None:
            run = runs[row["run_id"]]
            cpu_percent = run["system_cpu_percent"] if run["is_scalable"] else row["cpu_percent"]
            values.setdefault((row["cell"], "projected_per_s"), []).append(row["projected_per_s"])
            values.setdefault((row["cell"], "limiting_cpu_percent"), []).append(cpu_percent)
    for key, several in values.items():
        known = [value for value in several if value is not None]
        if known and key[0] in about:
            found[key] = {"mean": fmean(known), "low": None, "high": None, "n": len(known)}
    for (cell, metric), several in values.items():
        if metric == "limiting_cpu_percent":
            found[cell, "projected_per_s"] = {
                **found[cell, "projected_per_s"],
                "extrapolates": any(is_extrapolated(value) for value in several),
            }
    return found | _boxes(results)


def _probes(rows: Sequence[Row]) -> list[Row]:
    """One row a run: since the probe left, as the papers time it; where that was not imported, since it was due."""
    probes = [row for row in rows if row["group"] == "probe"]
    sent = {row["run_id"] for row in probes if row["kind"] == "sent"}
    return [row for row in probes if row["kind"] == ("sent" if row["run_id"] in sent else "intended")]


def _boxes(results: StudyDirectory) -> Estimates:
    """Nothing where no paper was asked for when the tables were made."""
    if not results.table("boxes").is_dir():
        return {}
    return {
        (row["cell"], f"box.{name}"): {"mean": row[f"{name}_ms"], "low": None, "high": None, "n": None}
        for row in read_table(results, "boxes").to_pylist()
        for name in _BOX
    }


def _row(of: tuple[str, str | None, str], run: Row, estimate: Row) -> dict[str, Any]:
    printed, statistic, metric = of
    levels = dict(run["levels"] or {})
    others = {name: level for name, level in levels.items() if name not in ("broker", "qos")}
    return {
        "metric": printed,
        "broker": str(run["driver"] or run["broker"]).split("@", maxsplit=1)[0],
        "our_qos": None if run["qos"] is None else str(run["qos"]),
        "our_statistic": statistic,
        "others": ", ".join(f"{name} {level}" for name, level in others.items()),
        "kind": {True: "scalable", False: "non-scalable"}.get(run["is_scalable"]),
        "lowest": lowest_is_best(printed),
        "cell": run["cell"],
        "our_broker": run["broker"],
        "our_version": run["version"],
        "our_metric": metric,
        "our_value": estimate["mean"],
        "our_unit": UNITS.get(metric) or _UNITS.get(metric, "ms"),
        "our_low": estimate["low"],
        "our_high": estimate["high"],
        "our_n": estimate["n"],
        "extrapolates": estimate.get("extrapolates"),
        "levels": levels,  # not a column of OURS: for the claims
    }


def _same(results: StudyDirectory) -> list[str]:
    """Names of brokers that are one and the same (F-21)."""
    rows = read_table(results, "comparisons").to_pylist()
    pairs = [row for row in rows if row["same"] and row["factor"] == "broker"]
    return sorted({name for row in pairs for name in (row["level_a"], row["level_b"])})
