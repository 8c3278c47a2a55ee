"""The table `published`: what papers printed, beside what the runs of a study measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from pyspark.sql import SparkSession

from brokerlab.pipeline.placing import place
from brokerlab.pipeline.schemas.printed import OURS, VALUES
from brokerlab.pipeline.sources import small_frame
from brokerlab.pipeline.tables import read_table
from brokerlab.pipeline.transforms.published import published_table
from brokerlab.published.values import lowest_is_best, metrics_of_ours, values_of
from brokerlab.record.directory import StudyDirectory

Row = Mapping[str, Any]


def write_beside(spark: SparkSession, results: StudyDirectory, names: Sequence[str]) -> None:
    """Writes the table `published` of these printed tables beside the finished tables of the study."""
    printed = [asdict(value) for name in names for value in values_of(name)]
    ours = list(our_rows(results))
    table = published_table(small_frame(spark, printed, VALUES), ours=small_frame(spark, ours, OURS))
    place(table, results, "published")


def our_rows(results: StudyDirectory) -> Iterator[dict[str, Any]]:
    """Rows of OURS from the finished tables; the latency of the probe stands for a printed one under load."""
    cells: list[Row] = read_table(results, "cells").to_pylist(maps_as_pydicts="strict")
    runs: list[Row] = read_table(results, "runs").to_pylist(maps_as_pydicts="strict")
    about = {row["cell"]: row for row in runs}
    by_metric = {(row["cell"], row["metric"]): row for row in cells if row["mean"] is not None}
    means = _run_means(results, runs, "resources", "projected_per_s", "projected_per_s")
    means |= _run_means(results, runs, "latency", "mean_ms", "latency.probe")
    for cell in dict.fromkeys(row["cell"] for row in cells):
        for printed, metric in metrics_of_ours().items():
            wanted = "latency.probe" if printed == "average_latency" and (cell, "latency.probe") in means else metric
            estimate = by_metric.get((cell, wanted)) or means.get((cell, wanted))
            if estimate is not None and cell in about:
                yield _row(printed, wanted, about[cell], estimate)


def _run_means(
    results: StudyDirectory, runs: Sequence[Row], table: str, column: str, metric: str
) -> dict[tuple[str, str], Row]:
    """The mean over valid runs of a column that `cells` does not have."""
    valid = {row["run_id"] for row in runs if row["verdict"] == "valid"}
    values: dict[str, list[float]] = {}
    for row in read_table(results, table).to_pylist():
        is_probe = table != "latency" or (row["group"] == "probe" and row["kind"] == "intended")
        if is_probe and row["run_id"] in valid and row[column] is not None:
            values.setdefault(row["cell"], []).append(row[column])
    return {
        (cell, metric): {"mean": fmean(found), "low": None, "high": None, "n": len(found)}
        for cell, found in values.items()
    }


def _row(printed: str, metric: str, run: Row, estimate: Row) -> dict[str, Any]:
    levels = dict(run["levels"] or {})
    others = {name: level for name, level in levels.items() if name not in ("broker", "qos")}
    return {
        "metric": printed,
        "broker": str(run["driver"] or run["broker"]).split("@", maxsplit=1)[0],
        "our_qos": None if run["qos"] is None else str(run["qos"]),
        "others": ", ".join(f"{name} {level}" for name, level in others.items()),
        "lowest": lowest_is_best(printed),
        "cell": run["cell"],
        "our_broker": run["broker"],
        "our_version": run["version"],
        "our_metric": metric,
        "our_value": estimate["mean"],
        "our_low": estimate["low"],
        "our_high": estimate["high"],
        "our_n": estimate["n"],
        "levels": levels,  # not a column of OURS: for the claims
    }
