"""What the valid runs of a study say of its factors, one metric at a time: pairs of levels, and shares of variance.

Observation    one run: its levels, what its broker is, and the value of the metric
context        the levels of all factors but the one that is compared
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from brokerlab.stats.anova import anova
from brokerlab.stats.comparison import (
    Difference,
    answer_of,
    hedges_g,
    holm,
    noise_floor,
    paired,
    sample_of,
    welch,
)

EQUIVALENT_PERCENT = 5.0  # of the mean of both levels: a difference that nobody would choose by
OVER_ALL = "all"

Context = tuple[tuple[str, str], ...]
Values = Mapping[Context, Mapping[str, Sequence[float]]]  # of runs, by context and level
Resolutions = Mapping[str, float | None]  # by level: the mean of its runs


@dataclass(frozen=True, slots=True)
class Observation:
    levels: Mapping[str, str]
    set_up: str | None  # of the broker
    value: float
    resolution: float | None = None  # of a time, where it is known


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two levels in one context, with what is known before the family of tests is corrected."""

    level_a: str
    level_b: str
    context: Context | None  # None: over all of them
    is_same: bool
    floor: float | None
    margin: float
    resolution: float | None
    difference: Difference
    columns: Mapping[str, Any]


def factors_of(observations: Sequence[Observation]) -> list[str]:
    """The factors with more than one level, in the order of the study."""
    levels: dict[str, set[str]] = {}
    for observation in observations:
        for name, level in observation.levels.items():
            levels.setdefault(name, set()).add(level)
    return [name for name, own in levels.items() if len(own) > 1]


def comparisons(
    observations: Sequence[Observation], *, larger_is_better: bool, confidence_percent: float
) -> Iterator[dict[str, Any]]:
    """Columns of schemas.comparisons but metric and unit: every pair of levels that share a context."""
    factors = factors_of(observations)
    for factor in factors:
        same = _same_pairs(observations) if factor == "broker" else frozenset()
        others = [name for name in factors if name != factor]
        values, resolutions = _by_context(observations, factor, others), _resolutions(observations, factor, others)
        families = [
            _within(context, levels, same, resolutions[context], confidence_percent)
            for context, levels in values.items()
        ]
        for family in [*families, _over_all(values, same, resolutions, confidence_percent)]:
            for row in _corrected(family, larger_is_better=larger_is_better, confidence_percent=confidence_percent):
                yield {"factor": factor, **row}


def effects(observations: Sequence[Observation]) -> Iterator[dict[str, Any]]:
    """Columns of schemas.effects but metric and unit."""
    factors = factors_of(observations)
    levels = {name: [each.levels.get(name, "") for each in observations] for name in factors}
    for place, term in enumerate(anova([each.value for each in observations], levels)):
        yield {
            "place": place,
            "effect": term.name,
            "n": len(observations),
            "degrees": term.degrees,
            "sum_of_squares": term.sum_of_squares,
            "share_percent": term.share_percent,
            "f": term.f,
            "p": term.p,
        }


def _same_pairs(observations: Sequence[Observation]) -> frozenset[frozenset[str]]:
    """Names of brokers that are the same thing: one driver, version, preset and options (F-21)."""
    set_ups: dict[str, set[str | None]] = {}
    for observation in observations:
        set_ups.setdefault(observation.levels.get("broker", ""), set()).add(observation.set_up)
    pairs = itertools.combinations(set_ups, 2)
    return frozenset(
        frozenset(pair) for pair in pairs if set_ups[pair[0]] == set_ups[pair[1]] and None not in set_ups[pair[0]]
    )


