"""Faults and what followed from them."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import ms
from brokerlab.pipeline.schemas.faults import FAULTS
from brokerlab.pipeline.transforms import Analysis, family

_BINS_AGAIN = 5  # half a second
_BINS_BEFORE = 10  # a second
_STEADY_SHARE, _LEAST_SHARE = 0.9, 0.5  # of the usual rate: on average, and of each bin
_FEWEST = 2.0  # arrivals in a bin, below which a rate cannot be told
_BIN_NS = 100_000_000


def make(analysis: Analysis) -> DataFrame | None:
    return faults_table(analysis.partials, runs=analysis.runs) if "faults" in analysis.filled else None


def faults_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run and fault, and one for the time before the first; none for runs without faults."""
    about = _about(runs)
    lost = F.col("expected") + F.col("crossing_expected") - F.col("delivered") - F.col("crossing_delivered")
    return (
        about.join(_expected(partials), on=["run_id", "fault"], how="left")
        .join(_arrived(partials), on=["run_id", "fault"], how="left")
        .join(family(partials, "fault_noticed"), on=["run_id", "fault"], how="left")
        .join(_steady(partials, about), on=["run_id", "fault"], how="left")
        .na.fill(0, list(_SUMS))
        .select(
            "run_id",
            "cell",
            "fault",
            "kind",
            "target",
            ((F.col("at_ns") - F.col("measure_start_ns")) / 1e9).alias("at_s"),
            ((F.col("end_ns") - F.col("at_ns")) / 1e9).alias("lasted_s"),
            _since("noticed_ns").alias("noticed_ms"),
            F.when(F.col("fault") > 0, F.coalesce("noticed", F.lit(0))).cast("long").alias("connections_lost"),
            _since("first_ns").alias("to_first_ms"),
            _since("last_ns").alias("to_all_ms"),
            _since("steady_ns").alias("to_steady_ms"),
            F.col("relaid_ms"),
            (F.col("expected") + F.col("crossing_expected")).alias("expected"),
            (F.col("delivered") + F.col("crossing_delivered")).alias("delivered"),
            lost.alias("lost"),
            (F.col("expected") - F.col("delivered")).alias("lost_local"),
            (F.col("crossing_expected") - F.col("crossing_delivered")).alias("lost_crossing"),
            F.greatest(F.lit(0), F.col("acknowledged_expected") - F.col("acknowledged_delivered"))
            .cast("long")
            .alias("acknowledged_lost"),
            *_split("duplicated"),
            *_split("reordered"),
        )
        .to(FAULTS)
    )


def _about(runs: DataFrame) -> DataFrame:
    """The faults of each run that had some, and a row of number 0."""
    planned = runs.where(F.size("faults") > 0).select("run_id", "cell", "measure_start_ns", F.inline("faults"))
    before = planned.select("run_id", "cell", "measure_start_ns").distinct()
    return before.withColumn("fault", F.lit(0)).unionByName(planned, allowMissingColumns=True)


def _split(name: str) -> tuple[Column, ...]:
    """A count, and what of it stayed at one node and what crossed."""
    local, crossing = F.col(f"{name}_local"), F.col(f"{name}_crossing")
    return (local + crossing).alias(name), local, crossing


def _since(at: str) -> Column:
    """Milliseconds since the fault; null for the time before the first."""
    return F.when(F.col("fault") > 0, ms(F.col(at) - F.col("at_ns")))


def _expected(partials: DataFrame) -> DataFrame:
    return family(partials, "fault_expected")


def _arrived(partials: DataFrame) -> DataFrame:
    """All delivery workers of a run together."""
    return (
        family(partials, "fault_arrived")
        .groupBy("run_id", "fault")
        .agg(
            *(F.sum(name).alias(name) for name in _SUMS),
            F.min("first_ns").alias("first_ns"),
            F.max("last_ns").alias("last_ns"),
        )
    )


_SUMS = (
    "delivered",
    "crossing_delivered",
    "acknowledged_delivered",
    "duplicated_local",
    "duplicated_crossing",
    "reordered_local",
    "reordered_crossing",
)


def _steady(partials: DataFrame, about: DataFrame) -> DataFrame:
    """When the rate of arrivals was back: half a second of bins against the second before the fault."""
    bins = family(partials, "fault_bin").groupBy("run_id", "bin_ns").agg(F.sum("arrivals").alias("arrivals"))
    faults = about.where(F.col("fault") > 0).select("run_id", "fault", "at_ns")
    # A bin without an arrival has no row: bins are filled up by the time that they stand for.
    spans = bins.groupBy("run_id").agg(F.min("bin_ns").alias("low"), F.max("bin_ns").alias("high"))
    every = spans.select("run_id", F.explode(F.sequence("low", "high", F.lit(_BIN_NS))).alias("bin_ns"))
    filled = every.join(bins, on=["run_id", "bin_ns"], how="left").na.fill(0, ["arrivals"])
    ahead = W.partitionBy("run_id").orderBy("bin_ns").rowsBetween(0, _BINS_AGAIN - 1)
    rates = filled.withColumns({"ahead": F.avg("arrivals").over(ahead), "least": F.min("arrivals").over(ahead)})
    near = faults.join(rates, on="run_id", how="inner")
    is_before = (F.col("bin_ns") < F.col("at_ns") - _BIN_NS) & (
        F.col("bin_ns") >= F.col("at_ns") - (_BINS_BEFORE + 1) * _BIN_NS
    )
    before = near.where(is_before).groupBy("run_id", "fault").agg(F.avg("arrivals").alias("usual"))
    # What had to wait comes in a burst: the mean alone would call that steady.
    is_full = (F.col("ahead") >= _STEADY_SHARE * F.col("usual")) & (F.col("least") >= _LEAST_SHARE * F.col("usual"))
    is_back = (F.col("bin_ns") >= F.col("at_ns")) & (F.col("usual") >= _FEWEST) & is_full
    return (
        near.join(before, on=["run_id", "fault"], how="inner")
        .where(is_back)
        .groupBy("run_id", "fault")
        .agg(F.min("bin_ns").alias("steady_ns"))
    )
