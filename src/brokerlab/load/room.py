"""How much room a subscriber's socket has for what was not read yet.

With a schedule it is ample: nothing shall wait for us in the broker. Under saturation a broker that finds room sends
each small message on its own, which costs it twice what all else does; one that finds none leaves messages to its
kernel, which sends many together when there is room again. So several subscribers at QoS 0 have little room, and read
on at every look until nothing is left (docs/design/0004 has figures). One whose room would be full within 2 ms gets
more: its broker sends many together anyway, and would wait for us.

Room is given before the connection stands. Taken away later it would be less than half of what the broker's kernel was
offered first: it sends no piece of more than that half, and none that is smaller either, until it loses patience.

A broker on another machine, or behind a link of ours, would wait for the way, a buffer at a time: there the kernel
chooses.
"""

import socket
from dataclasses import dataclass, replace

from brokerlab.load.connection import publish_bytes
from brokerlab.load.pace import BUFFER_BYTES, Pace
from brokerlab.load.packets import LEVELS
from brokerlab.load.spec import WorkerSpec

_AMPLE_BYTES = 4 << 20
_ALONE_BYTES = 64 << 10  # a quarter less CPU than with the kernel's choice
_AMONG_OTHERS_BYTES = 8 << 10
_FEWEST = 64  # messages in it
_PIECE_BYTES = 16 << 10  # after so much the next may be here already: there was no room for it before
_SMALL_PIECE_BYTES = 1 << 10
FULL_NS = 2_000_000  # a room that is full sooner is too small


@dataclass(frozen=True, slots=True)
class Room:
    buffer_bytes: int | None = None  # None: the kernel chooses
    piece_bytes: int = _PIECE_BYTES  # a read of so much may have left something behind
    grows: bool = False

    def give(self, sock: socket.socket) -> None:
        """To a socket before it connects; later it may only get more."""
        if self.buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffer_bytes)

    def after(self, got: int, elapsed_ns: int, sock: socket.socket) -> "Room":
        """What a connection has from now on, after a look at which so many bytes came since the one before."""
        if not self.grows or self.buffer_bytes is None:
            return self
        if got < self.buffer_bytes or got * FULL_NS < self.buffer_bytes * elapsed_ns:
            return self
        wider = replace(self, buffer_bytes=2 * self.buffer_bytes)
        wider.give(sock)
        # Some kernels offer no more than they chose when the connection began, unless they are told.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 2 * self.buffer_bytes)
        return wider


def room_of(spec: WorkerSpec, pace: Pace, *, is_pausing: bool) -> Room:
    """For a worker of subscribers; what a planned pause is about is the kernel's own room."""
    if is_pausing:
        return Room()
    if not spec.saturates:
        return Room(_AMPLE_BYTES)
    if not spec.is_near:
        return Room()
    if len(spec.clients) == 1:
        return Room(BUFFER_BYTES if pace.is_possible else _ALONE_BYTES)
    message_bytes = publish_bytes(spec.clients[0], spec.workload, level=LEVELS[spec.workload.protocol])
    if spec.workload.qos or _FEWEST * message_bytes > _AMONG_OTHERS_BYTES:
        return Room()
    return Room(_AMONG_OTHERS_BYTES, _SMALL_PIECE_BYTES, grows=True)
