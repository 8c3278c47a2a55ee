"""When bytes arrived: the kernel's own stamp where it gives one, the time of reading otherwise.

SO_TIMESTAMPNS on a TCP socket gives the wall-clock time at which the last segment of what was read reached
the machine, however late the program reads (socket(7)); it is brought onto the monotonic clock with the
difference of the two clocks at the time of reading. So a busy subscriber does not add to the latency.

A segment behind a lost or overtaken one has a stamp too, though nobody can read it until the gap is closed: a message
is there with the last of the bytes before it. What was read late is looked at for that.
"""

import socket
import struct
import sys
import time

SO_TIMESTAMPNS = 35  # also the type of the control message; Python's socket module does not name it
_TIMESPEC = struct.Struct("ll")
_CONTROL_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
CLOSE_ENOUGH_NS = 3_000
_ATTEMPTS = 20
_FRESH_NS = 50_000_000
LATE_NS = 1_000_000  # a reader that waits for bytes has them within this
OUT_OF_ORDER = slice(224, 228)  # tcpi_rcv_ooopack of struct tcp_info, since Linux 5.4; older kernels give less


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


def difference_ns(now: int) -> int:
    """What the wall clock is ahead of the monotonic one; read anew when `now` is a moment after the last reading."""
    return _difference.value_ns(now)


def read_stamped(sock: socket.socket, buffer: memoryview) -> tuple[int, int]:
    """Number of bytes read and the monotonic time of arrival of the last of them."""
    count, control, _, _ = sock.recvmsg_into([buffer], _CONTROL_BYTES)
    now = time.monotonic_ns()
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            return count, min(seconds * 1_000_000_000 + nanoseconds - difference_ns(now), now)
    return count, now


class Stamps:
    """When bytes of one connection could be read, in the order in which they are read."""

    __slots__ = ("last_ns", "out_of_order")

    def __init__(self) -> None:
        self.last_ns = 0  # since when the last byte that was read could be
        self.out_of_order = 0  # segments, at the last look

    def read(self, sock: socket.socket, buffer: memoryview) -> tuple[int, int]:
        """Number of bytes read, and since when the last of them could be."""
        count, arrived_ns = read_stamped(sock, buffer)
        now = time.monotonic_ns()
        if now - arrived_ns > LATE_NS and self._waited_for_others(sock, arrived_ns):
            arrived_ns = now
        self.last_ns = max(arrived_ns, self.last_ns)  # stamps are good to a microsecond
        return count, self.last_ns

    def _waited_for_others(self, sock: socket.socket, arrived_ns: int) -> bool:
        """Whether segments came out of order since the last look, or these bytes before those that precede them."""
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, OUT_OF_ORDER.stop)
        count = int.from_bytes(told[OUT_OF_ORDER], sys.byteorder)
        is_new, self.out_of_order = count != self.out_of_order, count
        return is_new or arrived_ns < self.last_ns - CLOSE_ENOUGH_NS


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
        if best_ns <= CLOSE_ENOUGH_NS:
            break
        before = after
    return difference
