"""One client's bytes: a non-blocking socket, perhaps inside TLS or WebSocket frames.

What a role does with a connection it does through a Stream, and does not know what lies below it.
"""

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from brokerlab.load import arrival
from brokerlab.load.alarm import now_ns
from brokerlab.load.spec import Client, WorkerSpec


class Wait(Enum):
    """What a handshake waits for."""

    NOTHING = 0  # it is done
    READ = select.POLLIN
    WRITE = select.POLLOUT


@dataclass(frozen=True, slots=True)
class Stage:
    """A handshake that is done, as an event of the session."""

    event: str
    began_ns: int
    at_ns: int
    detail: str = ""  # what both sides agreed on


class Stream(Protocol):
    """A connection whose bytes are those of MQTT packets, whatever stands around them on the wire.

    After `send` took less than it was given, or raised BlockingIOError, the next call must offer what follows
    what was taken: the bytes may be encrypted or framed already, and only wait for the kernel.
    """

    has_more: bool  # bytes are here already that epoll will not tell of: read again

    @property
    def socket(self) -> socket.socket: ...

    @property
    def stages(self) -> Sequence[Stage]:
        """The handshakes that are done, in order; empty for bare TCP."""
        ...

    @property
    def is_stamped(self) -> bool:
        """Whether `read` gives the kernel's time of arrival; otherwise it is the time of reading."""
        ...

    def fileno(self) -> int: ...

    def stamp(self) -> None:
        """Asks the kernel for times of arrival from now on."""
        ...

    def shake(self) -> Wait:
        """One step of the handshakes; what it waits for before the next step. OSError when they fail."""
        ...

    def send(self, data: memoryview, /) -> int:
        """How many bytes of `data` went to the kernel; BlockingIOError when none can go now."""
        ...

    def read(self, buffer: memoryview, /) -> tuple[int, int]:
        """Bytes read, and when the last of them arrived; 0 bytes are the end. BlockingIOError when there are none."""
        ...

    def close(self) -> None: ...


class TcpStream:
    """MQTT on bare TCP: the socket's own functions, with nothing in between.

    They are called and not kept: as attributes they would take 200 bytes of each of tens of thousands of clients.
    """

    __slots__ = ("has_more", "is_stamped", "socket", "stages")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.has_more = False
        self.is_stamped = False
        self.stages: Sequence[Stage] = ()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: memoryview, /) -> int:
        return self.socket.send(data)

    def close(self) -> None:
        self.socket.close()

    def stamp(self) -> None:
        arrival.ask_for_stamps(self.socket)
        self.is_stamped = True

    def shake(self) -> Wait:
        return Wait.NOTHING

    def read(self, buffer: memoryview, /) -> tuple[int, int]:
        if self.is_stamped:
            return arrival.read_stamped(self.socket, buffer)
        return self.socket.recv_into(buffer), now_ns()


def stream_of(sock: socket.socket, spec: WorkerSpec, client: Client) -> Stream:  # noqa: ARG001 - TCP needs neither
    """The stream of a client of this worker over a connected socket, which does not block from now on."""
    return TcpStream(sock)


# -- for those who wait: before the run and after it ---------------------------------------------------------------


def await_ready(stream: Stream, wait: Wait, deadline: float) -> None:
    """Waits until the socket can be read or written; TimeoutError at the deadline (time.monotonic)."""
    poll = select.poll()
    poll.register(stream.fileno(), wait.value)
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0 or not poll.poll(remaining_s * 1000):
        raise TimeoutError("timed out")


def shake_hands(stream: Stream, deadline: float) -> None:
    """Does all handshakes."""
    while (wait := stream.shake()) is not Wait.NOTHING:
        await_ready(stream, wait, deadline)


def send_all(stream: Stream, data: bytes, deadline: float) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[stream.send(left) :]
        except BlockingIOError:
            await_ready(stream, Wait.WRITE, deadline)


def read_some(stream: Stream, size: int, deadline: float) -> bytes:
    """At least one byte and at most `size`; none at the end of the connection."""
    buffer = bytearray(size)
    while True:
        try:
            count, _ = stream.read(memoryview(buffer))
        except BlockingIOError:
            await_ready(stream, Wait.READ, deadline)
        else:
            return bytes(buffer[:count])
