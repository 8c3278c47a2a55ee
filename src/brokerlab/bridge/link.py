r"""One connection of the bridge to a broker, which is made again whenever it is lost.

    resting -> connecting -> shaking -> asked -> open
       \__________\____________\__________\_______/   what fails rests for a while, longer each time

It never blocks; its owner is told when it is open, when bytes came, and when it is lost.
"""

import contextlib
import os
import random
import select
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np

from brokerlab.bridge.values import Broker
from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import ConnAck, Connect, Disconnect, MalformedPacketError, PingReq, connack_reason
from brokerlab.load.parser import Parser
from brokerlab.load.properties import RECEIVE_MAXIMUM, SERVER_KEEP_ALIVE, SESSION_EXPIRY, Properties, number_of
from brokerlab.load.spec import Entrance
from brokerlab.load.stream import Stream, Wait, stream_over
from brokerlab.load.streaming import RefusedError

_FIRST_REST_S, _LONGEST_REST_S = 0.1, 5.0
_ANSWER_S = 10.0  # until a connection stands, at the longest
_ROOM_BYTES = 256 * 1024
_NOT_ADMITTED = (4, 5, 0x86, 0x87, 0x8C)  # CONNACK: bad user name or password, not authorized


class State(Enum):
    IDLE = 0  # nobody wants it
    RESTING = 1
    CONNECTING = 2
    SHAKING = 3
    ASKED = 4
    OPEN = 5


@dataclass(slots=True)
class Switchboard:
    """What all connections of a bridge share: who is told of a descriptor, and whether somebody wants a tick now."""

    epoll: select.epoll = field(default_factory=select.epoll)
    links: dict[int, "Link"] = field(default_factory=dict)
    is_stirred: bool = False


class Owner(Protocol):
    def opened(self, answer: ConnAck) -> None: ...
    def came(self) -> None:
        """Bytes are in the link's buffer."""
        ...

    def drained(self) -> None:
        """All that was put has gone to the system."""
        ...

    def lost(self) -> None: ...
    def failed(self, reason: str, *, is_final: bool) -> None:
        """No connection came about; where it is final, trying again does not help."""
        ...


