"""The table of runs."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.runs import RUNS
from brokerlab.pipeline.transforms import Analysis, family


def make(analysis: Analysis) -> DataFrame:
    return runs_table(analysis.manifests, partials=analysis.partials)


def runs_table(manifests: DataFrame, *, partials: DataFrame) -> DataFrame:
    """One row per run: what its manifest says, and invalid where a raw file cannot be read."""
    problems = family(partials, "problem").groupBy("run_id").agg(F.sort_array(F.collect_set("reason")).alias("damage"))
    is_damaged = F.col("damage").isNotNull()
    return (
        manifests.join(problems, on="run_id", how="left")
        .withColumns(
            {
                "verdict": F.when(is_damaged, "invalid").otherwise(F.col("verdict")),
                "reasons": F.when(is_damaged, F.concat("reasons", "damage")).otherwise(F.col("reasons")),
            }
        )
        .to(RUNS)
    )
