"""What every stream promises, and how to wait for one; stream.py makes them."""

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Wait(Enum):
    """What a handshake waits for."""

    NOTHING = 0  # it is done
    READ = select.POLLIN
    WRITE = select.POLLOUT


class RefusedError(ConnectionAbortedError):
    """The other side is not who it should be, or does not take us for who we are."""


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
    def is_exact(self) -> bool:
        """Whether the time that `read` gave is the kernel's, and that of the last byte that it gave out.

        Otherwise it is the time of reading, or of the beginning of a record or frame that is not whole yet.
        """
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

    def finish(self) -> None:
        """Says that nothing follows, where the transport has words for that; no answer is waited for."""
        ...

    def close(self) -> None:
        """Ends the connection at once and without a word."""
        ...


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
