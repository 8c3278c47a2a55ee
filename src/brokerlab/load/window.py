"""Saturation: a window of outstanding messages is kept full, so that the broker always has work and never a flood.

Outstanding is what was published less what was delivered, over all workers of the run; at QoS 2 delivered is what the
broker has released. (Mosquitto reads its clients in turn, a packet each: the answers of one subscriber fall behind what
ten publishers send, and a window of messages alone let 50,000 of them queue.) A message that later ones of its
publisher have overtaken at a subscriber does not count: it is lost, or as good as lost to the window.
Filling sockets until they block is slower on real brokers and measures the depth of its own queue:
docs/design/0004 has the figures.
"""

from collections.abc import Iterator, MutableSequence
from typing import Any

from brokerlab.load import handshakes
from brokerlab.load.gather import PORTION
from brokerlab.load.spec import Progress, WorkerSpec
from brokerlab.load.widening import FIRST, FIRST_EXACTLY_ONCE, MOST, Widening
from brokerlab.load.wire import PACKET_IDS
from brokerlab.study.values import Qos

# A lost message that no later one overtakes would keep its place in the window for ever. After this long without
# a single delivery the window stops waiting for what is outstanding, and says how much that was.
PATIENCE_NS = 1_000_000_000


class Window:
    """How many more messages may be published now."""

    def __init__(
        self, size: int | Widening, *, fan_out: float, counts: MutableSequence[int], progress: Progress
    ) -> None:
        self.widening = size if isinstance(size, Widening) else None
        self.size = size.size if isinstance(size, Widening) else size
        self._fan_out = fan_out
        self._counts, self._progress = counts, progress
        self._last_passed = -1
        self._last_change_ns = 0
        self.written_off = 0
        counts[progress.window] = self.size

    def room(self, now: int) -> int:
        """Messages that may be published now by all workers together."""
        delivered = sum(self._counts[place] for place in self._progress.delivered)
        overtaken = sum(self._counts[place] for place in self._progress.overtaken)
        if self.widening:
            self.size = self.widening.look(now, delivered, overtaken)
            self._counts[self._progress.window] = self.size
        passed = delivered + overtaken
        outstanding = self._outstanding(passed)
        is_closed = self.size - outstanding < self.size * PORTION
        if passed != self._last_passed:
            self._last_passed, self._last_change_ns = passed, now
        elif is_closed and now - self._last_change_ns > PATIENCE_NS:
            self.written_off += outstanding
            self._last_change_ns = now
            return self.size
        return 0 if is_closed else self.size - outstanding

    def stay(self) -> None:
        """The size is looked for no more."""
        if self.widening:
            self.widening.stop()

    def shares(self, among: int, now: int) -> Iterator[int]:
        """The messages that may be published now, in so many equal shares."""
        share, rest = divmod(self.room(now), among) if among else (0, 0)
        return (share + (place < rest) for place in range(among))

    def _outstanding(self, passed: int) -> int:
        published = sum(self._counts[place] for place in self._progress.published)
        return published - int(passed / self._fan_out) - self.written_off


def window_of(spec: WorkerSpec, counts: MutableSequence[int], progress: Progress) -> Window:
    """The window that the workload asks for, or one that finds its size."""
    asked = spec.workload.schedule.window
    first = FIRST_EXACTLY_ONCE if spec.workload.qos == Qos.EXACTLY_ONCE else FIRST
    found = Widening(first, most=MOST, fan_out=spec.fan_out)
    return Window(found if isinstance(asked, str) else asked, fan_out=spec.fan_out, counts=counts, progress=progress)


def limit_of(window: Window | None, spec: WorkerSpec, *, timeout_s: float) -> int:
    """How many messages each publisher may have in flight; asks the broker where a window for QoS 2 is looked for."""
    if window is None or window.widening is None or spec.workload.qos != Qos.EXACTLY_ONCE:
        return PACKET_IDS
    told = handshakes.told(spec, timeout_s=timeout_s) or 0
    window.widening.allow(min(MOST, max(told, handshakes.USUAL) * spec.workload.publishers))
    return told if told > handshakes.USUAL else PACKET_IDS


def window_facts(window: Window | None) -> dict[str, Any]:
    """Fields of Stopped: the size at the end, and how it was found; nothing of a load that keeps a schedule."""
    if window is None:
        return {}
    found: dict[str, Any] = {"written_off": window.written_off, "window": window.size}
    if (widening := window.widening) is not None:
        found |= {
            "window_steps": tuple(widening.steps),
            "window_settled_ns": widening.settled_ns,
            "is_window_cut_short": widening.is_cut_short,
            "is_widest_window_narrow": widening.is_widest_narrow,
        }
    return found
