"""Which keys of a schedule belong to which arrivals."""

from brokerlab.study.values import Arrivals

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
}


def owners(key: str) -> tuple[Arrivals, ...]:
    """The arrivals that use the key."""
    return tuple(arrivals for arrivals, keys in KEYS.items() if key in keys)


# `inflight` is not among them: it limits any arrivals.
ALL_KEYS = tuple(dict.fromkeys(key for keys in KEYS.values() for key in keys if key != "inflight"))
