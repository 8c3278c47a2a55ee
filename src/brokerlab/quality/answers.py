"""One answer of one rater about one feature of one broker, and several of them as rows for Spark."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from brokerlab.quality.model import Model

MEASURED = "measured"  # the rater that stands for what was measured instead of judged


@dataclass(frozen=True, slots=True)
class Answer:
    """A level, or the range in which it must lie, or neither: then it is unknown."""

    sheets: str  # the set of brokers that are ranked together
    broker: str
    version: str
    rater: str
    round: int
    feature: str
    low: int | None  # of the level; None for both: unknown
    high: int | None
    facts: tuple[str, ...] | None = None  # what the rater listed, where the level was counted
    source: str = ""
    because: str = ""


def answer_rows(answers: Iterable[Answer], model: Model) -> list[dict[str, Any]]:
    """The answers as rows of the schema ANSWERS."""
    rows = []
    for answer in answers:
        feature = model.feature(answer.feature)
        rows.append(
            {
                "sheets": answer.sheets,
                "broker": answer.broker,
                "version": answer.version,
                "rater": answer.rater,
                "round": answer.round,
                "feature": answer.feature,
                "position": model.ids.index(answer.feature),
                "feature_group": feature.group,
                "roof": feature.roof,
                "low": answer.low,
                "high": answer.high,
                "facts": None if answer.facts is None else list(answer.facts),
                "source": answer.source,
                "because": answer.because,
            }
        )
    return rows
