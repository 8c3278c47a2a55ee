"""What came in at routers in each phase: the traffic between sites (B-21)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import share
from brokerlab.pipeline.schemas.overhead import OVERHEAD
from brokerlab.pipeline.transforms import Analysis, family


def make(analysis: Analysis) -> DataFrame:
    return overhead_table(analysis.partials, runs=analysis.runs)


def overhead_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run, router, interface and phase.

    Inter-broker traffic alone is what comes in from other routers where clients stay on their own sites.
    """
    return (
        family(partials, "inbound")
        .join(runs.select("run_id", "cell"), on="run_id", how="inner")
        .withColumns(
            {
                "is_between_sites": F.col("interface").startswith("site"),
                "bits_per_s": share(8 * F.col("rx_bytes"), F.col("seconds")),
            }
        )
        .to(OVERHEAD)
    )
