"""How evenly the messages of one flow arrive: jitter, growth and blocks of a sequence in order of arrival.

jitter    RFC 3550, section 6.4.1: J += (|D| - J) / 16, where D is the change of latency from one message to the next
growth    Mann-Kendall's test and Sen's slope over at most 100 medians of consecutive stretches:

          growing  =  p < 0.01 (one-sided)  and  tau >= 0.5 (three pairs of four ascend)
                      and  slope * (n - 1) >= max(median latency, 1 ms)

block     a stretch of messages with latency above median + max(20 (median - p25), 100 ms), followed by one that is
          not: the flow stood still and went on. The spread is that of the lower half, as 10 IQR would be where both
          halves are alike, because all messages that waited for the flow to go on are in the upper one: up to half
          of a flow may have waited

SciPy has both of the growth's parts; importing it takes each Spark worker longer than all of its files,
so the few lines are here and the tests hold them against SciPy's.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Reals = NDArray[np.float64]

GROWTH_P = 0.01
GROWTH_TAU = 0.5
GROWTH_LEAST_NS = 1e6
STRETCHES = 100
BLOCK_SPREADS = 20  # of a quarter of the messages
BLOCK_LEAST_NS = 100e6

_GAIN = 1 / 16
_REMEMBERED = 1024  # (15/16)^1024 is below 1e-28: what lies further back is below a float's last bit


@dataclass(frozen=True, slots=True)
class Growth:
    """Whether latency grew along the flow; two messages are needed to say so."""

    slope_ns: float  # per message
    tau: float  # share of ascending pairs less share of descending ones
    p: float  # one-sided: how likely so many ascending pairs are without any growth
    is_monotone: bool


def rfc3550_jitter_ns(latency_ns: Longs) -> float | None:
    """The jitter after the last message; None below two messages."""
    if latency_ns.size < 2:
        return None
    change = np.abs(np.diff(latency_ns[-_REMEMBERED - 1 :])).astype(np.float64)
    weight = _GAIN * (1 - _GAIN) ** np.arange(change.size)[::-1]
    return float(change @ weight)


def growth(latency_ns: Longs) -> Growth | None:
    """The trend of latency along the flow by the rule above; None below two messages."""
    n = latency_ns.size
    if n < 2:
        return None
    at, level = _stretches(latency_ns)
    before, after = np.triu_indices(at.size, k=1)
    rise = level[after] - level[before]
    slope = float(np.median(rise / (at[after] - at[before])))
    score = int(np.sign(rise).sum())
    tau, p = score / rise.size, _ascending_p(score, level)
    is_trend = p < GROWTH_P and tau >= GROWTH_TAU and slope * (n - 1) >= GROWTH_LEAST_NS
    return Growth(slope, tau, p, is_trend and slope * (n - 1) >= float(np.median(latency_ns)))


def _stretches(latency_ns: Longs) -> tuple[Reals, Reals]:
    """The middle place and the median of at most STRETCHES stretches of about equal length."""
    n = latency_ns.size
    if n <= STRETCHES:
        return np.arange(n, dtype=np.float64), latency_ns.astype(np.float64)
    edges = np.linspace(0, n, STRETCHES + 1).astype(np.int64)
    starts, sizes = edges[:-1], np.diff(edges)
    level = np.empty(STRETCHES)
    for size in np.unique(sizes):  # two at most: all stretches of one length at once
        alike = np.flatnonzero(sizes == size)
        level[alike] = np.median(latency_ns[starts[alike, np.newaxis] + np.arange(size)], axis=1)
    return (edges[:-1] + edges[1:] - 1) / 2, level


def _ascending_p(score: int, level: Reals) -> float:
    """Normal approximation with a correction for ties and for continuity (Mann 1945, Kendall 1975)."""
    n = level.size
    _, ties = np.unique(level, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - int((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance == 0:
        return 1.0  # all values are equal
    return 0.5 * math.erfc((score - int(np.sign(score))) / math.sqrt(2 * variance))


def block_count(latency_ns: Longs) -> int:
    """How often the flow stood still and went on; a stretch that lasts to the flow's end did not go on."""
    if latency_ns.size == 0 or int(latency_ns.max()) - int(latency_ns.min()) <= BLOCK_LEAST_NS:
        return 0
    lower, median = np.percentile(latency_ns, (25, 50), method="lower")
    is_outlier = latency_ns > median + max(BLOCK_SPREADS * (median - lower), BLOCK_LEAST_NS)
    return int(np.count_nonzero(is_outlier[:-1] & ~is_outlier[1:]))
