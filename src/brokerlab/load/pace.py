"""How often a subscriber reads that is alone in its worker, under saturation at QoS 0: whenever its buffer is full.

A broker that finds room in its subscriber's buffer sends a small message on its own, which costs it more than all else
that it does with it; one that finds none leaves it to its kernel, which sends many together later. So the subscriber
has a small buffer, reads it once and not until it is empty, and looks for the pause after which the broker has just
filled it:

    more came at once behind what was read: the broker waited for us    the pause gets shorter, a little
    nothing came: the buffer was not full                               the pause gets longer, a lot

The broker is never held up for longer than that takes: where it can send more, the pause shrinks until it is none
(docs/design/0004 has figures). A look costs as much as a hundred messages, so a buffer must hold many, and the window
several buffers, for otherwise the broker has nothing to fill it with. Where that is not so, all is read at every look.
"""

import array
import fcntl
import termios
from collections.abc import Callable

from brokerlab.load.connection import publish_bytes
from brokerlab.load.gather import LONGEST_S, SHORTEST_S, Gather
from brokerlab.load.packets import LEVELS
from brokerlab.load.spec import WorkerSpec

# With 16 KiB the kernel drops what does not fit, and the broker waits to send it again; with 32 it now and then offers
# 6 KiB of it for good, which costs twice the looks; 64 are not full after the longest pause.
BUFFER_BYTES = 48 << 10
_FEWEST = 256  # messages in a buffer
_BUFFERS = 5  # in a window
_FIRST_S = 0.002
_SHORTER, _LONGER = 0.99, 1.2  # so the broker finds its buffer full at nineteen looks of twenty
_HELD_BACK_BYTES = 4 << 10  # less may have come by itself since


class Pace:
    """Is shown what is there behind every read, and says how long to wait for the next."""

    def __init__(self, window_bytes: Callable[[], int] | None) -> None:
        """Without a window none is kept."""
        self._window_bytes = window_bytes
        self._pause_s = _FIRST_S

    @property
    def is_possible(self) -> bool:
        return self._window_bytes is not None

    @property
    def is_on(self) -> bool:
        is_wide = self._window_bytes is not None and self._window_bytes() >= _BUFFERS * BUFFER_BYTES
        return is_wide and self._pause_s >= SHORTEST_S

    @property
    def kept_s(self) -> float | None:
        """The pause between two reads; None where all is read at every look."""
        return self._pause_s if self.is_on else None

    def is_held_back(self, fd: int, got: int) -> bool:
        """Asked after every read, of so many bytes: whether the broker's kernel may still have something for us.

        What it held back has come by now if it fills less than half of the room that the read made.
        """
        if not self.is_on:
            return False
        unread = _unread_bytes(fd)
        self._pause_s = min(LONGEST_S, self._pause_s * (_SHORTER if unread >= _HELD_BACK_BYTES else _LONGER))
        return unread >= max(_HELD_BACK_BYTES, got // 2)


def pace_of(spec: WorkerSpec, gather: Gather | None) -> Pace:
    """None is kept where a load has a schedule, or subscribers share a worker, acknowledge, or get longer messages.

    Nor with a broker that is not near, whose buffer is the kernel's (room.py).
    """
    workload = spec.workload
    if gather is None or len(spec.clients) > 1 or workload.qos or not spec.is_near:
        return Pace(None)
    message_bytes = publish_bytes(spec.clients[0], workload, level=LEVELS[workload.protocol])
    is_small = _FEWEST * message_bytes <= BUFFER_BYTES
    return Pace((lambda: gather.window * message_bytes) if is_small else None)


def _unread_bytes(fd: int) -> int:
    """How many bytes of a socket are there to be read."""
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]
