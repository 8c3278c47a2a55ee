"""What each subscriber got, and its part of what its group got."""

from pyspark.sql import DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import share, total
from brokerlab.pipeline.schemas.subscribers import SUBSCRIBERS
from brokerlab.pipeline.transforms import Analysis, family

_COUNTS = ("delivered", "duplicated", "overlapping", "reordered", "stale")


def make(analysis: Analysis) -> DataFrame:
    return subscribers_table(analysis.partials, runs=analysis.runs)


def subscribers_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run and subscriber of its manifest, also where nothing arrived."""
    key = ["run_id", "subscriber"]
    flows = family(partials, "flow").groupBy(*key).agg(*(total(name).alias(name) for name in _COUNTS))
    strangers = family(partials, "unexpected").groupBy(*key).agg(total("arrivals").alias("unexpected"))
    counted = (
        family(partials, "subscriber")
        .join(runs.select("run_id", "cell"), on="run_id", how="inner")
        .join(flows, on=key, how="left")
        .join(strangers, on=key, how="left")
        .na.fill(0, subset=[*_COUNTS, "unexpected"])
    )
    of_group = F.sum("delivered").over(W.partitionBy("run_id", "group"))
    in_group = F.when(F.col("group").isNotNull(), 100 * share(F.col("delivered"), of_group))
    return counted.withColumn("group_percent", in_group).to(SUBSCRIBERS)
