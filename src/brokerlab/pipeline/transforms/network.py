"""Links against their claims (design section 5.5)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.schemas.network import NETWORK
from brokerlab.pipeline.transforms import Analysis


def make(analysis: Analysis) -> DataFrame | None:
    return network_table(analysis.runs) if "links" in analysis.filled else None


def network_table(runs: DataFrame) -> DataFrame:
    """One row per run and direction of a link; none for runs on loopback."""
    return (
        runs.select("run_id", "cell", F.inline("links"))
        .withColumn("is_as_claimed", F.size("problems") == 0)
        .to(NETWORK)
    )
