"""Which keys of a schedule belong to which arrivals."""

import math

from brokerlab.study.values import Arrivals, Schedule

KEYS: dict[Arrivals, tuple[str, ...]] = {
    Arrivals.CONSTANT: ("rate",),
    Arrivals.POISSON: ("rate",),
    Arrivals.JITTER: ("rate", "jitter"),
    Arrivals.BURST: ("rate", "burst"),
    Arrivals.RAMP: ("rate", "to"),
    Arrivals.STEP: ("rates",),
    Arrivals.CONTACT: ("rate", "store", "within"),
    Arrivals.WINDOW: ("inflight",),
    Arrivals.REPLAY: ("rate", "speed"),
    Arrivals.SATURATE: ("window",),
    Arrivals.SEARCH: ("p99", "from", "to", "precision", "trial"),
}

# What has no default that would be right for anybody, with an example.
NEEDED = {
    "jitter": "20 %",
    "burst": "50",
    "to": "500/s",
    "rates": "[100/s, 200/s]",
    "store": "24 h",
    "within": "60 s",
    "inflight": "1",
    "p99": "10 ms",
    "from": "100/s",
}


# Between two trials: the order to go, the drain and its quiet; measured.
_BETWEEN_TRIALS_S = 0.7


def search_s(schedule: Schedule) -> float:
    """About how long a search lasts that finds its rate near the upper end, when no two trials disagree."""
    doublings = math.ceil(math.log2(schedule.to_per_s / schedule.from_per_s)) + 1
    halvings = math.ceil(math.log2(max(1.0, math.log(2) / math.log1p(schedule.precision_percent / 100))))
    # The first failure is repeated, and so is every other halving, and the rate that is found.
    trials = doublings + 1 + math.ceil(1.5 * halvings) + 1
    return trials * (schedule.trial_s + _BETWEEN_TRIALS_S)


def due_by(schedule: Schedule, at_s: float, *, of_s: float) -> float:
    """How many messages of a publisher are due before `at_s` of a schedule of `of_s`, on the average."""
    if schedule.arrivals is Arrivals.RAMP:
        return schedule.rate_per_s * at_s + (schedule.to_per_s - schedule.rate_per_s) * at_s**2 / (2 * of_s)
    if schedule.arrivals is Arrivals.STEP:
        step_s = of_s / len(schedule.rates_per_s)
        return sum(
            rate_per_s * min(max(at_s - number * step_s, 0.0), step_s)
            for number, rate_per_s in enumerate(schedule.rates_per_s)
        )
    return schedule.rate_per_s * at_s


def owners(key: str) -> tuple[Arrivals, ...]:
    """The arrivals that use the key."""
    return tuple(arrivals for arrivals, keys in KEYS.items() if key in keys)


# `inflight` is not among them: it limits any arrivals.
ALL_KEYS = tuple(dict.fromkeys(key for keys in KEYS.values() for key in keys if key != "inflight"))
