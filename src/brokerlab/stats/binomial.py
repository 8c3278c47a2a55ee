"""How many of n may happen when each happens with a given share."""

import math

# scipy.special alone loads in a fraction of the time of scipy.stats.
from scipy.special import bdtr, bdtrik


def expected_range(n: int, share: float, *, confidence: float, correlation: float = 0.0) -> tuple[float, float]:
    """The shares of n between which the observed one lies with the confidence.

    Neighbours that are correlated make n worth less: a chain with lag-1 correlation c has the variance of
    n (1 - c) / (1 + c) independent ones. (0, 1) when that is less than one.
    """
    worth = int(n * (1 - correlation) / (1 + correlation))
    if worth < 1:
        return 0.0, 1.0
    outside = (1 - confidence) / 2
    return _quantile(outside, worth, share) / worth, _quantile(1 - outside, worth, share) / worth


def _quantile(probability: float, n: int, share: float) -> int:
    """The least count that so much of the binomial distribution does not exceed."""
    if share <= 0:
        return 0
    if share >= 1:
        return n
    count: int = max(0, math.ceil(bdtrik(probability, n, share)))
    return count - 1 if count and bdtr(count - 1, n, share) >= probability else count
