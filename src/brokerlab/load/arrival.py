"""When bytes arrived: the kernel's own stamp where it gives one, the time of reading otherwise.

SO_TIMESTAMPNS on a TCP socket gives the wall-clock time at which the last segment of what was read reached
the machine, however late the program reads (socket(7)); it is brought onto the monotonic clock with the
difference of the two clocks at the time of reading. So a busy subscriber does not add to the latency.
"""

import socket
import struct
import time

SO_TIMESTAMPNS = 35  # also the type of the control message; Python's socket module does not name it
_TIMESPEC = struct.Struct("ll")
_CONTROL_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_CLOSE_ENOUGH_NS = 3_000
_ATTEMPTS = 20
_FRESH_NS = 50_000_000


def ask_for_stamps(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


class _Difference:
    """The difference of the two clocks, read anew when it is older than a moment.

    They run at one rate, so it changes when the wall clock is set and not otherwise; that makes a run invalid
    (lab/surroundings.py). Reading it takes as long as all else that is done for a read.
    """

    def __init__(self) -> None:
        self._at_ns = self._value_ns = 0

    def value_ns(self, now: int) -> int:
        if now - self._at_ns > _FRESH_NS:
            self._value_ns, self._at_ns = wall_less_monotonic_ns(), now
        return self._value_ns


_difference = _Difference()


def read_stamped(sock: socket.socket, buffer: memoryview) -> tuple[int, int]:
    """Number of bytes read and the monotonic time of arrival of the last of them."""
    count, control, _, _ = sock.recvmsg_into([buffer], _CONTROL_BYTES)
    now = time.monotonic_ns()
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            return count, min(seconds * 1_000_000_000 + nanoseconds - _difference.value_ns(now), now)
    return count, now


def wall_less_monotonic_ns() -> int:
    """The difference of the two clocks, to 1.5 µs.

    The wall clock is read between two readings of the monotonic one. A process that loses its core in between
    would see them apart by milliseconds, so a reading counts only if both are close; of 20 the best is taken.
    """
    best_ns, difference = 1 << 62, 0
    before = time.monotonic_ns()
    for _ in range(_ATTEMPTS):
        wall = time.time_ns()
        after = time.monotonic_ns()
        if after - before < best_ns:
            best_ns, difference = after - before, wall - (before + after) // 2
        if best_ns <= _CLOSE_ENOUGH_NS:
            break
        before = after
    return difference
