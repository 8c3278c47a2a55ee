"""How long a worker of a saturating load lets the kernel gather before it looks at its sockets again.

Waking up costs some 25 µs of CPU, more than all that is done then for a hundred messages (docs/design/0004), and
under saturation that CPU is the broker's. So a worker sleeps for a share of the time that a message takes through
the window, which keeps the broker supplied with the rest of it:

    pause = share x window / (messages a second)      from SHORTEST_S to LONGEST_S

A window so small that the pause would be shorter is served as things happen, without any gathering.
"""

from collections.abc import MutableSequence

from brokerlab.load.spec import Progress, WorkerSpec
from brokerlab.study.values import Qos

# Room in the window is given out in portions of at least this share of it: blocks of many messages cost less than many
# blocks, and the broker still has three quarters of the window to work on.
PORTION = 0.25
SHORTEST_S = 0.000_25
# While a subscriber does not read, the broker's kernel soon holds back what it is given and sends it in large pieces,
# which saves the broker a third of its CPU. A receive lag of 20 ms would be a guard's.
LONGEST_S = 0.015
_LOOK_NS = 20_000_000  # how often the rate is looked at
_READS = 64  # a judgement on how many messages a read brings
_GROWTH = 1.25
_GATHERED = 1 / 4  # of the time that a message takes through the window


class Gather:
    """Is asked before each sleep how long it may be."""

    def __init__(self, counts: MutableSequence[int], progress: Progress, *, fan_out: float, share: float) -> None:
        self._counts, self._progress = counts, progress
        self._fan_out, self._share = fan_out, share
        self._delivered, self._looked_ns = 0, 0
        self._pause_s = SHORTEST_S
        self._most_s = LONGEST_S
        self._reads = self._largest = self._like_largest = 0

    def pause_s(self, now: int) -> float:
        """How long to sleep now; 0 is to wait for the next event instead."""
        if now - self._looked_ns > _LOOK_NS:
            self._look(now)
        pause_s = min(self._pause_s, self._most_s)
        return pause_s if pause_s >= SHORTEST_S else 0.0

    @property
    def window(self) -> int:
        return self._counts[self._progress.window]

    def _look(self, now: int) -> None:
        delivered = sum(self._counts[place] for place in self._progress.delivered)
        count, seconds = delivered - self._delivered, (now - self._looked_ns) / 1e9
        self._delivered, self._looked_ns = delivered, now
        if count > 0:
            self._pause_s = min(LONGEST_S, self._share * self.window * self._fan_out * seconds / count)

    def _portion(self) -> float:
        return PORTION * self.window

    def note(self, messages: int) -> None:
        """Takes how many messages a subscriber's read brought, where they are acknowledged.

        A broker with a limit of messages in flight waits for acknowledgements once it has sent so many: then most
        reads bring exactly as many, and looking more often makes it faster. Reads that bring all that publishers hand
        over at once are equal too, and say nothing.
        """
        if messages >= self._largest:
            self._like_largest = 1 if messages > self._largest else self._like_largest + 1
            self._largest = messages
        self._reads += 1
        if self._reads < _READS:
            return
        is_limited = 1 < self._largest < self._portion() and self._like_largest > _READS // 2
        self._most_s = max(SHORTEST_S, self._most_s / 2) if is_limited else min(LONGEST_S, self._most_s * _GROWTH)
        self._reads = self._largest = self._like_largest = 0


def publishers_gather(spec: WorkerSpec, counts: MutableSequence[int], progress: Progress) -> Gather:
    """For a worker of publishers under saturation.

    At QoS 2 a message waits for its publisher twice, with PUBREL and with its place in the window: looking half as
    often let Mosquitto run dry for a sixth of the time.
    """
    share = PORTION / 2 if spec.workload.qos == Qos.EXACTLY_ONCE else PORTION
    return Gather(counts, progress, fan_out=spec.fan_out, share=share)


def gather_of(spec: WorkerSpec, counts: MutableSequence[int], progress: Progress) -> Gather | None:
    """For a worker of subscribers; None where the load keeps a schedule.

    With acknowledgements the share is shorter, which the broker may wait for; at QoS 2 a message takes four times as
    long through the window, and half of its packets are worth waiting for.
    """
    if not spec.saturates:
        return None
    share = _GATHERED / 2 if spec.workload.qos else _GATHERED
    return Gather(counts, progress, fan_out=spec.fan_out, share=share)
