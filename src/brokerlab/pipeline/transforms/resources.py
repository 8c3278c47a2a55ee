"""What the nodes used."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import mib, share
from brokerlab.pipeline.schemas.resources import RESOURCES
from brokerlab.pipeline.transforms import Analysis, family
from brokerlab.stats.formulas import BUSY_PERCENT

_BYTES_PER_KIB = 1024


def make(analysis: Analysis) -> DataFrame:
    return resources_table(analysis.partials, runs=analysis.runs, throughput=analysis.tables["throughput"])


def is_broker() -> Column:
    return F.col("node").startswith("broker/")


def resources_table(partials: DataFrame, *, runs: DataFrame, throughput: DataFrame) -> DataFrame:
    """One row per run, node and phase; `throughput` says what the work was spent on.

    The projected rate (S-11) is what the broker would deliver with all of its CPU: a single-threaded one with one
    core, so by its own use; one that scales with all of the machine, whose use includes everybody's. One node of
    several has none: what it had to do with a delivery is not known.
    """
    about = ("run_id", "cell", "is_scalable", "system_cpu_percent", "connections")
    deliveries = throughput.where(F.col("window") == "delivery").select("run_id", "delivered", "delivered_per_s")
    used = (
        _by_node(partials)
        .join(runs.select(*about), on="run_id", how="inner")
        .join(deliveries, on="run_id", how="left")
        .withColumn("cpu_percent", 100 * share(F.col("cpu_s"), F.col("seconds")))
    )
    is_measure = F.col("phase") == "measure"
    is_scalable = F.coalesce("is_scalable", F.lit(False))
    limiting_percent = F.when(is_scalable, F.col("system_cpu_percent")).otherwise(F.col("cpu_percent"))
    is_alone = F.count_if(is_broker()).over(W.partitionBy("run_id", "phase")) == 1
    is_projected = is_measure & is_broker() & is_alone & (limiting_percent > 0)
    return used.withColumns(
        {
            "cpu_us_per_delivery": F.when(is_measure, share(1e6 * F.col("cpu_s"), F.col("delivered"))),
            "deliveries_per_core_s": F.when(is_measure, share(F.col("delivered"), F.col("cpu_s"))),
            "rss_kib_per_connection": F.when(is_measure & is_broker(), _kib_per_connection()),
            "projected_per_s": F.when(is_projected, share(100 * F.col("delivered_per_s"), limiting_percent)),
            "projection_is_extrapolation": F.when(is_projected, limiting_percent < BUSY_PERCENT),
        }
    ).to(RESOURCES)


def _by_node(partials: DataFrame) -> DataFrame:
    """One row per run, node and phase: the node's processes added up.

    What is largest of a node (memory, threads, open files) is the sum of each process's largest, which they may not
    have had at once.
    """
    return (
        family(partials, "usage")
        .groupBy("run_id", "node", "phase")
        .agg(
            F.max("seconds").alias("seconds"),
            (F.sum("cpu_ns") / 1e9).alias("cpu_s"),
            F.sum("rss_first_bytes").alias("rss_first_bytes"),
            F.sum("rss_mean_bytes").alias("rss_mean_bytes"),
            F.sum("rss_max_bytes").alias("rss_max_bytes"),
            _sum_if_all_known("read_bytes").alias("read_bytes"),
            _sum_if_all_known("written_bytes").alias("written_bytes"),
            _sum_if_all_known("threads_max").alias("threads_max"),
            _sum_if_all_known("open_files_max").alias("open_files_max"),
        )
        .withColumns({"rss_mean_mib": mib("rss_mean_bytes"), "rss_max_mib": mib("rss_max_bytes")})
    )


def _kib_per_connection() -> Column:
    """What the broker holds for each connection, over what it held as the first of them began."""
    of_node = W.partitionBy("run_id", "node")
    before = F.max(F.when(F.col("phase") == "connect", F.col("rss_first_bytes"))).over(of_node)
    return share((F.col("rss_mean_bytes") - before) / _BYTES_PER_KIB, F.col("connections"))


def _sum_if_all_known(column: str) -> Column:
    is_known = F.count(column) == F.count(F.lit(1))
    return F.when(is_known, F.round(F.sum(column)).cast("bigint"))
