"""How much waits unread in the sockets of a subscribing worker, seen from beside its loop.

A thread looks twice a second, in a short measure phase more often, at times that have nothing to do with when the loop
reads: right after a read every socket is empty. It looks at both ends of the phase too, so that there is none without.
It asks the kernel for a few sockets only (FIONREAD, ioctl(2)), so that ten thousand cost no more than ten.

    |----x------x---|-x------x------x-|---x------      x: looks of the rhythm; the bars are the ends of the phase
"""

import array
import fcntl
import statistics
import termios
import threading
from collections.abc import Collection

from brokerlab.load.alarm import now_ns

_PERIOD_NS = 500_000_000
_PARTS = 7  # of a measure phase, at least, with a look between any two: no schedule is likely to have that rhythm
_SHORTEST_NS = 10_000_000
_SOCKETS = 32  # looked at each time, spread over all


class BacklogWatch:
    """Looks until it is closed; `sockets` is the worker's own, which changes under it."""

    def __init__(self, sockets: Collection[int], *, start_ns: int, end_ns: int) -> None:
        self._sockets = sockets
        self._phase = start_ns, end_ns
        self._looks: list[tuple[int, int]] = []  # (when, bytes in the fullest)
        self._is_over, self._news = False, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="backlog", daemon=True)
        self._thread.start()

    def retime(self, *, start_ns: int, end_ns: int) -> None:
        """The measure phase is another one."""
        self._phase = start_ns, end_ns
        self._news.set()

    def close(self) -> None:
        self._is_over = True
        self._news.set()
        self._thread.join()

    def mean_bytes(self, *, but: tuple[int, int] = (0, 0)) -> float | None:
        """Of the looks in the measure phase, each that of the fullest socket; None if there were none.

        What waits during a planned pause (`but`), and until the first look after it, says nothing of the reader.
        """
        start_ns, end_ns = self._phase
        pause_ns, read_ns = but[0], but[1] + _PERIOD_NS if but[1] else 0
        seen = [
            unread for at_ns, unread in self._looks if start_ns <= at_ns <= end_ns and not pause_ns <= at_ns < read_ns
        ]
        return statistics.fmean(seen) if seen else None

    def _watch(self) -> None:
        due_ns = now_ns()
        next_ns = due_ns + _PERIOD_NS
        while not self._is_over:
            ahead_ns = min(at_ns for at_ns in (next_ns, *self._phase) if at_ns > due_ns)
            if self._news.wait((ahead_ns - now_ns()) / 1e9):
                self._news.clear()
                continue
            due_ns, period_ns, looked_ns = ahead_ns, self._period_ns(ahead_ns), now_ns()
            # A look stands for the time at which it was due, unless it is later than the next one would be.
            self._look(due_ns if looked_ns - due_ns < period_ns else looked_ns)
            next_ns = looked_ns + period_ns if next_ns <= looked_ns else min(next_ns, looked_ns + period_ns)

    def _period_ns(self, at_ns: int) -> int:
        """Between two looks of the rhythm."""
        start_ns, end_ns = self._phase
        if not start_ns <= at_ns <= end_ns:
            return _PERIOD_NS
        return min(_PERIOD_NS, max(_SHORTEST_NS, (end_ns - start_ns) // _PARTS))

    def _look(self, at_ns: int) -> None:
        try:
            every = list(self._sockets)
        except RuntimeError:
            return  # changed while it was copied: the next look will do
        chosen = every[:: max(1, len(every) // _SOCKETS)]
        self._looks.append((at_ns, max(map(unread_bytes, chosen), default=0)))


def unread_bytes(fd: int) -> int:
    """What waits in a socket; 0 if it was closed meanwhile."""
    waiting = array.array("i", [0])
    try:
        fcntl.ioctl(fd, termios.FIONREAD, waiting)
    except OSError:
        return 0
    return waiting[0]
