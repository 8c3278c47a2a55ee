"""How long the bridge lets the kernel gather messages before it looks at its sockets again.

Waking up costs some 50 µs of CPU, more than all that is done then for a hundred messages. From some thousand messages
a second on the bridge therefore sleeps until about a hundred have come, and takes them in one go; below that it passes
each message at once. It does not while messages wait for acknowledgements: a source that has a limit of messages in
flight would wait for them as long.
"""

from collections.abc import Sequence

from brokerlab.bridge.crossing import Crossing

_LOOK_NS = 20_000_000  # how often the rate is looked at
_FROM_PER_S = 5_000
_AT_ONCE = 100  # messages
_LONGEST_S = 0.002


class Gathering:
    """Is asked before each wait."""

    def __init__(self, crossings: Sequence[Crossing]) -> None:
        self._crossings = crossings
        self._looked_ns = self._received = 0
        self._pause_s = 0.0

    def pause_s(self, now: int) -> float:
        if now - self._looked_ns > _LOOK_NS:
            received = sum(each.counters.received for each in self._crossings)
            per_s = (received - self._received) * 1e9 / (now - self._looked_ns)
            self._looked_ns, self._received = now, received
            self._pause_s = min(_LONGEST_S, _AT_ONCE / per_s) if per_s >= _FROM_PER_S else 0.0
        if not self._pause_s or any(each.is_awaited for each in self._crossings):
            return 0.0
        return self._pause_s