class Link:
    """The buffer holds `buffer[at:end]`; what is put goes out in order."""

    def __init__(
        self, broker: Broker, client_id: str, board: Switchboard, *, keeps_session: bool, receive_maximum: int,
    ) -> None:  # fmt: skip
        self.broker, self.client_id = broker, client_id
        self._board = board
        self._keeps_session, self._receive_maximum = keeps_session, receive_maximum
        self.owner: Owner | None = None
        self.state = State.IDLE
        self.buffer = np.empty(_ROOM_BYTES, dtype=np.uint8)
        self.at = self.end = 0
        self._out: deque[memoryview] = deque()
        self.unsent_bytes = 0
        self._stream: Stream | None = None
        self._socket: socket.socket | None = None
        self._mask = 0
        self.is_reading = True
        self._due_ns = 0  # of the next attempt, or of giving up this one
        self._rests = 0
        self._sent_ns = self._heard_ns = 0
        self._is_pinged = False
        self._keep_alive_s = broker.keep_alive_s

    # -- what its owner asks for ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Wants the connection, from now on."""
        if self.state is State.IDLE:
            self.state, self._due_ns, self._board.is_stirred = State.RESTING, 0, True

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    def put(self, data: memoryview) -> None:
        """Queues bytes that will not be changed, and sends what the system takes now; nothing without a connection."""
        if self.state not in (State.OPEN, State.ASKED):
            return
        self._out.append(data)
        self.unsent_bytes += len(data)
        if len(self._out) == 1 and self.state is State.OPEN:
            self.push()

    def read_on(self, wanted: bool) -> None:
        """Whether bytes are taken from the broker: what is not read it must keep."""
        if wanted != self.is_reading:
            self.is_reading = wanted
            self._watch()

    def leave(self, *, hears_out_s: float = 0.0) -> None:
        """Says goodbye, and is not wanted any more; for so long the broker may take the time to hear it.

        Who closes while bytes come in resets the connection, and a broker that writes to it then does not read the
        acknowledgements before it: it sends those messages once more.
        """
        if self._stream is not None and self.state is State.OPEN and not self._out:
            with contextlib.suppress(OSError):
                self._stream.send(memoryview(Disconnect().encode(self.broker.level)))
                self._stream.finish()
                self._hear_out(hears_out_s)
        self._close()
        self.state = State.IDLE

    def drop(self, reason: str, *, is_final: bool = False) -> None:
        """Closes what stands, and begins again after a rest."""
        was_open = self.state is State.OPEN
        self._close()
        self._rest()
        if self.owner is not None:
            if was_open:
                self.owner.lost()
            self.owner.failed(reason, is_final=is_final)

    # -- what the loop calls --------------------------------------------------------------------------------------

    def tick(self, now: int) -> int | None:
        """Does what is due; when it wants to be called again at the latest."""
        if self.state is State.IDLE:
            return None
        if self.state is State.OPEN:
            return self._keep_alive(now)
        if now >= self._due_ns:
            if self.state is State.RESTING:
                self._begin(now)
            else:
                self.drop(f"nothing came in {_ANSWER_S:g} s")
        return self._due_ns

    def ready(self, event: int) -> None:
        """Goes on with what epoll told of."""
        try:
            if self.state is not State.OPEN:
                self._go_on()
                return
            if event & select.EPOLLOUT:
                self.push()
            if event & ~select.EPOLLOUT and self.state is State.OPEN:
                if not self.is_reading:  # what is not read is told of only at the end
                    raise ConnectionResetError("it closed the connection")
                self._read()
        except BlockingIOError:
            return
        except OSError as problem:
            self.drop(problem.strerror or str(problem), is_final=isinstance(problem, RefusedError))
        except MalformedPacketError as problem:
            self.drop(f"no MQTT: {problem}")

    def push(self) -> None:
        stream = self._stream
        if stream is None:
            return
        try:
            while self._out:
                data = self._out[0]
                taken = stream.send(data)
                self.unsent_bytes -= taken
                if taken == len(data):
                    self._out.popleft()
                else:
                    self._out[0] = data[taken:]
        except BlockingIOError:
            pass  # the system has enough: epoll tells when it takes more
        except OSError as problem:
            self.drop(problem.strerror or str(problem))
            return
        self._sent_ns = now_ns()
        self._watch()
        if not self._out and self.owner is not None and self.state is State.OPEN:
            self.owner.drained()

    # -- the steps ------------------------------------------------------------------------------------------------

    def _begin(self, now: int) -> None:
        self.state, self._due_ns = State.CONNECTING, now + int(_ANSWER_S * 1e9)
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.broker.host, self.broker.port, type=socket.SOCK_STREAM
            )[0]
            self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(BlockingIOError):  # it is on its way
                self._socket.connect(address)
        except OSError as problem:
            self.drop(problem.strerror or str(problem))
            return
        self._board.links[self._socket.fileno()] = self
        self._board.is_stirred = True  # for its deadline
        self._mask = select.EPOLLIN | select.EPOLLOUT
        self._board.epoll.register(self._socket.fileno(), self._mask)

    def _go_on(self) -> None:
        if self.state is State.CONNECTING:
            self._connected()
        if self.state is State.SHAKING:
            self._shake()
        if self.state is State.ASKED:
            if self._out:
                self.push()
            else:
                self._answered()

    def _connected(self) -> None:
        sock = self._socket
        if sock is None:
            return
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))
        broker = self.broker
        try:
            self._stream = stream_over(
                sock, Entrance(broker.transport, broker.authority, broker.path), host=broker.host, port=broker.port,
                certificate=broker.certificate, protocol=broker.protocol,
            )  # fmt: skip
        except OSError as problem:  # a file of certificates that is none
            raise RefusedError(f"our certificates: {problem.strerror or problem}") from problem
        self.state = State.SHAKING

    def _shake(self) -> None:
        if self._stream is None:
            return
        wait = self._stream.shake()
        if wait is Wait.NOTHING:
            self.state = State.ASKED
            self.put(memoryview(self._question().encode(self.broker.level)))
            self.push()
        else:
            self._set_mask(select.EPOLLOUT if wait is Wait.WRITE else select.EPOLLIN)

    def _question(self) -> Connect:
        broker = self.broker
        properties: Properties = ((RECEIVE_MAXIMUM, self._receive_maximum),)
        if self._keeps_session:
            properties += ((SESSION_EXPIRY, broker.session_expiry_s),)
        return Connect(
            self.client_id,
            broker.keep_alive_s,
            clean_session=not self._keeps_session,
            username=broker.user,
            password=None if broker.password is None else broker.password.reveal().encode(),
            properties=properties,
        )

    def _answered(self) -> None:
        """Reads the CONNACK; what follows it stays in the buffer."""
        self._fill()
        size = _first_packet_bytes(self.buffer[: self.end].tobytes())
        if size is None:
            return
        answer = Parser(self.broker.level).feed(self.buffer[:size].tobytes())[0]
        if not isinstance(answer, ConnAck):
            raise MalformedPacketError(f"{type(answer).__name__.upper()} instead of CONNACK")
        if code := answer.return_code:
            reason = f"it refuses us: {connack_reason(self.broker.level, code)} (CONNACK {code})"
            self.drop(reason, is_final=code in _NOT_ADMITTED)
            return
        self.at = size
        self._keep_alive_s = number_of(answer.properties, SERVER_KEEP_ALIVE) or self.broker.keep_alive_s
        self.state, self._rests = State.OPEN, 0
        self._heard_ns, self._is_pinged = now_ns(), False
        self._watch()
        if self.owner is not None:
            self.owner.opened(answer)
            if self.at < self.end and self.state is State.OPEN:
                self.owner.came()

    # -- bytes ----------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Takes what is there into the buffer; OSError at the end of the connection."""
        if self._stream is None:
            return
        if self.at:
            left = self.end - self.at
            self.buffer[:left] = self.buffer[self.at : self.end].copy()
            self.at, self.end = 0, left
        if self.end == self.buffer.size:  # one packet that is longer
            self.buffer = np.concatenate([self.buffer, np.empty(self.buffer.size, dtype=np.uint8)])
        count, _ = self._stream.read(self.buffer[self.end :].data)
        if not count:
            raise ConnectionResetError("it closed the connection")
        self.end += count

    def _read(self) -> None:
        stream = self._stream
        while stream is not None and self.state is State.OPEN and self.is_reading:
            self._fill()
            self._heard_ns, self._is_pinged = now_ns(), False
            if self.owner is not None:
                self.owner.came()
            if not stream.has_more:
                return

    def shrink(self) -> None:
        """Gives back what one long packet took."""
        if self.buffer.size > _ROOM_BYTES and self.end - self.at < _ROOM_BYTES:
            rest = self.buffer[self.at : self.end].copy()
            self.buffer = np.empty(_ROOM_BYTES, dtype=np.uint8)
            self.buffer[: rest.size] = rest
            self.at, self.end = 0, rest.size

    def _watch(self) -> None:
        if self.state is State.OPEN or self.state is State.ASKED:
            is_reading = self.is_reading or self.state is State.ASKED
            self._set_mask((select.EPOLLIN if is_reading else 0) | (select.EPOLLOUT if self._out else 0))

    def _set_mask(self, mask: int) -> None:
        if mask != self._mask and self._socket is not None:
            self._board.epoll.modify(self._socket.fileno(), mask)
            self._mask = mask

    # -- its end --------------------------------------------------------------------------------------------------

    def _keep_alive(self, now: int) -> int:
        every_ns = self._keep_alive_s * 10**9
        if self._is_pinged and self.is_reading and now - self._heard_ns > 1.5 * every_ns:
            self.drop("no answer to PINGREQ")
            return now
        if now - self._sent_ns >= every_ns // 2:
            self._sent_ns, self._is_pinged = now, True
            self.put(memoryview(PingReq().encode()))
        return self._sent_ns + every_ns // 2

    def _rest(self) -> None:
        longest = min(_LONGEST_REST_S, _FIRST_REST_S * 2**self._rests)
        self._rests = min(self._rests + 1, 20)
        self.state, self._board.is_stirred = State.RESTING, True
        self._due_ns = now_ns() + int(random.uniform(0.5, 1) * longest * 1e9)  # noqa: S311 - not all at once

    def _hear_out(self, longest_s: float) -> None:
        """Reads what is on its way, which the broker will send again, until it has closed too."""
        if self._socket is None or not longest_s:
            return
        self._socket.shutdown(socket.SHUT_WR)
        ends = time.monotonic() + longest_s
        while (left_s := ends - time.monotonic()) > 0:
            self._socket.settimeout(left_s)
            if not self._socket.recv(_ROOM_BYTES):
                return

    def _close(self) -> None:
        if self._socket is not None:
            self._board.links.pop(self._socket.fileno(), None)
            (self._stream or self._socket).close()  # which takes it out of the epoll too
        self._socket = self._stream = None
        self._out.clear()
        self.at = self.end = self.unsent_bytes = 0
        self._is_pinged = False


def _first_packet_bytes(data: bytes) -> int | None:
    """How long the packet is that begins here; None while it is not whole."""
    size = 0
    for place in range(1, min(5, len(data))):
        size |= (data[place] & 0x7F) << (7 * (place - 1))
        if data[place] < 0x80:
            whole = place + 1 + size
            return whole if whole <= len(data) else None
    return None
