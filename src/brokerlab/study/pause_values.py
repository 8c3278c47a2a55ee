"""The pause of a workload's subscribers as a frozen value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """Subscribers stop reading, all at once: what comes for them fills their sockets, then waits in the broker."""

    after_s: float = 0.0  # the start of the measure phase
    for_s: float = 4.0
