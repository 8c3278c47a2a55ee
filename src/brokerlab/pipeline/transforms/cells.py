"""Metrics of cells: the mean over valid runs, with Student's t interval."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import mean_if_all
from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.schemas.cells import CELLS
from brokerlab.pipeline.transforms import Analysis
from brokerlab.stats.interval import t_factor


def make(analysis: Analysis) -> DataFrame:
    confidence_percent = analysis.confidence_percent
    factors = {n: t_factor(n, confidence_percent=confidence_percent) for n in range(2, analysis.most_runs + 1)}
    return cells_table(
        analysis.tables["values"],
        runs=analysis.tables["runs"],
        t_factors=factors,
        confidence_percent=confidence_percent,
    )


def cells_table(
    values: DataFrame, *, runs: DataFrame, t_factors: Mapping[int, float], confidence_percent: float
) -> DataFrame:
    """One row per cell and metric, also where no run of the cell is valid; all come from finished tables.

    `t_factors` gives the half width of the interval in standard deviations, by the number of runs.
    """
    valid = runs.where(F.col("verdict") == "valid").select("run_id", "cell")
    half_width = F.col("sd") * _by_number(t_factors, F.col("n"))
    spread = (
        values.join(valid, on="run_id", how="inner")
        .groupBy("cell", "metric")
        .agg(
            F.count("value").cast("int").alias("n"),
            F.avg("value").alias("mean"),
            F.stddev_samp("value").alias("sd"),
            F.min("value").alias("min"),
            F.max("value").alias("max"),
            mean_if_all("resolution", where=F.col("value").isNotNull()).alias("resolution"),
        )
    )
    return (
        _grid(runs)
        .join(spread, on=["cell", "metric"], how="left")
        .withColumns(
            {
                "n": F.coalesce("n", F.lit(0)),
                "low": F.col("mean") - half_width,
                "high": F.col("mean") + half_width,
                "confidence_percent": F.lit(float(confidence_percent)),
            }
        )
        .to(CELLS)
    )


def _grid(runs: DataFrame) -> DataFrame:
    """One row per cell and metric."""
    metrics = F.array(
        *(F.struct(F.lit(name).alias("metric"), F.lit(unit).alias("unit")) for name, unit in UNITS.items())
    )
    about = runs.groupBy("cell").agg(
        *(F.min_by(name, "run_id").alias(name) for name in ("broker", "qos", "levels")),
        F.count_if(F.col("verdict") != "valid").cast("int").alias("invalid_runs"),
    )
    return about.select("*", F.inline(metrics))


def _by_number(factors: Mapping[int, float], n: Column) -> Column:
    """The factor of n; null where there is none, as for a single run."""
    entries = [F.lit(part) for entry in {-1: 0.0, **factors}.items() for part in entry]  # a map needs an entry
    return F.try_element_at(F.create_map(*entries), n)
