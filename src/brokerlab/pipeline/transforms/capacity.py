"""The trials of searches: load against latency, and what decided each."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import accumulated, quantile_ms, share, total
from brokerlab.pipeline.schemas.capacity import CAPACITY
from brokerlab.pipeline.transforms import Analysis, family

_KEY = ("run_id", "phase")
_NS_PER_S = 1e9


def make(analysis: Analysis) -> DataFrame | None:
    return capacity_table(analysis.partials, runs=analysis.runs) if "trials" in analysis.filled else None


def capacity_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run and trial of a search; its measure phase, at the rate that was found, is the last of them.

    Counts and latencies are of messages that were intended in the trial. Rates are taken from its start to its end,
    or to the last sending or arrival where that came later, so that no rate is above what was carried.
    """
    trials = runs.select("run_id", "cell", "qos", "publishers", F.inline("trials"))
    sent, arrived = family(partials, "trial_sent"), family(partials, "trial_arrived")
    counts = ("published", "expected", "acknowledged_expected", "delivered", "acknowledged_delivered")
    rows = (
        trials.join(sent, on=list(_KEY), how="left")
        .join(_arrived(arrived), on=list(_KEY), how="left")
        .join(_quantiles(arrived), on=list(_KEY), how="left")
        .na.fill(0, subset=list(counts))
    )
    return rows.withColumns(
        {
            "asked_per_s": F.col("rate_per_s") * F.col("publishers"),
            "seconds": (F.col("end_ns") - F.col("start_ns")) / _NS_PER_S,
            "published_per_s": share(F.col("published"), _seconds_until("last_sent_ns")),
            "delivered_per_s": share(F.col("delivered"), _seconds_until("last_received_ns")),
            "lost": F.col("expected") - F.col("delivered"),
            "acknowledged_lost": F.when(
                F.col("qos") > 0, F.col("acknowledged_expected") - F.col("acknowledged_delivered")
            ),
            "backlog_growth_percent": share(
                100 * (F.col("under_way_last") - F.col("under_way_second")), F.col("expected") / 2
            ),
        }
    ).to(CAPACITY)


def _seconds_until(last_ns: str) -> Column:
    end_ns = F.greatest("end_ns", F.coalesce(last_ns, F.col("end_ns")))
    return (end_ns - F.col("start_ns")) / _NS_PER_S


def _arrived(arrived: DataFrame) -> DataFrame:
    """One row per run and trial of which something arrived: the workers added up."""
    return arrived.groupBy(*_KEY).agg(
        total("delivered").alias("delivered"),
        total("acknowledged_delivered").alias("acknowledged_delivered"),
        F.max("last_received_ns").alias("last_received_ns"),
        F.sum("under_way_second").alias("under_way_second"),
        F.sum("under_way_last").alias("under_way_last"),
    )


def _quantiles(arrived: DataFrame) -> DataFrame:
    """One row per run and trial."""
    return (
        accumulated(arrived, _KEY)
        .groupBy(*_KEY)
        .agg(quantile_ms(5000).alias("latency_p50_ms"), quantile_ms(9900).alias("latency_p99_ms"))
    )
