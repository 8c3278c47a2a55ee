"""Two levels beside each other: their difference with its interval, how sure it is, and how large.

The unit is the run. What is compared are samples of run values, of which number, mean and standard deviation are
enough (Welch), or pairs of values that belong together (paired):

    difference      a - b, with Student's t interval; degrees of freedom after Welch and Satterthwaite
    p               two-sided: how likely so large a difference is between two levels that are the same
    equivalent p    two one-sided tests (Schuirmann 1987): how likely the samples are if the true difference lies
                    beyond the margin. Small: equivalent. Neither p small: not distinguishable
    effect size     Hedges' g, in pooled standard deviations, with its interval by the non-central t distribution

Only scipy.special is needed, which loads in a fraction of the time of scipy.stats; the tests hold these against it.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, nctdtr, stdtr, stdtrit

Places = NDArray[np.int64]

_STEPS = 60  # of bisection: to a float's last bit


@dataclass(frozen=True, slots=True)
class Sample:
    """Runs of one level; sd is None below two."""

    n: int
    mean: float
    sd: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two means; bounds and p are None where there are too few runs to say them."""

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    equivalent_p: float | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Hedges' g and its interval."""

    g: float
    low: float
    high: float


def sample_of(values: Sequence[float]) -> Sample:
    return Sample(len(values), fmean(values), stdev(values) if len(values) > 1 else None)


def welch(a: Sample, b: Sample, *, confidence_percent: float = 95.0, margin: float | None = None) -> Difference:
    """The difference of two independent samples; `margin` is what would still count as the same."""
    value = a.mean - b.mean
    if a.sd is None or b.sd is None:
        return Difference(value)
    own = a.sd**2 / a.n, b.sd**2 / b.n
    error = math.sqrt(sum(own))
    if error == 0:
        return _without_spread(value, margin)
    degrees = sum(own) ** 2 / (own[0] ** 2 / (a.n - 1) + own[1] ** 2 / (b.n - 1))
    return _student(value, error, degrees, confidence_percent, margin)


def paired(
    a: Sequence[float], b: Sequence[float], *, confidence_percent: float = 95.0, margin: float | None = None
) -> Difference:
    """The mean difference of values that belong together, as of two brokers under the same conditions."""
    differences = sample_of([one - other for one, other in zip(a, b, strict=True)])
    if differences.sd is None:
        return Difference(differences.mean)
    error = differences.sd / math.sqrt(differences.n)
    if error == 0:
        return _without_spread(differences.mean, margin)
    return _student(differences.mean, error, differences.n - 1, confidence_percent, margin)


def _student(value: float, error: float, degrees: float, confidence_percent: float, margin: float | None) -> Difference:
    half = float(stdtrit(degrees, 0.5 + confidence_percent / 200)) * error
    p = 2 * float(stdtr(degrees, -abs(value) / error))
    equivalent = None if margin is None else float(stdtr(degrees, (abs(value) - margin) / error))
    return Difference(value, value - half, value + half, p, equivalent)


def _without_spread(value: float, margin: float | None) -> Difference:
    """Runs that agree to the last digit leave nothing to chance."""
    equivalent = None if margin is None else float(abs(value) >= margin)
    return Difference(value, value, value, float(value == 0), equivalent)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p values of a family of tests, corrected so that none is wrongly below alpha (Holm 1979)."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[place] = largest
    return corrected


def hedges_g(a: Sample, b: Sample, *, confidence_percent: float = 95.0) -> Effect | None:
    """The difference in pooled standard deviations, without the bias of small samples; None without a spread."""
    if a.sd is None or b.sd is None or a.sd == b.sd == 0:
        return None
    degrees = a.n + b.n - 2
    pooled = math.sqrt(((a.n - 1) * a.sd**2 + (b.n - 1) * b.sd**2) / degrees)
    unit = math.sqrt(1 / a.n + 1 / b.n)
    t = (a.mean - b.mean) / (pooled * unit)
    tail = 0.5 - confidence_percent / 200
    low, high = (_noncentrality(t, degrees, below=share) for share in (1 - tail, tail))
    unbiased = _unbiased(degrees)
    return Effect(t * unit * unbiased, low * unit * unbiased, high * unit * unbiased)


def _unbiased(degrees: int) -> float:
    """Hedges' (1981) exact factor; some 1 - 3 / (4 degrees - 1)."""
    return math.exp(gammaln(degrees / 2) - gammaln((degrees - 1) / 2)) / math.sqrt(degrees / 2)


def _noncentrality(t: float, degrees: int, *, below: float) -> float:
    """The non-centrality under which the share `below` of all t values is smaller than this one."""
    if t > 0:  # the same seen in a mirror; SciPy's distribution is sound on this side, however far out
        return -_noncentrality(-t, degrees, below=1 - below)
    reach = 10 + abs(t) * (1 + 10 / math.sqrt(degrees))
    low, high = t - reach, t + reach  # the share falls as the non-centrality grows
    for _ in range(_STEPS):
        middle = (low + high) / 2
        share = float(nctdtr(degrees, middle, t))
        low, high = (middle, high) if share > below else (low, middle)
    return (low + high) / 2


def answer_of(
    difference: Difference,
    *,
    larger_is_better: bool,
    confidence_percent: float = 95.0,
    corrected_p: float | None = None,
    corrected_equivalent_p: float | None = None,
    floor: float | None = None,
    resolution: float | None = None,
    margin: float = math.inf,
) -> str:
    """Better | worse | equivalent | not distinguishable: of the first level beside the second.

    A difference within the noise floor of two names of the same thing is none, and one within the resolution of the
    times that it is made of cannot be seen; nor can it be seen to be below a margin that is finer than that.
    """
    alpha = 1 - confidence_percent / 100
    is_within = any(limit is not None and abs(difference.value) <= limit for limit in (floor, resolution))
    if corrected_p is not None and corrected_p < alpha and not is_within:
        return "better" if (difference.value > 0) == larger_is_better else "worse"
    is_fine = resolution is None or resolution <= margin
    if is_fine and corrected_equivalent_p is not None and corrected_equivalent_p < alpha:
        return "equivalent"
    return "not distinguishable"


def noise_floor(a: Sequence[float], b: Sequence[float], *, confidence_percent: float = 95.0) -> float:
    """How far apart two levels lie that are the same thing under two names (A/A).

    The runs of both are dealt anew into two hands of the same sizes, in every way or, where these are many, in ten
    thousand drawn ones: the floor is what the confidence's share of the deals stays within, and never less than the
    difference that was seen, which may hold more than chance.
    """
    values = np.array([*a, *b], dtype=np.float64)
    seen = abs(fmean(a) - fmean(b))
    deals = _deals(len(values), len(a))
    first = values[deals].sum(axis=1)
    apart = np.abs(first / len(a) - (values.sum() - first) / len(b))
    return max(seen, float(np.quantile(apart, confidence_percent / 100, method="inverted_cdf")))


def _deals(total: int, hand: int) -> Places:
    """Rows of places that make the first hand."""
    if math.comb(total, hand) <= 10_000:
        return np.array(list(itertools.combinations(range(total), hand)))
    draw = np.random.default_rng(0)
    return np.argsort(draw.random((10_000, total)), axis=1)[:, :hand]