def _by_context(observations: Sequence[Observation], factor: str, others: Sequence[str]) -> Values:
    values: dict[Context, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in observations:
        if factor in each.levels:
            context = tuple((name, each.levels.get(name, "")) for name in others)
            values[context][each.levels[factor]].append(each.value)
    # Sums of floats depend on their order, which is not Spark's to keep.
    return {context: {level: sorted(runs) for level, runs in own.items()} for context, own in values.items()}


def _resolutions(observations: Sequence[Observation], factor: str, others: Sequence[str]) -> dict[Context, Resolutions]:
    """Of the same contexts and levels."""
    found: dict[Context, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for each in observations:
        if factor in each.levels:
            context = tuple((name, each.levels.get(name, "")) for name in others)
            found[context][each.levels[factor]].append(each.resolution)
    return {
        context: {level: _mean_if_all(resolutions) for level, resolutions in own.items()}
        for context, own in found.items()
    }


def _mean_if_all(values: Sequence[float | None]) -> float | None:
    """The mean; None where one of them is not known."""
    known = [value for value in values if value is not None]
    return fmean(sorted(known)) if known and len(known) == len(values) else None


def _coarser(one: float | None, other: float | None) -> float | None:
    """Of two resolutions; None where one of them is not known."""
    return None if one is None or other is None else max(one, other)


def _pairs(levels: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return itertools.combinations(sorted(levels, key=_natural), 2)


def _natural(level: str) -> list[tuple[int, str]]:
    """Numbers within levels count as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", level)]


def _within(
    context: Context,
    levels: Mapping[str, Sequence[float]],
    same: frozenset[frozenset[str]],
    resolutions: Resolutions,
    confidence_percent: float,
) -> list[_Pair]:
    """Welch's comparison of the runs of every two cells that differ in nothing else."""
    pairs = list(_pairs(levels))
    floors = [
        noise_floor(levels[a], levels[b], confidence_percent=confidence_percent)
        for a, b in pairs
        if frozenset((a, b)) in same
    ]
    found = []
    for a, b in pairs:
        one, other = sample_of(levels[a]), sample_of(levels[b])
        margin = _margin(one.mean, other.mean)
        difference = welch(one, other, confidence_percent=confidence_percent, margin=margin)
        effect = hedges_g(one, other, confidence_percent=confidence_percent)
        columns = {
            "method": "welch",
            "n_a": one.n,
            "n_b": other.n,
            "mean_a": one.mean,
            "mean_b": other.mean,
            "hedges_g": effect and effect.g,
            "g_low": effect and effect.low,
            "g_high": effect and effect.high,
        }
        is_same, floor = frozenset((a, b)) in same, max(floors, default=None)
        resolution = _coarser(resolutions[a], resolutions[b])
        found.append(_Pair(a, b, context, is_same, floor, margin, resolution, difference, columns))
    return found


def _over_all(
    values: Values,
    same: frozenset[frozenset[str]],
    resolutions: Mapping[Context, Resolutions],
    confidence_percent: float,
) -> list[_Pair]:
    """Two levels over all contexts that both have: the means of their cells, in pairs."""
    found = []
    for a, b in _pairs(dict.fromkeys(itertools.chain.from_iterable(values.values()))):
        contexts = [context for context, levels in sorted(values.items()) if a in levels and b in levels]
        if len(contexts) < 2:
            continue
        shared = [values[context] for context in contexts]
        one, other = ([fmean(levels[level]) for levels in shared] for level in (a, b))
        margin = _margin(fmean(one), fmean(other))
        difference = paired(one, other, confidence_percent=confidence_percent, margin=margin)
        unknown = dict.fromkeys(("hedges_g", "g_low", "g_high"))
        means = {"n_a": len(one), "n_b": len(other), "mean_a": fmean(one), "mean_b": fmean(other)}
        is_same = frozenset((a, b)) in same
        resolution = _coarser(*(_mean_if_all([resolutions[each][level] for each in contexts]) for level in (a, b)))
        columns = {"method": "paired", **means, **unknown}
        found.append(_Pair(a, b, None, is_same, None, margin, resolution, difference, columns))
    floor = max((abs(pair.difference.value) for pair in found if pair.is_same), default=None)
    return [replace(pair, floor=floor) for pair in found]


def _margin(mean_a: float, mean_b: float) -> float:
    return EQUIVALENT_PERCENT / 100 * (abs(mean_a) + abs(mean_b)) / 2


def _corrected(
    pairs: Sequence[_Pair], *, larger_is_better: bool, confidence_percent: float
) -> Iterator[dict[str, Any]]:
    """The rows of one family; a pair that is known to be the same asks no question and is not one of it."""
    is_asked = [not pair.is_same for pair in pairs]
    p, equivalent_p = (
        _holm_of([getattr(pair.difference, name) for pair in pairs], is_asked) for name in ("p", "equivalent_p")
    )
    for pair, own_p, own_equivalent_p in zip(pairs, p, equivalent_p, strict=True):
        difference = pair.difference
        mean_b = pair.columns["mean_b"]
        yield {
            "level_a": pair.level_a,
            "level_b": pair.level_b,
            "within": OVER_ALL if pair.context is None else ", ".join(map("=".join, pair.context)),
            "levels": list(pair.context or ()),
            **pair.columns,
            "difference": difference.value,
            "low": difference.low,
            "high": difference.high,
            "difference_percent": 100 * difference.value / mean_b if mean_b else None,
            "p": difference.p,
            "corrected_p": own_p,
            "margin": pair.margin,
            "equivalent_p": own_equivalent_p,
            "same": pair.is_same,
            "floor": pair.floor,
            "is_tie": None if pair.floor is None else abs(difference.value) <= pair.floor,
            "resolution": pair.resolution,
            "answer": answer_of(
                difference,
                larger_is_better=larger_is_better,
                confidence_percent=confidence_percent,
                corrected_p=own_p,
                corrected_equivalent_p=own_equivalent_p,
                floor=pair.floor,
                resolution=pair.resolution,
                margin=pair.margin,
            ),
            "confidence_percent": confidence_percent,
        }


def _holm_of(p_values: Sequence[float | None], is_asked: Sequence[bool]) -> list[float | None]:
    corrected = iter(holm([p for p, asked in zip(p_values, is_asked, strict=True) if asked]))
    return [next(corrected) if asked else p for p, asked in zip(p_values, is_asked, strict=True)]
