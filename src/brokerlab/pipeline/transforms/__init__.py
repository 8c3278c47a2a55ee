"""Partial results to tables: pure functions from frames to frames, one module per family of tables.

`partials` is a frame of schemas.PARTIALS, `runs` one of schemas.MANIFESTS without the runs that cannot be read.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def family(partials: DataFrame, name: str) -> DataFrame:
    """The rows of one family with their columns beside run_id."""
    return partials.where(F.col(name).isNotNull()).select("run_id", f"{name}.*")
