"""Partial results to tables: pure functions from frames to frames, one module per table.

A module bears its table's name, and its `make` says what of an analysis the table is made of; it gives None where
that is nothing at all, so that a table without rows costs no job.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a table can be made of."""

    partials: DataFrame  # of schemas.families.PARTIALS
    manifests: DataFrame  # of schemas.manifests.MANIFESTS
    runs: DataFrame  # the same, without the runs that cannot be read
    tables: Mapping[str, DataFrame]  # those that come before it in TABLE_NAMES, finished
    filled: frozenset[str]  # the families of partials, and columns of manifests, that are not empty in all runs
    confidence_percent: float
    most_runs: int  # of one cell
    captures: "Captures | None" = None  # None where no run has any


@dataclass(frozen=True, slots=True)
class Captures:
    """What the captures of the runs come to: frames of schemas/captured.py."""

    taps: DataFrame  # of TAPS
    followed: DataFrame  # of FOLLOWED
    matched: DataFrame  # of MATCHED


def family(partials: DataFrame, name: str) -> DataFrame:
    """The rows of one family with their columns beside run_id."""
    return partials.where(F.col(name).isNotNull()).select("run_id", f"{name}.*")


def one_each(rows: DataFrame, *key: str) -> DataFrame:
    """The same rows; a key that is there twice fails the job, because it would count double in all that is joined."""
    there = F.count("*").over(W.partitionBy(*key))
    told = F.concat(F.lit("there twice: "), F.concat_ws(", ", *key))
    is_alone = F.when(F.col("there") == 1, F.lit(True)).otherwise(F.raise_error(told).cast("boolean"))
    return rows.withColumn("there", there).where(is_alone).drop("there")
