"""How evenly each flow arrived, and what became of it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import known, ms
from brokerlab.pipeline.origin import EXPECTED
from brokerlab.pipeline.schemas.jitter import JITTER
from brokerlab.pipeline.transforms import Analysis, family

_FLOW = ("run_id", "subscriber", "publisher")


def make(analysis: Analysis) -> DataFrame:
    return jitter_table(analysis.partials, runs=analysis.runs)


def jitter_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run and flow that the subscriptions promise, also where nothing arrived."""
    about = runs.select("run_id", "cell", "verdict", "is_cut_off", "unknown")
    flows = family(partials, "expected_flow").join(about, on="run_id", how="inner")
    arrived = family(partials, "flow").select(*_FLOW, "measured_delivered")
    counted = (
        flows.join(family(partials, "rhythm"), on=list(_FLOW), how="left")
        .join(arrived, on=list(_FLOW), how="left")
        # Where nothing arrived nothing stood still; where only arrivals are known, nobody knows.
        .withColumn("blocks", F.when(F.col("n").isNull(), F.lit(0)).otherwise(F.col("blocks")))
        .withColumns({name: F.coalesce(name, F.lit(0)) for name in ("n", "measured_delivered")})
    )
    return (
        counted.withColumns(
            {
                "interarrival_mean_ms": ms("interarrival_mean_ns"),
                "interarrival_sd_ms": ms("interarrival_sd_ns"),
                "rfc3550_ms": ms("jitter_ns"),
                "resolution_mean_ms": ms("resolution_mean_ns"),
                "growth_ms_per_message": ms("growth_slope_ns"),
                "lost": known(EXPECTED, F.col("measured") - F.col("measured_delivered")),
            }
        )
        .withColumn("outcome", _outcome())
        .to(JITTER)
    )


def _outcome() -> Column:
    """The worst that happened; not known where the run was cut off, nothing was to come, or it could be worse."""
    return (
        F.when(F.col("verdict") == "collapsed", "collapse")
        .when(F.col("is_cut_off") | (F.col("measured") == 0), None)
        .when(F.col("lost") > 0, "lost data")
        .when(F.col("lost").isNull() | F.col("blocks").isNull(), None)
        .when(F.col("monotone_growth"), "growing")
        .when(F.col("blocks") > 0, "temporary block")
        .otherwise("ok")
    )
