"""How much raters agree in their order of things: Kendall's coefficient of concordance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Concordance:
    """W is 1 where all raters give one order, and near 0 where their orders have nothing in common."""

    w: float | None  # None where every rater puts all things on one level
    p: float | None  # of the chi-squared approximation: how likely so much agreement is between random orders


def kendall_w(ratings: Sequence[Sequence[float]]) -> Concordance:
    """One row of ratings per rater, one column per thing; equal ratings share the mean of their ranks."""
    table = np.asarray(ratings, dtype=np.float64)
    raters, things = table.shape
    if raters < 2 or things < 2:
        raise ValueError(f"agreement needs two raters and two things, not {raters} and {things}")
    sums = np.array([_ranks(row) for row in table]).sum(axis=0)
    spread = float(((sums - sums.mean()) ** 2).sum())
    ties = sum(float((counts**3 - counts).sum()) for row in table for counts in [np.unique(row, return_counts=True)[1]])
    most = (raters**2 * (things**3 - things) - raters * ties) / 12
    if most == 0:
        return Concordance(None, None)
    w = spread / most
    return Concordance(w, float(chdtrc(things - 1, raters * (things - 1) * w)))


def _ranks(row: Reals) -> Reals:
    """Ranks from 1; equal values have the mean of the ranks that they take up."""
    _, place, counts = np.unique(row, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    ranks: Reals = (last - (counts - 1) / 2)[place]
    return ranks
