"""When bytes arrived: the kernel's own stamp where it gives one, the time of reading otherwise.

SO_TIMESTAMPNS on a TCP socket gives the wall-clock time at which the last segment of what was read reached
the machine, however late the program reads (socket(7)); wallclock.py brings it onto the monotonic clock. So a busy
subscriber does not add to the latency.

A segment behind a lost or overtaken one has a stamp too, though nobody can read it until the gap is closed: a message
is there with the last of the bytes before it. What was read late is looked at for that.
"""

import socket
import struct
import sys
import time

from brokerlab.load import wallclock

SO_TIMESTAMPNS = 35  # also the type of the control message; Python's socket module does not name it
_TIMESPEC = struct.Struct("ll")
_CONTROL_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
LATE_NS = 1_000_000  # a reader that waits for bytes has them within this
OUT_OF_ORDER = slice(224, 228)  # tcpi_rcv_ooopack of struct tcp_info, since Linux 5.4; older kernels give less


def ask_for_stamps(sock: socket.socket) -> None:
    wallclock.look()  # before the first stamp
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def read_stamped(sock: socket.socket, buffer: memoryview) -> tuple[int, int]:
    """Number of bytes read and the monotonic time of arrival of the last of them."""
    count, control, _, _ = sock.recvmsg_into([buffer], _CONTROL_BYTES)
    now = wallclock.look()
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            return count, wallclock.place(wallclock.STATE, seconds * 1_000_000_000 + nanoseconds, now)
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
        return is_new or arrived_ns < self.last_ns - wallclock.CLOSE_ENOUGH_NS
