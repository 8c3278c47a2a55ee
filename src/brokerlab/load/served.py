"""The other side of a client's stream: what the null broker reads and writes through, for clients of every transport.

TLS is that of tls.py, with a server's context. Of WebSocket a server's half stands here: it reads masked frames and
sends unmasked ones, and answers no ping, for our clients send none.
"""

import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from brokerlab.load.stream import TcpStream
from brokerlab.load.streaming import Stage, Stream, Wait
from brokerlab.load.tls import TlsStream
from brokerlab.load.websocket import (
    BAD,
    CLOSE,
    CONTROL,
    FRAME_BYTES,
    FULL,
    SWITCHING,
    accept_of,
    head_of,
    incoming,
    state_of,
    take_frames,
)
from brokerlab.load.wire import Bytes
from brokerlab.study.values import Transport

_LONGEST_REQUEST_BYTES = 16 * 1024


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer with the broker's own certificate; clients need none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def served(sock: socket.socket, transport: Transport, context: ssl.SSLContext | None) -> Stream:
    """The stream of a client that was accepted; its handshakes are still to be done."""
    stream: Stream = TcpStream(sock) if context is None else TlsStream(sock, context, None)
    return ServedWebSocket(stream) if transport.is_framed else stream


class ServedWebSocket:
    """Implements Stream over another one, as the server."""

    def __init__(self, below: Stream) -> None:
        self._below = below
        self.socket = below.socket
        self.fileno = below.fileno
        self.has_more = False
        self.is_exact = False
        self.stages: Sequence[Stage] = ()
        self._rest = b""  # read, but not taken yet
        self._has_frames = False  # whether that is more than the beginning of a frame's head
        self._state = state_of(masked=True)
        self._frame = memoryview(b"")  # what is not handed over yet of a frame
        self._head = 0  # bytes of it before those of MQTT
        self._is_over = False
        self._steps = self._shaking()

    def stamp(self) -> None:
        """The null broker needs no times of arrival."""

    def shake(self) -> Wait:
        return next(self._steps, Wait.NOTHING)

    def _shaking(self) -> Iterator[Wait]:
        while (wait := self._below.shake()) is not Wait.NOTHING:
            yield wait
        asked = b""
        while b"\r\n\r\n" not in asked:
            try:
                count, _ = self._below.read(incoming.buffer)
            except BlockingIOError:
                yield Wait.READ
                continue
            asked += bytes(incoming.buffer[:count])
            if not count or len(asked) > _LONGEST_REQUEST_BYTES:
                raise ConnectionAbortedError("the client asked for no WebSocket")
        head, _, self._rest = asked.partition(b"\r\n\r\n")
        self.has_more = self._has_frames = bool(self._rest)
        left = memoryview(_answer(head.decode("latin-1")))
        while left:
            try:
                left = left[self._below.send(left) :]
            except BlockingIOError:
                yield Wait.WRITE

    def send(self, data: memoryview, /) -> int:
        if not self._frame:
            piece = data[:FRAME_BYTES]
            head = head_of(len(piece), masked=False)
            self._frame, self._head = memoryview(b"".join((head, piece))), len(head)
        taken = self._below.send(self._frame)
        self._frame = self._frame[taken:]
        of_head = min(taken, self._head)
        self._head -= of_head
        if taken == of_head:
            raise BlockingIOError  # nothing of MQTT has left yet
        return taken - of_head

    def read(self, buffer: memoryview, /) -> tuple[int, int]:
        out, at_ns = np.frombuffer(buffer, dtype=np.uint8), 0
        count = self._taken(0, out) if self._has_frames else 0
        while not count and not self._is_over:
            got, at_ns = self._below.read(incoming.buffer[len(self._rest) :])
            if not got:
                return 0, at_ns
            count = self._taken(got, out)
        self.has_more = self._has_frames or self._is_over or self._below.has_more
        return count, at_ns

    def _taken(self, got: int, out: Bytes) -> int:
        """Takes the frames of the rest and of what was read behind its place; the number of MQTT's bytes in `out`."""
        at, count, why, length = 0, 0, CONTROL, len(self._rest) + got
        incoming.bytes[: len(self._rest)] = np.frombuffer(self._rest, dtype=np.uint8)
        while why == CONTROL and not self._is_over:
            at, used, why = take_frames(incoming.bytes, length, at, out[count:], self._state)
            count += used
            if why == CONTROL:
                self._is_over = int(incoming.bytes[at]) & 15 == CLOSE
                at += 6 + (int(incoming.bytes[at + 1]) & 127)
        if why == BAD:
            raise ConnectionAbortedError("the client sent a WebSocket frame that RFC 6455 does not allow")
        self._has_frames = why == FULL
        self._rest = incoming.bytes[at:length].tobytes()
        return count

    def finish(self) -> None:
        self._below.finish()

    def close(self) -> None:
        self._below.close()


def _answer(asked: str) -> bytes:
    """To the request of a client: the connection is a WebSocket from here on."""
    said = {
        name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in asked.split("\r\n"))
    }
    key = said.get("sec-websocket-key")
    if key is None:
        raise ConnectionAbortedError("the client asked for no WebSocket")
    lines = (
        f"HTTP/1.1 {SWITCHING} Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_of(key)}",
        f"Sec-WebSocket-Protocol: {said.get('sec-websocket-protocol', 'mqtt')}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
