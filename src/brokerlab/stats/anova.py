"""Analysis of variance: how much of what runs differ in is due to each factor, and to each pair of factors.

    value  =  mean  +  factors  +  pairs of factors (interactions)  +  residual

Sums of squares are of type II: a term's is what the model gains by it over all terms that do not contain it. In a
balanced design that is the textbook's decomposition, and the shares add up to 100 %; in one with missing or unequal
cells the shares of the terms overlap or leave gaps, and each is still the term's own.
Interactions of three factors and more are left in the residual.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

Reals = NDArray[np.float64]

RESIDUAL = "residual"
_ROUNDING = 1e-24  # squares of this share of a value are a float's own error


@dataclass(frozen=True, slots=True)
class Term:
    """One source of variance."""

    name: str  # a factor, two joined by " × ", or the residual
    degrees: int
    sum_of_squares: float
    share_percent: float | None  # of the total sum of squares; None without degrees, or where all values are equal
    f: float | None = None  # this and p: None of the residual, and where nothing is left to hold the term against
    p: float | None = None


def anova(values: Sequence[float], factors: Mapping[str, Sequence[str]]) -> list[Term]:
    """The terms in order: factors, pairs, residual; factors with a single level are left out.

    `factors` has the level of every value by the factor's name. No value, or no factor that varies: no terms.
    """
    seen = np.asarray(values, dtype=np.float64)
    varying = {name: levels for name, levels in factors.items() if len(set(levels)) > 1}
    if not varying:
        return []
    terms: list[tuple[str, ...]] = [(name,) for name in varying]
    terms += list(itertools.combinations(varying, 2))
    columns = {term: _indicators(term, varying) for term in terms}
    whole = _Fit(seen, [columns[term] for term in terms])
    total = float(((seen - seen.mean()) ** 2).sum())
    if total <= _ROUNDING * float(seen @ seen):
        total = 0.0
    found = [_term(term, terms, columns, seen, whole, total) for term in terms]
    return [*found, Term(RESIDUAL, whole.degrees, whole.residual, _share(whole.residual, total))]


class _Fit:
    """Least squares of the values on an intercept and indicator columns, which may depend on each other."""

    def __init__(self, values: Reals, blocks: Sequence[Reals]) -> None:
        matrix = np.column_stack([np.ones(len(values)), *blocks])
        basis, sizes, _ = np.linalg.svd(matrix, full_matrices=False)
        rank = int((sizes > sizes[0] * max(matrix.shape) * np.finfo(np.float64).eps).sum())
        basis = basis[:, :rank]
        rest = values - basis @ (basis.T @ values)
        self.residual = float(rest @ rest)
        self.rank = rank
        self.degrees = len(values) - rank


def _indicators(term: tuple[str, ...], factors: Mapping[str, Sequence[str]]) -> Reals:
    """One column for each combination of the term's levels."""
    combined = list(zip(*(factors[name] for name in term), strict=True))
    places = {level: place for place, level in enumerate(dict.fromkeys(combined))}
    matrix: Reals = np.zeros((len(combined), len(places)))
    matrix[np.arange(len(combined)), [places[level] for level in combined]] = 1
    return matrix


def _term(
    term: tuple[str, ...],
    terms: Sequence[tuple[str, ...]],
    columns: Mapping[tuple[str, ...], Reals],
    values: Reals,
    whole: _Fit,
    total: float,
) -> Term:
    others = [columns[other] for other in terms if not set(term) <= set(other)]
    without, with_it = _Fit(values, others), _Fit(values, [*others, columns[term]])
    degrees = with_it.rank - without.rank
    gained = max(without.residual - with_it.residual, 0.0) if degrees else 0.0
    name, share = " × ".join(term), _share(gained, total) if degrees else None
    if degrees == 0 or whole.degrees == 0 or whole.residual <= _ROUNDING * total or total == 0:
        return Term(name, degrees, gained, share)
    f = (gained / degrees) / (whole.residual / whole.degrees)
    return Term(name, degrees, gained, share, f, float(fdtrc(degrees, whole.degrees, f)))


def _share(part: float, total: float) -> float | None:
    return 100 * part / total if total > 0 else None
