"""MQTT inside WebSocket frames (RFC 6455), as a client; the null broker is the server (served.py).

Written here because no library does what the load needs: they make one Python object of every message, where
we send a block of hundreds of MQTT packets as one binary frame with its mask laid over it by NumPy,
and read all frames of a buffer with one compiled walk.
A frame may hold any part of the stream of MQTT packets (MQTT 5.0 section 6), and may be cut anywhere.
"""

# mypy: disable-error-code="assignment, return-value"
# (NumPy's own integers keep Numba from widening unsigned ones; to mypy they are not `int`.)

import base64
import contextlib
import hashlib
import os
import secrets
import threading
from collections.abc import Iterator

import numpy as np
from numba import njit

from brokerlab.load.alarm import now_ns
from brokerlab.load.streaming import Stage, Stream, Wait
from brokerlab.load.wire import Bytes, Longs

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3
_BINARY, CLOSE, _PING, _PONG = 2, 8, 9, 10
FRAME_BYTES = 1 << 20  # of MQTT in one frame, at most
RAW_BYTES = 256 * 1024
_LONGEST_ANSWER_BYTES = 16 * 1024
_NORMAL_CLOSURE = (1000).to_bytes(2, "big")
SWITCHING = "101"

# Why the walk over frames stopped.
DRY, FULL, CONTROL, BAD = 0, 1, 2, 3


class _Raw(threading.local):
    """Frames as they come; one buffer for all streams of a thread, which hold nothing in it between two calls."""

    def __init__(self) -> None:
        data = bytearray(RAW_BYTES)
        self.buffer, self.bytes = memoryview(data), np.frombuffer(data, dtype=np.uint8)


incoming = _Raw()


@njit("UniTuple(i8, 3)(u1[::1], i8, i8, u1[::1], i8[::1])", cache=True, nogil=True)
def take_frames(raw: Bytes, length: int, at: int, out: Bytes, state: Longs) -> tuple[int, int, int]:
    """Copies the payload of the data frames in raw[at:length] to `out`: where it stopped, bytes copied, and why.

    `state` is kept between calls (state_of): bytes of the frame at hand that are still to come, whether a message is
    cut into fragments, and for a server, whose clients mask, the mask and how far it is used.
    DRY: the rest is less than a frame's head, or than a control frame. CONTROL: a whole control frame stands at the
    returned place. FULL: no room in `out`. BAD: that may not be sent (sections 5.1 to 5.5).
    """
    used = np.int64(0)
    while True:
        if state[0] > 0:
            count = min(state[0], length - at, len(out) - used)
            if state[2]:
                for k in range(count):
                    out[used + k] = raw[at + k] ^ np.uint8(state[3] >> (24 - 8 * ((state[4] + k) & 3)))
                state[4] += count
            else:
                out[used : used + count] = raw[at : at + count]
            at += count
            used += count
            state[0] -= count
            if state[0] > 0:
                return at, used, DRY if at == length else FULL
        if length - at < 2:
            return at, used, DRY
        first, second = np.int64(raw[at]), np.int64(raw[at + 1])
        kind, is_last, size, head = first & 15, first >> 7, second & 127, 2
        if first & 0x70 != 0 or second >> 7 != state[2]:  # extensions that nobody agreed on, or a server's mask
            return at, used, BAD
        if kind >= 8:
            if kind > 10 or is_last == 0 or size > 125:
                return at, used, BAD
            return at, used, CONTROL if length - at >= 2 + 4 * state[2] + size else DRY
        if size >= 126:
            head = 4 if size == 126 else 10
            if length - at < head:
                return at, used, DRY
            size = np.int64(0)
            for place in range(at + 2, at + head):
                size = size << 8 | np.int64(raw[place])
            if size < 0:
                return at, used, BAD
        if kind != (2 if state[1] == 0 else 0):  # a fragment that continues nothing, or text
            return at, used, BAD
        if state[2]:
            if length - at < head + 4:
                return at, used, DRY
            state[3], state[4] = 0, 0
            for place in range(at + head, at + head + 4):
                state[3] = state[3] << 8 | np.int64(raw[place])
            head += 4
        state[0], state[1] = size, 1 - is_last
        at += head


