"""How much of a metric's variance is due to which factor, by analysis of variance over valid runs."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.metrics import UNITS
from brokerlab.pipeline.reduce.levels import effects
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.effects import EFFECTS
from brokerlab.pipeline.transforms import Analysis
from brokerlab.pipeline.transforms.comparisons import observations_of, observed_values


def make(analysis: Analysis) -> DataFrame:
    values = analysis.tables["values"]
    return effects_table(observed_values(values, runs=analysis.tables["runs"], set_ups=analysis.runs))


class ShareVariance:
    """The table function: a row of observations comes in, the effects on its metric leave."""

    def eval(self, observed: pa.RecordBatch) -> Iterator[pa.Table]:
        for row in observed.to_pylist():
            about = {"metric": row["metric"], "unit": UNITS[row["metric"]]}
            found = [about | each for each in effects(observations_of(row))]
            yield pa.Table.from_pylist(found, schema=arrow_schema(EFFECTS))


def effects_table(observed: DataFrame) -> DataFrame:
    """One row per metric and effect: factors that vary, their pairs, and the residual."""
    shared: Any = F.arrow_udtf(ShareVariance, returnType=EFFECTS)  # typed as a decorator only
    rows: DataFrame = shared(observed.coalesce(1).asTable())
    return rows.to(EFFECTS)
