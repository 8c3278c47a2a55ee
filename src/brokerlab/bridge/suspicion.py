"""Circles that several bridges make together, over brokers of MQTT 3.1.1: seen by messages that come again and again.

Nothing in such a message says where it was, and a sensor may say the same thing often; so this is told, and no
message is held up for it. Once a second a message is taken as a sample, and how often it comes is counted.
"""

import numpy as np

from brokerlab.bridge.walks import Longs

OFTEN = 100  # times within a second
_SECONDS = 2  # in a row


class Suspicion:
    """Of one route."""

    def __init__(self) -> None:
        self._second = self._sample = self._count = self._streak = 0

    def look(self, digests: Longs, now_s: int) -> bool:
        """Takes the messages that pass; whether it has become suspicious with them."""
        if now_s == self._second:
            self._count += int(np.count_nonzero(digests == self._sample))
            return False
        self._streak = self._streak + 1 if self._count >= OFTEN else 0
        self._second, self._sample = now_s, int(digests[0])
        self._count = int(np.count_nonzero(digests == self._sample))
        return self._streak == _SECONDS
