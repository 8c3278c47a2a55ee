"""Partial results to tables: pure functions from frames to frames, one module per table.

A module bears its table's name, and its `make` says what of an analysis the table is made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a table can be made of."""

    partials: DataFrame  # of schemas.families.PARTIALS
    manifests: DataFrame  # of schemas.manifests.MANIFESTS
    runs: DataFrame  # the same, without the runs that cannot be read
    tables: Mapping[str, DataFrame]  # those that come before it in TABLE_NAMES, finished
    confidence_percent: float
    most_runs: int  # of one cell


def family(partials: DataFrame, name: str) -> DataFrame:
    """The rows of one family with their columns beside run_id."""
    return partials.where(F.col(name).isNotNull()).select("run_id", f"{name}.*")
