"""Two studies, or two levels of one, beside each other, and rules that the difference must keep. Needs no Spark.

tables `cells` of two studies ──┐
├──► Change: second less first, by cell and metric ──► Gate: kept, broken, unknown
table `comparisons` of one ─────┘
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from brokerlab.errors import UserError
from brokerlab.pipeline.metrics import LARGER_IS_BETTER, UNITS
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.stats.comparison import Difference, Sample, answer_of, holm, welch
from brokerlab.study.nearest import listed, nearest

_RULE = re.compile(r"\s*([\w.]+)\s*(<=|>=)\s*([+-]?\d+(?:\.\d+)?)\s*(\S*)\s*")
_OPPOSITE = {"better": "worse", "worse": "better"}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """What the second has more than the first, in one place, by one metric."""

    place: str  # a cell, or the levels of the other factors
    metric: str
    unit: str
    first: float
    second: float
    difference: float
    low: float | None  # this and the next two: None below two valid runs
    high: float | None
    corrected_p: float | None
    answer: str  # of the second beside the first
    is_tie: bool | None  # within the noise floor of an A/A pair; None without one
    resolution: float | None = None  # of a time: the coarser one's; None where it is not known, and of all else

    @property
    def is_within_resolution(self) -> bool:
        """Whether times of arrival are too coarse to show the difference."""
        return bool(self.resolution) and abs(self.difference) <= (self.resolution or 0.0)

    @property
    def percent(self) -> float | None:
        return self.of_first(self.difference)

    def of_first(self, amount: float | None) -> float | None:
        """In per cent of the first one's mean, which is taken as exact."""
        return None if amount is None or not self.first else 100 * amount / abs(self.first)


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit of a difference: `latency.p99 <= 5 %`."""

    text: str
    metric: str
    is_upper: bool
    limit: float
    is_percent: bool

    def verdict_on(self, change: Change) -> str:
        """Kept where the whole interval keeps the limit, broken where none of it does; else the runs do not tell."""
        bounds = (change.low, change.high)
        low, high = map(change.of_first, bounds) if self.is_percent else bounds
        if low is None or high is None:
            return "unknown"
        if not self.is_upper:
            low, high = -high, -low
        limit = self.limit if self.is_upper else -self.limit
        return "kept" if high <= limit else "broken" if low > limit else "unknown"

    def verdict(self, changes: Iterable[Change]) -> str:
        """The worst of all places; unknown where there is none."""
        found = {self.verdict_on(change) for change in changes if change.metric == self.metric}
        return next((each for each in ("broken", "unknown") if each in found), "kept" if found else "unknown")


def read_gate(text: str) -> Gate:
    """A rule as it is typed; refused with what is wrong about it."""
    parts = _RULE.fullmatch(text)
    if parts is None:
        raise UserError(
            f"--gate {text!r} is not a rule", hint="write METRIC <= NUMBER or METRIC >= NUMBER, as 'latency.p99 <= 5 %'"
        )
    metric, sign, limit, unit = parts.groups()
    known_metric(metric)
    if unit not in ("", "%", UNITS[metric]):
        raise UserError(
            f"--gate {text!r}: {metric} is in {UNITS[metric]}",
            hint="write that unit, none, or % of the first one's mean",
        )
    return Gate(text.strip(), metric, sign == "<=", float(limit), unit == "%" and UNITS[metric] != "%")


def known_metric(name: str) -> str:
    if name not in UNITS:
        raise _unknown("metric", name, list(UNITS))
    return name


def changes_of_studies(first: StudyDirectory, second: StudyDirectory) -> tuple[list[Change], list[str]]:
    """Cell by cell of the same name, and the cells that only one of them has; two studies of one cell are compared."""
    one, other = (_cells(study) for study in (first, second))
    shared = [cell for cell in one if cell in other]
    if not shared and len(one) == len(other) == 1:
        (own,), (its,) = one, other
        one, other, shared = {f"{own} → {its}": one[own]}, {f"{own} → {its}": other[its]}, [f"{own} → {its}"]
    if not shared:
        raise UserError(
            f"{first.path} and {second.path} share no cell",
            hint=f"the first has {listed(tuple(one)[:5])}; the second has {listed(tuple(other)[:5])}",
        )
    changes = [change for metric in UNITS for change in _changes(metric, [(c, one[c], other[c]) for c in shared])]
    return changes, [cell for cell in (*one, *other) if cell not in shared]


def _cells(study: StudyDirectory) -> dict[str, dict[str, Row]]:
    cells: dict[str, dict[str, Row]] = {}
    for row in read_table(study, "cells").to_pylist():
        cells.setdefault(row["cell"], {})[row["metric"]] = row
    return cells


def _changes(metric: str, cells: Sequence[tuple[str, dict[str, Row], dict[str, Row]]]) -> list[Change]:
    """The cells of one metric are one family of tests."""
    known = [(cell, one[metric], other[metric]) for cell, one, other in cells if metric in one and metric in other]
    known = [(cell, one, other) for cell, one, other in known if one["n"] and other["n"]]
    percents = [float(one["confidence_percent"]) for _, one, _ in known]
    found = [
        welch(_sample(other), _sample(one), confidence_percent=percent)
        for (_, one, other), percent in zip(known, percents, strict=True)
    ]
    return [
        Change(
            place=cell,
            metric=metric,
            unit=one["unit"],
            first=one["mean"],
            second=other["mean"],
            difference=difference.value,
            low=difference.low,
            high=difference.high,
            corrected_p=p,
            answer=_answer(metric, difference, p, percent, resolution=_resolution(one, other)),
            is_tie=None,
            resolution=_resolution(one, other),
        )
        for (cell, one, other), difference, p, percent in zip(
            known, found, holm([difference.p for difference in found]), percents, strict=True
        )
    ]


def _sample(row: Row) -> Sample:
    return Sample(row["n"], row["mean"], row["sd"])


def _resolution(one: Row, other: Row) -> float | None:
    """Tables of before pipeline version 9 have none."""
    known = [float(row["resolution"]) for row in (one, other) if row.get("resolution") is not None]
    return max(known) if len(known) == 2 else None


def _answer(
    metric: str, difference: Difference, p: float | None, confidence_percent: float, *, resolution: float | None
) -> str:
    return answer_of(
        difference,
        larger_is_better=metric in LARGER_IS_BETTER,
        confidence_percent=confidence_percent,
        corrected_p=p,
        resolution=resolution,
    )


def changes_of_levels(study: StudyDirectory, first: str, second: str) -> list[Change]:
    """Two levels of one study, written FACTOR=LEVEL, wherever nothing else differs; `all` is over all such places."""
    (factor, one), (other_factor, other) = _level(first), _level(second)
    if factor != other_factor:
        raise UserError(f"{first} and {second} are levels of two factors", hint="compare two levels of one factor")
    rows = read_table(study, "comparisons").to_pylist(maps_as_pydicts="strict")
    factors = list(dict.fromkeys(row["factor"] for row in rows))
    if factor not in factors:
        raise _unknown("factor with two levels beside each other", factor, factors)
    own = [row for row in rows if row["factor"] == factor]
    levels = list(dict.fromkeys(row[name] for row in own for name in ("level_a", "level_b")))
    for level in (one, other):
        if level not in levels:
            raise _unknown(f"level of {factor}", level, levels)
    both = [row for row in own if {row["level_a"], row["level_b"]} == {one, other}]
    return [_change(row, is_turned=row["level_a"] == one) for row in both]


def _level(text: str) -> tuple[str, str]:
    factor, is_level, level = text.partition("=")
    if not is_level:
        raise UserError(f"{text!r} is not a level", hint="write FACTOR=LEVEL, as broker=mosquitto")
    return factor, level


def _change(row: Row, *, is_turned: bool) -> Change:
    """The table has a less b; where a is the first, that is turned round."""
    sign = -1 if is_turned else 1
    ends = ("mean_a", "mean_b") if is_turned else ("mean_b", "mean_a")
    bounds = [None if row[name] is None else sign * row[name] for name in ("low", "high")]
    low, high = reversed(bounds) if is_turned else bounds
    answer = str(row["answer"])
    return Change(
        place=row["within"] or "everything else the same",
        metric=row["metric"],
        unit=row["unit"],
        first=row[ends[0]],
        second=row[ends[1]],
        difference=sign * row["difference"],
        low=low,
        high=high,
        corrected_p=row["corrected_p"],
        answer=_OPPOSITE.get(answer, answer) if is_turned else answer,
        is_tie=row["is_tie"],
        resolution=row.get("resolution"),
    )


def _unknown(what: str, name: str, known: Sequence[str]) -> UserError:
    meant = nearest(name, tuple(known))
    question = f"did you mean {meant!r}? " if meant else ""
    return UserError(f"there is no {what} {name!r}", hint=f"{question}there is {listed(tuple(known)) or 'none'}")
