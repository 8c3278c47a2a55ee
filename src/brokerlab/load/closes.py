"""Where the bytes stopped of connections that are closed at once after their message.

A socket that is closed with SO_LINGER 0 drops what the other side's kernel has not acknowledged (socket(7)). What
that is at the moment of the close is asked for just before (SIOCOUTQ, tcp(7)).
"""

import array
import fcntl
import socket
import statistics
import struct
import termios
from dataclasses import dataclass

_LINGER_OFF = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Closed:
    """The closes of one publisher; bytes are of the wire, TLS included."""

    publisher: int
    closes: int
    whole: int  # of them with everything acknowledged by the other side's kernel
    left_bytes_min: int  # this and the next two: not acknowledged when the connection was closed
    left_bytes_median: float
    left_bytes_max: int


class Closes:
    """Closes sockets at once, and keeps what was left in them."""

    def __init__(self) -> None:
        self._left: dict[int, list[int]] = {}  # by publisher

    def drop_rest(self, publisher: int, fd: int) -> None:
        """Has the kernel drop, when this socket is closed, what it has not got across."""
        try:
            left_bytes = unacknowledged_bytes(fd)
            with socket.socket(fileno=fd) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
                sock.detach()
        except OSError:
            return  # the broker was faster
        self._left.setdefault(publisher, []).append(left_bytes)

    def facts(self) -> tuple[Closed, ...]:
        return tuple(
            Closed(publisher, len(left), left.count(0), min(left), statistics.median(left), max(left))
            for publisher, left in sorted(self._left.items())
        )


def unacknowledged_bytes(fd: int) -> int:
    """What the other side's kernel has not acknowledged."""
    waiting = array.array("i", [0])
    fcntl.ioctl(fd, termios.TIOCOUTQ, waiting)
    return waiting[0]
