"""What came in at routers in each phase: the traffic between sites (B-21)."""

from pyspark.sql import DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import share
from brokerlab.pipeline.schemas.overhead import OVERHEAD
from brokerlab.pipeline.transforms import Analysis, family


def make(analysis: Analysis) -> DataFrame | None:
    return overhead_table(analysis.partials, runs=analysis.runs) if "inbound" in analysis.filled else None


def overhead_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run, router, interface and phase.

    Inter-broker traffic alone is what comes in from other routers where clients stay on their own sites.
    """
    is_idle = F.col("phase") == "idle"
    interface = W.partitionBy("run_id", "node", "interface").rowsBetween(W.unboundedPreceding, W.unboundedFollowing)
    idle_bits_per_s = F.max(F.when(is_idle, F.col("bits_per_s"))).over(interface)
    return (
        family(partials, "inbound")
        .join(runs.select("run_id", "cell"), on="run_id", how="inner")
        .withColumns(
            {
                "is_between_sites": F.col("interface").startswith("site"),
                "bits_per_s": share(8 * F.col("rx_bytes"), F.col("seconds")),
            }
        )
        .withColumn("above_idle_bits_per_s", F.when(~is_idle, F.col("bits_per_s") - idle_bits_per_s))
        .to(OVERHEAD)
    )
