"""What a document holds for a rule that looks at several places of it."""

from collections.abc import Callable, Iterator
from typing import Any

from brokerlab.study.document import Document, KeyPath
from brokerlab.study.factors import FACTORS
from brokerlab.study.problems import RuleError
from brokerlab.study.readers import read_arrivals
from brokerlab.study.values import Arrivals

WORKLOAD: KeyPath = ("scenario", "workload")
VARIABLES: KeyPath = ("scenario", "variables")


def values_of(document: Document, factor: str) -> list[tuple[KeyPath, Any]]:
    """The levels of the factor where it is varied, else its one value where the file has it."""
    levels = list(items_of(document, (*VARIABLES, factor)))
    home = (*WORKLOAD, *FACTORS[factor].home)
    if levels or home not in document.places:
        return levels
    return [(home, document.get(*home))]


def items_of(document: Document, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    value = document.get(*path)
    for number, item in enumerate(value if isinstance(value, list) else ()):
        yield (*path, number), item


def read_or_none(read: Callable[[object], Any], written: object) -> Any:
    """What the reader makes of it; None where it refuses, which the model reports."""
    try:
        return read(written)
    except RuleError:
        return None


def arrivals_of(document: Document) -> Arrivals | None:
    """The arrivals of the study; None where they are not known, which the model reports."""
    written = document.get(*WORKLOAD, "schedule", "arrivals")
    return Arrivals.CONSTANT if written is None else read_or_none(read_arrivals, written)
