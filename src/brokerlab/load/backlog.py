"""How much waits unread in the sockets of a subscribing worker, seen from beside its loop.

A thread looks twice a second, at times that have nothing to do with when the loop reads: right after a read
every socket is empty. It asks the kernel for a few sockets only (FIONREAD, ioctl(2)), so that ten thousand cost
no more than ten.
"""

import array
import fcntl
import statistics
import termios
import threading
from collections.abc import Collection

from brokerlab.load.alarm import now_ns

_PERIOD_S = 0.5
_SOCKETS = 32  # looked at each time, spread over all


class BacklogWatch:
    """Reads until it is closed; `sockets` is the worker's own, which changes under it."""

    def __init__(self, sockets: Collection[int]) -> None:
        self._sockets = sockets
        self._readings: list[tuple[int, int]] = []  # (when, bytes in the fullest)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="backlog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def mean_bytes(self, start_ns: int, end_ns: int, *, but: tuple[int, int] = (0, 0)) -> float | None:
        """Of the readings between the two times, each that of the fullest socket; None if there were none.

        What waits during a planned pause (`but`), and until the first look after it, says nothing of the reader.
        """
        pause_ns, read_ns = but[0], but[1] + round(_PERIOD_S * 1e9) if but[1] else 0
        seen = [
            unread
            for at_ns, unread in self._readings
            if start_ns <= at_ns <= end_ns and not pause_ns <= at_ns < read_ns
        ]
        return statistics.fmean(seen) if seen else None

    def _watch(self) -> None:
        while not self._over.wait(_PERIOD_S):
            try:
                every = list(self._sockets)
            except RuntimeError:
                continue  # changed while it was copied: the next look will do
            chosen = every[:: max(1, len(every) // _SOCKETS)]
            self._readings.append((now_ns(), max(map(unread_bytes, chosen), default=0)))


def unread_bytes(fd: int) -> int:
    """What waits in a socket; 0 if it was closed meanwhile."""
    waiting = array.array("i", [0])
    try:
        fcntl.ioctl(fd, termios.FIONREAD, waiting)
    except OSError:
        return 0
    return waiting[0]