def state_of(*, masked: bool) -> Longs:
    """Before the first frame that take_frames reads; a server's are masked."""
    return np.array((0, 0, masked, 0, 0), dtype=np.int64)


def head_of(size: int, *, kind: int = _BINARY, masked: bool) -> bytes:
    """The beginning of a last frame with so much in it, before its mask."""
    is_masked = masked << 7
    if size < 126:
        return bytes([0x80 | kind, is_masked | size])
    if size < 1 << 16:
        return bytes([0x80 | kind, is_masked | 126]) + size.to_bytes(2, "big")
    return bytes([0x80 | kind, is_masked | 127]) + size.to_bytes(8, "big")


def framed(data: memoryview, *, kind: int = _BINARY) -> tuple[memoryview, int]:
    """One last frame with a fresh mask, and the length of its head."""
    size, head = len(data), head_of(len(data), kind=kind, masked=True)
    key = os.urandom(4)  # section 5.3: nobody can foretell it
    begin = len(head) + 4
    frame = bytearray(begin + size)
    frame[:begin] = head + key
    plain, masked = np.frombuffer(data, dtype=np.uint8), np.frombuffer(frame, dtype=np.uint8)[begin:]
    whole = size & ~7
    mask = np.frombuffer(key + key, dtype=np.uint8)
    np.bitwise_xor(plain[:whole].view(np.uint64), mask.view(np.uint64), out=masked[:whole].view(np.uint64))
    np.bitwise_xor(plain[whole:], mask[: size - whole], out=masked[whole:])
    return memoryview(frame), begin


