"""Claims on Spark: printed numbers or our own tables in, the table `claims` out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from brokerlab.errors import UserError
from brokerlab.pipeline.own_values import name_of, own_values, varying
from brokerlab.pipeline.placing import place
from brokerlab.pipeline.schemas.printed import ABOUT_CLAIMS, LEVEL_CLAIMS, VALUES
from brokerlab.pipeline.sources import small_frame
from brokerlab.pipeline.transforms import claims as rules
from brokerlab.pipeline.transforms.claims_levels import change_findings, limit_findings, order_findings
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
_OURS_TOO = ("order", "change", "limit")  # the other rules are about how a paper prints its numbers


def write_claims(
    spark: SparkSession, claims: Sequence[Claim], *, ours: Sequence[StudyDirectory], to: StudyDirectory
) -> None:
    """Writes the table `claims`: against the printed numbers, or against those of studies of ours."""
    values = own_values(ours) if ours else published_values()
    with _told_as_user_error():
        place(claims_frame(spark, claims, values, ours=name_of(ours) if ours else None), to, "claims")


def claims_frame(
    spark: SparkSession, claims: Sequence[Claim], values: Sequence[Value], *, ours: str | None = None
) -> DataFrame:
    """The table `claims` of these values."""
    # A number that is there twice is one number: means and counts of brokers take it once.
    frame = small_frame(spark, [asdict(value) for value in dict.fromkeys(values)], VALUES)
    splits = () if ours is None else varying(values)

    def of(kind: str) -> DataFrame:
        return small_frame(spark, [_row(claim, ours) for claim in claims if claim.kind == kind], LEVEL_CLAIMS)

    found = [
        order_findings(frame, claims=of("order"), is_complete=ours is None, splits=splits),
        change_findings(frame, claims=of("change"), splits=splits),
        limit_findings(frame, claims=of("limit"), splits=splits),
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


def _row(claim: Claim, ours: str | None) -> dict[str, Any]:
    """A claim of the rules over levels, as a row of LEVEL_CLAIMS."""
    rule, asks = claim.rule, next((name for name in ("first", "last", "order") if name in claim.rule), None)
    of = {"order": "broker", "change": "environment", "limit": None}[claim.kind] if "of" not in rule else rule["of"]

    def levels(key: str | None) -> list[str] | None:
        written = None if key is None else claim.list_of(key)
        return _brokers(written) if of == "broker" else written

    where = {name: _brokers(each) if name == "broker" else each for name, each in claim.where().items()}
    return {
        "claim": claim.id,
        "sources": claim.list_of("source") if ours is None else None,
        "metric": rule["metric"],
        "of": of,
        "each": claim.list_of("each") or (["broker", "qos"] if claim.kind == "change" else []),
        "where": list(where.items()),
        "among": _brokers(claim.list_of("among")) or (_printed_brokers(claim) if ours and of == "broker" else None),
        "without": _brokers(claim.list_of("without")),
        "lowest": rule.get("lowest"),
        "asks": asks,
        "expected": levels(asks),
        "before": levels("from"),
        "after": levels("to"),
        "at_least": rule.get("at_least"),
        "at_most": rule.get("at_most"),
    }


def _printed_brokers(claim: Claim) -> list[str] | None:
    """Whom the paper compares: of brokers that it does not have a claim says nothing."""
    sources = claim.list_of("source") or []
    return sorted({each.broker for each in published_values() if each.source in sources and each.broker}) or None


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
