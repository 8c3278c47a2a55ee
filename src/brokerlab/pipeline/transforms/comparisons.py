"""Pairs of levels beside each other: differences of valid runs, and what they are worth.

The valid runs of a metric are some hundred numbers at most: they go together into one task, where reduce/levels.py
compares them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.metrics import LARGER_IS_BETTER, UNITS
from brokerlab.pipeline.reduce.levels import Observation, comparisons
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.comparisons import COMPARISONS
from brokerlab.pipeline.transforms import Analysis


def make(analysis: Analysis) -> DataFrame:
    values = analysis.tables["values"]
    observed = observed_values(values, runs=analysis.tables["runs"], set_ups=analysis.runs)
    return comparisons_table(observed, confidence_percent=analysis.confidence_percent)


class CompareLevels:
    """The table function: a row of observations comes in, the comparisons of its metric leave."""

    def eval(self, observed: pa.RecordBatch) -> Iterator[pa.Table]:
        for row in observed.to_pylist():
            metric = row["metric"]
            found = comparisons(
                observations_of(row),
                larger_is_better=metric in LARGER_IS_BETTER,
                confidence_percent=row["confidence_percent"],
            )
            about = {"metric": metric, "unit": UNITS[metric]}
            yield pa.Table.from_pylist([about | each for each in found], schema=arrow_schema(COMPARISONS))


def comparisons_table(observed: DataFrame, *, confidence_percent: float) -> DataFrame:
    """One row per factor, pair of its levels, context that both have, and metric."""
    compared: Any = F.arrow_udtf(CompareLevels, returnType=COMPARISONS)  # typed as a decorator only
    rows: DataFrame = compared(
        observed.withColumn("confidence_percent", F.lit(float(confidence_percent))).coalesce(1).asTable()
    )
    return rows.to(COMPARISONS)


def observed_values(values: DataFrame, *, runs: DataFrame, set_ups: DataFrame) -> DataFrame:
    """One row per metric: all that the valid runs have of it. `runs` is the finished table."""
    valid = runs.where(F.col("verdict") == "valid").select("run_id", "levels")
    own = set_ups.select("run_id", "set_up")
    observation = F.struct("run_id", "set_up", "value", "resolution", F.map_entries("levels").alias("levels"))
    return (
        values.join(valid, on="run_id", how="inner")
        .join(own, on="run_id", how="left")
        .groupBy("metric")
        .agg(F.sort_array(F.collect_list(observation)).alias("observations"))
    )


def observations_of(row: Mapping[str, Any]) -> list[Observation]:
    return [
        Observation(
            {level["key"]: level["value"] for level in each["levels"] or ()},
            each["set_up"],
            each["value"],
            each["resolution"],
        )
        for each in row["observations"]
    ]
