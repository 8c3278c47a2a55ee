"""The table of runs."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.runs import RUNS
from brokerlab.pipeline.transforms import Analysis, family


def make(analysis: Analysis) -> DataFrame:
    return runs_table(analysis.manifests, partials=analysis.partials)


def runs_table(manifests: DataFrame, *, partials: DataFrame) -> DataFrame:
    """One row per run: what its manifest says, and invalid where a raw file cannot be read.

    What a file should not hold (a clock that goes back) is told beside the reasons, and decides nothing.
    """
    told = manifests.join(_told(partials, "problem"), on="run_id", how="left")
    told = told.join(_told(partials, "note"), on="run_id", how="left")
    none = F.array().cast("array<string>")
    return told.withColumns(
        {
            "verdict": F.when(F.col("problem").isNotNull(), "invalid").otherwise(F.col("verdict")),
            "reasons": F.concat("reasons", F.coalesce("problem", none), F.coalesce("note", none)),
        }
    ).to(RUNS)


def _told(partials: DataFrame, name: str) -> DataFrame:
    """One row per run of which something is told."""
    return family(partials, name).groupBy("run_id").agg(F.sort_array(F.collect_set("reason")).alias(name))
