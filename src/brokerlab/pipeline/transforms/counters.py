"""What the brokers counted themselves, beside the ledger (F-26)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerlab.pipeline.columns import total
from brokerlab.pipeline.schemas.counters import COUNTERS
from brokerlab.pipeline.transforms import Analysis, family

_NODE = "broker/0"  # of a counter that its broker never told


def make(analysis: Analysis) -> DataFrame:
    return counters_table(analysis.partials, runs=analysis.runs)


def counters_table(partials: DataFrame, *, runs: DataFrame) -> DataFrame:
    """One row per run, node and counter: what the broker said beside our count of the same thing."""
    claims = runs.select("run_id", F.inline("counters"))
    about = runs.select("run_id", "cell", "payload_bytes", "other_publications", "other_bytes", "proof_publications")
    return (
        family(partials, "counter")
        .join(claims, on=["run_id", "name"], how="full")
        .join(about, on="run_id", how="inner")
        .join(_ledger(partials), on="run_id", how="left")
        .withColumns({"node": F.coalesce("node", F.lit(_NODE)), "broker_value": F.col("value"), "why": _why_not()})
        .withColumn("our_value", F.when(F.col("why").isNull(), _ours().cast("double")))
        .withColumn("difference", F.col("broker_value") - F.col("our_value"))
        .withColumn("verdict", _verdict())
        .to(COUNTERS)
    )


def _ledger(partials: DataFrame) -> DataFrame:
    """One row per run: what was published and what came, all clients together."""
    return partials.groupBy("run_id").agg(
        total("publisher.published").alias("published"),
        total("publisher.published_bytes").alias("published_bytes"),
        total("expected.pairs").alias("expected_pairs"),
        total("flow.delivered").alias("delivered"),
        (total("flow.arrivals") + total("flow.stale") + total("unexpected.arrivals")).alias("arrivals"),
    )


def _why_not() -> Column:
    """Null where the two can be compared."""
    is_of_unequal_bytes = (F.col("count") == "sent_bytes") & F.col("payload_bytes").isNull()
    return (
        F.when(F.col("value").isNull(), "the broker did not tell it")
        .when(F.col("count").isNull(), "its driver does not say what it counts")
        .when(F.col("why_not").isNotNull(), F.col("why_not"))
        .when(is_of_unequal_bytes, "the messages differ in length, and the ledger has no bytes of what came")
    )


def _ours() -> Column:
    """The count of the ledger that the broker's must equal; null where we have none."""
    proof = F.coalesce("proof_publications", F.lit(0))
    left_out = F.when(F.col("has_proof"), F.lit(0)).otherwise(proof)
    read = F.when(F.col("has_sys"), F.col("told_before")).otherwise(F.lit(0))
    counts = {
        "received": F.col("published") + F.coalesce("other_publications", F.lit(0)) - left_out,
        "received_bytes": F.col("published_bytes") + F.coalesce("other_bytes", F.lit(0)),
        "sent": F.col("arrivals") + proof - left_out + read,
        "sent_bytes": F.col("arrivals") * F.col("payload_bytes"),
        "dropped": F.col("expected_pairs") - F.col("delivered"),
    }
    return F.coalesce(*(F.when(F.col("count") == name, ours) for name, ours in counts.items()))


def _verdict() -> Column:
    is_equal = F.col("difference") == 0
    return F.when(is_equal, "equal").when(F.col("difference").isNotNull(), "differs").otherwise("not comparable")
