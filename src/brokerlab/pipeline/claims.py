"""Claims on Spark: printed numbers or our own tables in, the table `claims` out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from brokerlab.errors import UserError
from brokerlab.pipeline.beside import our_rows
from brokerlab.pipeline.placing import place
from brokerlab.pipeline.schemas.printed import ABOUT_CLAIMS, CHANGE_CLAIMS, ORDER_CLAIMS, VALUES
from brokerlab.pipeline.sources import small_frame
from brokerlab.pipeline.transforms import claims as rules
from brokerlab.published.claims import Claim
from brokerlab.published.values import Value, broker_name, published_values
from brokerlab.record.directory import StudyDirectory

_OF_ONE = {
    "formula": rules.formula_findings,
    "share": rules.share_findings,
    "member": rules.member_findings,
    "stands": rules.stands_findings,
    "survive": rules.survive_findings,
}
_OURS_TOO = ("order", "change")  # the other rules are about how a paper prints its numbers


def write_claims(
    spark: SparkSession, claims: Sequence[Claim], *, ours: StudyDirectory | None, to: StudyDirectory
) -> None:
    """Writes the table `claims`: against the printed numbers, or against those of a study of ours."""
    name = None if ours is None else ours.path.resolve().name
    values = published_values() if ours is None else our_values(ours, study=str(name))
    with _told_as_user_error():
        place(claims_frame(spark, claims, values, ours=name), to, "claims")


def claims_frame(
    spark: SparkSession, claims: Sequence[Claim], values: Sequence[Value], *, ours: str | None = None
) -> DataFrame:
    """The table `claims` of these values."""
    frame = small_frame(spark, [asdict(value) for value in values], VALUES)
    orders = small_frame(spark, [_order(claim, ours) for claim in claims if claim.kind == "order"], ORDER_CLAIMS)
    changes = small_frame(spark, [_change(claim, ours) for claim in claims if claim.kind == "change"], CHANGE_CLAIMS)
    found = [
        rules.order_findings(frame, claims=orders.withColumnRenamed("qos", "qos_wanted"), is_complete=ours is None),
        rules.change_findings(frame, claims=changes),
    ]
    for claim in claims:
        if claim.kind in _OF_ONE and ours is None:
            found.append(_OF_ONE[claim.kind](frame, claim=claim.id, rule=_named(claim.rule)))
    about = [
        {
            "claim": claim.id,
            "position": position,
            "paper": claim.paper,
            "section": claim.section,
            "text": claim.text,
            "rule": claim.in_words(),
            "held_against": ours or f"paper {claim.paper}",
        }
        for position, claim in enumerate(claims)
        if ours is None or claim.kind in _OURS_TOO
    ]
    return rules.claims_table(rules.union(found), about=small_frame(spark, about, ABOUT_CLAIMS))


def our_values(results: StudyDirectory, *, study: str) -> list[Value]:
    """Means of cells of ours, under the names that the printed ones have."""
    return [_our_value(study, row) for row in our_rows(results)]


def _our_value(study: str, row: Mapping[str, Any]) -> Value:
    levels = row["levels"]
    others = {name: level for name, level in levels.items() if name not in ("broker", "qos", "environment")}
    return Value(
        source=study,
        broker=row["broker"],
        printed_broker=row["our_broker"],
        version=row["our_version"],
        qos=row["our_qos"],
        environment=levels.get("environment"),
        kind=None,
        interval_ms=None,
        statistic=row["our_statistic"],
        variant=", ".join(f"{name} {level}" for name, level in others.items()) or None,
        feature=None,
        outcome=None,
        metric=row["metric"],
        value=row["our_value"],
        bound="",
        printed=f"{row['our_value']:g}",
        unit="",
        note="",
    )


def _order(claim: Claim, ours: str | None) -> dict[str, Any]:
    asks = next(name for name in ("first", "last", "order") if name in claim.rule)
    return {
        "claim": claim.id,
        "sources": claim.list_of("source") if ours is None else None,
        "metric": claim.rule["metric"],
        "lowest": bool(claim.rule["lowest"]),
        "each": claim.list_of("each"),
        "qos": claim.list_of("qos"),
        "intervals_ms": claim.list_of("interval_ms") if ours is None else None,
        "among": _brokers(claim.list_of("among")) or (None if ours is None else _printed_brokers(claim)),
        "without": _brokers(claim.list_of("without")),
        "asks": asks,
        "expected": _brokers(claim.list_of(asks)),
    }


def _printed_brokers(claim: Claim) -> list[str] | None:
    """Whom the paper compares: of brokers that it does not have a claim says nothing."""
    sources = claim.list_of("source") or []
    return sorted({each.broker for each in published_values() if each.source in sources and each.broker}) or None


def _change(claim: Claim, ours: str | None) -> dict[str, Any]:
    return {
        "claim": claim.id,
        "sources": claim.list_of("source") if ours is None else None,
        "metric": claim.rule["metric"],
        "lowest": bool(claim.rule["lowest"]),
        "before": claim.rule["from"],
        "after": claim.rule["to"],
    }


def _named(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {**rule, "broker": broker_name(rule["broker"])} if "broker" in rule else dict(rule)


def _brokers(names: list[str] | None) -> list[str] | None:
    return None if names is None else [broker_name(name) for name in names]


@contextmanager
def _told_as_user_error() -> Iterator[None]:
    """An expression of a claims file that Spark does not understand is the file's problem."""
    try:
        yield
    except AnalysisException as problem:
        raise UserError(f"a rule cannot be computed: {str(problem).splitlines()[0]}") from problem
