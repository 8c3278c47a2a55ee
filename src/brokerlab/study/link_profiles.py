"""Links by name, for studies that say «like a satellite» instead of eight figures; any figure can be set beside it.

The figures are round ones of the kind of access that the name stands for, in one direction each; where the two
differ, `there` is towards the site with the higher number, and the smaller rate is the way up.
"""

from brokerlab.study.topology import Direction, Link

_MBIT = 1e6


def _both(direction: Direction) -> Link:
    return Link(direction, direction)


PROFILES = {
    "lan": _both(Direction(delay_ms=0.25)),
    "metro": _both(Direction(delay_ms=2.5, jitter_ms=0.25, rate_bits_per_s=100 * _MBIT)),
    "wan": _both(Direction(delay_ms=25.0, jitter_ms=1.0, loss_percent=0.01, rate_bits_per_s=50 * _MBIT)),
    "4g": Link(
        Direction(delay_ms=30.0, jitter_ms=8.0, loss_percent=0.1, rate_bits_per_s=10 * _MBIT),
        Direction(delay_ms=20.0, jitter_ms=5.0, loss_percent=0.1, rate_bits_per_s=30 * _MBIT),
    ),
    "satellite": Link(
        Direction(delay_ms=300.0, jitter_ms=5.0, loss_percent=0.5, rate_bits_per_s=5 * _MBIT),
        Direction(delay_ms=300.0, jitter_ms=5.0, loss_percent=0.5, rate_bits_per_s=20 * _MBIT),
    ),
    "lossy": _both(
        Direction(
            delay_ms=10.0,
            jitter_ms=2.0,
            loss_percent=5.0,
            correlation_percent=25.0,
            duplicate_percent=0.5,
            reorder_percent=1.0,
            rate_bits_per_s=10 * _MBIT,
        )
    ),
}
