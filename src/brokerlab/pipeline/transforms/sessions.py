"""Events of the clients' sessions."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import ms, share
from brokerlab.pipeline.schemas.sessions import SESSIONS
from brokerlab.pipeline.transforms import Analysis, family


def make(analysis: Analysis) -> DataFrame:
    return sessions_table(analysis.partials, runs=analysis.runs)


def sessions_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run and event; all session files of a run are read in one piece, so nothing is merged."""
    return (
        family(partials, "session")
        .join(runs.select("run_id", "cell"), on="run_id", how="inner")
        .withColumns(
            {
                "latency_p50_ms": ms("p50_ns"),
                "latency_p99_ms": ms("p99_ns"),
                "latency_max_ms": ms("max_ns"),
                "per_s": share(F.col("n"), F.col("seconds")),
            }
        )
        .to(SESSIONS)
    )
