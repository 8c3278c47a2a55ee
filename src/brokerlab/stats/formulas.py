"""The formulas of the published evaluations, corrected, and beside each the printed one where the two differ.

    000   Bertrand-Martinez et al. 2020, equations 7 to 11 (M-26)
    002   Mishra et al. 2021, equations 1 and 2 (S-11)
    003   Pazos 2024, test 1 (C-02)

Times are in any one unit, which the result keeps; a result is None where what it divides by is nothing.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, stdev

BUSY_PERCENT = 80.0  # below it a projection to the full CPU leaves what was seen
HOURS_PER_MONTH = 720


def responsiveness(latencies: Sequence[float]) -> float | None:
    """Equation 7: the mean time from intended sending to arrival, over messages that arrived."""
    return fmean(latencies) if latencies else None


def responsiveness_printed(latencies: Sequence[float], *, published: int) -> float | None:
    """Equation 7 as printed divides by all that was published: what was lost pulls the mean down."""
    return sum(latencies) / published if published else None


def throughput(messages: int, *, seconds: float) -> float | None:
    """Equations 8 and 9: received (T_pub->brk) or sent (T_brk->sub) by the broker, over the window.

    The paper does not say which window; here it is from the first PUBLISH in to the last PUBLISH out.
    """
    return messages / seconds if seconds > 0 else None


def failure_percent(*, expected: int, unique: int) -> float | None:
    """Equation 10: what share of the expected deliveries did not come; duplicates count for nothing."""
    return 100 * (expected - unique) / expected if expected else None


def failure_printed(*, received: int, sent: int, seconds: float) -> float | None:
    """Equation 10 as printed: messages a second, though the text reads it as a percentage."""
    return (received - sent) / seconds if seconds > 0 else None


def drop_percent(*, published: int, received: int) -> float | None:
    """Equation 11: what share of the publications did not reach the broker."""
    return 100 * (published - received) / published if published else None


def drop_printed(*, published: int, received: int) -> float | None:
    """Equation 11 as printed: 1 where nothing is dropped, and growing with loss."""
    return published / received if received else None


def availability_percent(*, published: int, received: int) -> float | None:
    """The share of the publications that reached the broker: what the text of 000 calls 100 %."""
    return 100 * received / published if published else None


def projected_rate(peak_per_s: float, *, cpu_percent: float) -> float | None:
    """002's equations 1 and 2: the rate with all of the CPU that limits the broker (S-11).

    Process CPU, of one core, for a broker with one thread; system CPU for one that scales.
    """
    return 100 * peak_per_s / cpu_percent if cpu_percent > 0 else None


def is_extrapolated(cpu_percent: float) -> bool:
    """Whether a projection from this CPU use says more than what was seen."""
    return cpu_percent < BUSY_PERCENT


def interarrival(received: Sequence[float]) -> tuple[float | None, float | None]:
    """003's jitter: mean and standard deviation of the times between arrivals (C-02)."""
    gaps = [later - earlier for earlier, later in pairwise(received)]
    return (fmean(gaps) if gaps else None, stdev(gaps) if len(gaps) > 1 else None)


def undelivered_per_month(failure_percent: float, *, messages_per_day: int) -> float:
    """000's projection of a failure rate to thirty days (M-28)."""
    return failure_percent / 100 * messages_per_day * 30


def hours_lost_per_month(failure_percent: float) -> float:
    """The same in hours without synchronisation (M-28)."""
    return failure_percent / 100 * HOURS_PER_MONTH
