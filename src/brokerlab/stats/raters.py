"""How far raters agree: Krippendorff's alpha for ordered levels, with an interval.

Alpha is 1 where all agree, 0 where they agree as by chance. It takes missing answers and any number of raters.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import krippendorff
import numpy as np

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Agreement:
    """Alpha over `units` that two raters or more judged; None with the reason where it has no value."""

    raters: int
    units: int
    alpha: float | None
    low: float | None
    high: float | None
    why_not: str = ""


def ordinal_agreement(
    units: Sequence[Mapping[str, float]], *, confidence_percent: float = 95.0, seed: int = 7
) -> Agreement:
    """Alpha of units, each with the level that a rater gave; the interval comes of units drawn again and again.

    A unit with one answer says nothing about agreement and is left out.
    """
    judged = [unit for unit in units if len(unit) > 1]
    raters = sorted({rater for unit in units for rater in unit})
    if len(raters) < 2 or not judged:
        return Agreement(len(raters), len(judged), None, None, None, "no broker was judged by two raters")
    levels = sorted({level for unit in judged for level in unit.values()})
    if len(levels) < 2:
        return Agreement(len(raters), len(judged), None, None, None, "all gave the same level everywhere")
    counts = np.array([[sum(value == level for value in unit.values()) for level in levels] for unit in judged])
    alpha = _alpha(counts, levels)
    low, high = _interval(counts, levels, confidence_percent=confidence_percent, seed=seed)
    return Agreement(len(raters), len(judged), alpha, low, high)


def _alpha(counts: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", levels: Sequence[float]) -> float:
    return float(krippendorff.alpha(value_counts=counts, value_domain=list(levels), level_of_measurement="ordinal"))


def _interval(
    counts: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]",
    levels: Sequence[float],
    *,
    confidence_percent: float,
    seed: int,
) -> tuple[float | None, float | None]:
    """The middle part of alpha over resampled units; a sample in which all is one level counts as full agreement."""
    if len(counts) < 3:
        return None, None
    source = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        drawn = counts[source.integers(0, len(counts), len(counts))]
        used = drawn.sum(axis=0) > 0
        found.append(
            1.0 if used.sum() < 2 else _alpha(drawn[:, used], [v for v, u in zip(levels, used, strict=True) if u])
        )
    tail = (100 - confidence_percent) / 2
    low, high = (float(each) for each in np.percentile(found, [tail, 100 - tail]))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)
