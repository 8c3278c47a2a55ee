"""The wills of a workload as a frozen value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wills:
    """Every publisher has a will; after the load some are closed without a word, and the others disconnect."""

    qos: int = 1
    retain: bool = False
    delay_s: int = 0  # MQTT 5.0, 3.1.3.2.2
    share_percent: float = 50.0  # of the publishers: those that are closed