class WebSocketStream:
    """Implements Stream over another one: bare TCP for ws, TLS for wss."""

    def __init__(self, below: Stream, *, host: str, path: str, protocol: str) -> None:
        self._below = below
        self.socket = below.socket
        self.fileno = below.fileno
        self.has_more = False
        self._own_stages: list[Stage] = []
        self._asked = "mqttv3.1" if protocol == "3.1" else "mqtt"
        self._steps = self._shaking(host, path)
        self._frame = memoryview(b"")  # what is not handed over yet of a frame, after its control frames
        self._head = 0  # bytes of it before the first one of MQTT
        self._controls = b""  # answers that wait until the frame at hand has left
        self._state = state_of(masked=False)
        self._rest = b""  # read, but not taken yet
        self._has_frames = False  # whether it is more than the beginning of a frame's head
        self._arrived_ns = 0
        self._is_over = False

    @property
    def stages(self) -> list[Stage]:
        return [*self._below.stages, *self._own_stages]

    @property
    def is_exact(self) -> bool:
        return self._below.is_exact and not self.has_more and not self._rest

    def stamp(self) -> None:
        self._below.stamp()

    # -- the handshake --------------------------------------------------------------------------------------------

    def shake(self) -> Wait:
        return next(self._steps, Wait.NOTHING)

    def _shaking(self, host: str, path: str) -> Iterator[Wait]:
        while (wait := self._below.shake()) is not Wait.NOTHING:
            yield wait
        began_ns = now_ns()
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        left = memoryview(_request(host, path, key, self._asked))
        while left:
            try:
                left = left[self._below.send(left) :]
            except BlockingIOError:
                yield Wait.WRITE
        answer = b""
        while b"\r\n\r\n" not in answer:
            try:
                count, _ = self._below.read(incoming.buffer)
            except BlockingIOError:
                yield Wait.READ
                continue
            answer += bytes(incoming.buffer[:count])
            if not count or len(answer) > _LONGEST_ANSWER_BYTES:
                raise ConnectionAbortedError(f"no WebSocket: the broker answered with {_begin(answer)}")
        head, _, self._rest = answer.partition(b"\r\n\r\n")
        _check_answer(head.decode("latin-1"), key, self._asked)
        self.has_more = self._has_frames = bool(self._rest)
        self._own_stages.append(Stage("websocket", began_ns, now_ns()))

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, data: memoryview, /) -> int:
        if not self._frame:
            self._frame, self._head = framed(data[:FRAME_BYTES])
            if self._controls:
                self._frame = memoryview(self._controls + self._frame)
                self._head, self._controls = self._head + len(self._controls), b""
        taken = self._below.send(self._frame)
        self._frame = self._frame[taken:]
        of_head = min(taken, self._head)
        self._head -= of_head
        if taken == of_head:
            raise BlockingIOError  # nothing of MQTT has left yet
        return taken - of_head

    def _answer(self, kind: int, payload: bytes) -> None:
        """Queues a control frame; it leaves now, or before the next frame of data."""
        self._controls += framed(memoryview(payload), kind=kind)[0]
        with contextlib.suppress(BlockingIOError):
            while self._controls and not self._frame:
                self._controls = self._controls[self._below.send(memoryview(self._controls)) :]

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, buffer: memoryview, /) -> tuple[int, int]:
        out = np.frombuffer(buffer, dtype=np.uint8)
        count = self._taken(0, out) if self._has_frames else 0
        while not count and not self._is_over:
            self.has_more = False
            rest = len(self._rest)  # less than a control frame: the others were taken
            got, self._arrived_ns = self._below.read(incoming.buffer[rest:])
            if not got:
                return 0, self._arrived_ns
            count = self._taken(got, out)
        self.has_more = self._has_frames or self._is_over or self._below.has_more
        return count, self._arrived_ns

    def _taken(self, got: int, out: Bytes) -> int:
        """Takes the frames of the rest and of what was read behind its place; the number of MQTT's bytes in `out`."""
        at, count, why, length = 0, 0, CONTROL, len(self._rest) + got
        incoming.bytes[: len(self._rest)] = np.frombuffer(self._rest, dtype=np.uint8)
        while why == CONTROL and not self._is_over:
            at, used, why = take_frames(incoming.bytes, length, at, out[count:], self._state)
            count += used
            if why == CONTROL:
                at = self._obey(at)
        if why == BAD and not count:
            raise ConnectionAbortedError("the broker sent a WebSocket frame that RFC 6455 does not allow")
        self._has_frames = why in (FULL, BAD)
        self._rest = incoming.bytes[at:length].tobytes()
        return count

    def _obey(self, at: int) -> int:
        """Answers the control frame at this place; the place after it."""
        kind, end = int(incoming.bytes[at]) & 15, at + 2 + int(incoming.bytes[at + 1])
        payload = incoming.bytes[at + 2 : end].tobytes()
        if kind == _PING:
            self._answer(_PONG, payload)
        elif kind == CLOSE:
            with contextlib.suppress(OSError):  # it may have gone already
                self._answer(CLOSE, payload[:2])
            self._is_over = True
        return end

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # the broker was faster, which is as good
            if not self._frame and not self._is_over:
                self._answer(CLOSE, _NORMAL_CLOSURE)
        self._below.finish()

    def close(self) -> None:
        self._below.close()


def _request(host: str, path: str, key: str, asked: str) -> bytes:
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {asked}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def accept_of(key: str) -> str:
    """What proves that the server read the key (section 4.2.2)."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()  # noqa: S324 - not for security


def _check_answer(head: str, key: str, asked: str) -> None:
    status, *lines = head.split("\r\n")
    said = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if status.split(" ")[1:2] != [SWITCHING]:
        raise ConnectionAbortedError(f"no WebSocket: the broker answered with {_begin(status.encode())}")
    if said.get("upgrade", "").lower() != "websocket" or "upgrade" not in said.get("connection", "").lower():
        raise ConnectionAbortedError("no WebSocket: the broker's answer does not upgrade the connection")
    if said.get("sec-websocket-accept") != accept_of(key):
        raise ConnectionAbortedError("no WebSocket: the broker's Sec-WebSocket-Accept does not belong to our key")
    if said.get("sec-websocket-protocol") != asked:
        raise ConnectionAbortedError(
            f"no MQTT: the broker speaks {said.get('sec-websocket-protocol', 'nothing')} on WebSocket, not {asked}"
        )


def _begin(answer: bytes) -> str:
    return repr(answer[:80].decode("latin-1")) if answer else "the end of the connection"
