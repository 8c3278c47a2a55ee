"""Student's t interval over the values of runs.

The unit of an interval is the run (design, rule 7): messages of one run depend on each other,
so an interval over messages would be far too narrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

# scipy.special alone loads in a fraction of the time of scipy.stats.
from scipy.special import stdtrit


@dataclass(frozen=True, slots=True)
class Interval:
    """The mean of `n` run values; bounds and sd are None where one value cannot say them."""

    n: int
    mean: float
    low: float | None
    high: float | None
    sd: float | None


def t_factor(n: int, *, confidence_percent: float = 95.0) -> float:
    """Half the width of the interval of a mean of `n` values, in standard deviations of the values.

    The interval is mean ± t_factor · sd: Student's quantile of n - 1 degrees of freedom over √n.
    """
    if n < 2:
        raise ValueError(f"an interval needs two values or more, not {n}")
    if not 0 < confidence_percent < 100:
        raise ValueError(f"confidence must lie between 0 and 100 %, not {confidence_percent}")
    upper_tail = 0.5 + confidence_percent / 200
    return float(stdtrit(n - 1, upper_tail)) / math.sqrt(n)


def mean_interval(values: Sequence[float], *, confidence_percent: float = 95.0) -> Interval:
    """The mean of the values and its interval; no values are an error, one value has no bounds."""
    if not values:
        raise ValueError("no values, no mean")
    mean = fmean(values)
    if len(values) == 1:
        return Interval(n=1, mean=mean, low=None, high=None, sd=None)
    sd = stdev(values)
    half = sd * t_factor(len(values), confidence_percent=confidence_percent)
    return Interval(n=len(values), mean=mean, low=mean - half, high=mean + half, sd=sd)


def bootstrap_interval(values: Sequence[float], *, confidence_percent: float = 95.0, seed: int = 0) -> Interval:
    """The mean of the values and its interval by resampling (BCa): for run values that are far from normal.

    Bounds are None below two values, and where all are equal. With fewer than some ten runs it is too narrow, and
    Student's interval is the better one.
    """
    # Only this function needs scipy.stats, which takes a second to load.
    from scipy.stats import bootstrap  # noqa: PLC0415

    plain = mean_interval(values, confidence_percent=confidence_percent)
    if plain.sd is None or plain.sd == 0:
        return Interval(plain.n, plain.mean, None, None, plain.sd)
    found = bootstrap(
        (list(values),), np.mean, confidence_level=confidence_percent / 100, rng=np.random.default_rng(seed)
    )
    low, high = (float(bound) for bound in found.confidence_interval)
    return Interval(plain.n, plain.mean, low, high, plain.sd)
