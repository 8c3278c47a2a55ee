"""A small blocking MQTT client of any version: for the proof of readiness, broker counters and tests.

It waits for every acknowledgement, so it is no load generator.
Every wait has a deadline, and what goes wrong is a RunError that says what was waited for.
"""

import contextlib
import secrets
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from brokerlab.errors import RunError
from brokerlab.load.packets import (
    FIRST_FAILURE,
    LEVELS,
    ConnAck,
    Connect,
    Disconnect,
    MalformedPacketError,
    Packet,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    connack_reason,
)
from brokerlab.load.parser import Parser
from brokerlab.load.spec import Entrance
from brokerlab.load.stream import Stream, read_some, send_all, shake_hands, stream_over
from brokerlab.load.streaming import RefusedError
from brokerlab.study.address import written_address

_Answer = TypeVar("_Answer", bound=Packet)
_READ_BYTES = 65_536
_SEND_S = 20.0  # without a byte taken, at the longest
# 18 hours without a ping. Not 0, which turns it off and is refused by rumqttd, and not the highest that there is,
# with which Mosquitto 2.0.21 takes a client for silent from the beginning.
_LONG_KEEP_ALIVE_S = 0xFFFE
_BAD_LOGIN = (4, 5, 0x86, 0x87)  # CONNACK: bad user name or password, not authorized (MQTT 3.1.1, 5.0)


class NotAdmittedError(RunError):
    """The broker is there, but we do not get in: trying again does not help."""


@dataclass(frozen=True, slots=True)
class Login:
    """How one client gets in."""

    entrance: Entrance = field(default_factory=Entrance)
    user: str | None = None
    password: bytes | None = field(default=None, repr=False)
    certificate: Path | None = None
    protocol: str = "3.1.1"  # unless the client is told another


class Client:
    """One connection with a clean session and without pings; use it as a context manager."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = None,
        login: Login | None = None,
        protocol: str | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        """Connects; returns when the broker's CONNACK accepts."""
        login = login or Login()
        protocol = protocol or login.protocol
        self._level = LEVELS[protocol]
        self._address = written_address(host, port)
        self._parser = Parser(self._level)
        self._answers: deque[Packet] = deque()
        self._messages: deque[Publish] = deque()
        self._received_ids: set[int] = set()  # QoS 2 messages between PUBLISH and PUBREL
        self._last_id = 0
        self.read_ns = 0  # when what `receive` hands out was read
        self.client_id = client_id or f"brokerlab-{secrets.token_hex(6)}"
        with self._explained("connecting"):
            sock = socket.create_connection((host, port), timeout=timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self._explained("the handshake"):
                self._stream: Stream = stream_over(
                    sock, login.entrance, host=host, port=port, certificate=login.certificate, protocol=protocol
                )
        except BaseException:
            sock.close()
            raise
        try:
            with self._explained("the handshake"):
                shake_hands(self._stream, time.monotonic() + timeout_s)
            self._send(Connect(self.client_id, _LONG_KEEP_ALIVE_S, username=login.user, password=login.password))
            answer = self._await(ConnAck, timeout_s)
            self._require_accepted(answer)
        except BaseException:
            self._stream.close()
            raise
        self.said = answer.properties  # by the broker of itself (MQTT 5.0)

    def subscribe(self, topic_filter: str, qos: int, *, timeout_s: float = 5.0) -> int:
        """The QoS that the broker granted."""
        self._send(Subscribe(self._next_id(), ((topic_filter, qos),)))
        answer = self._await(SubAck, timeout_s, packet_id=self._last_id)
        if answer.return_codes and answer.return_codes[0] >= FIRST_FAILURE:
            code = answer.return_codes[0]
            raise RunError(f"{self._address} refused the subscription to {topic_filter!r} (code {code:#04x})")
        if len(answer.return_codes) != 1:
            raise RunError(f"{self._address} answered one subscription with {len(answer.return_codes)} return codes")
        return answer.return_codes[0]

    def publish(
        self, topic: str, payload: bytes = b"", *, qos: int = 0, retain: bool = False, timeout_s: float = 5.0
    ) -> None:
        """Sends one message; at QoS 1 and 2 returns when its handshake is complete."""
        packet_id = self._next_id() if qos else None
        self._send(Publish(topic, payload, qos, packet_id, retain=retain))
        if qos == 1:
            self._await(PubAck, timeout_s, packet_id=packet_id)
        elif qos == 2 and packet_id is not None:
            self._await(PubRec, timeout_s, packet_id=packet_id)
            self._send(PubRel(packet_id))
            self._await(PubComp, timeout_s, packet_id=packet_id)

    def receive(self, *, timeout_s: float) -> Publish | None:
        """The next message, already acknowledged at QoS 1 and 2; None when none came in time."""
        deadline = time.monotonic() + timeout_s
        while not self._messages:
            if not self._read(deadline, "receiving"):
                return None
        return self._messages.popleft()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def has_more(self) -> bool:
        """Whether something is here already that the socket's readiness will not tell of."""
        return bool(self._messages) or self._stream.has_more

    def disconnect(self) -> None:
        """Says goodbye, so that the broker does not take the end for an accident, and closes."""
        with contextlib.suppress(RunError):  # the broker may have closed first, which is as good
            self._send(Disconnect())
            self._stream.finish()
        self.close()

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    def _require_accepted(self, answer: ConnAck) -> None:
        if code := answer.return_code:
            reason = connack_reason(self._level, code)
            kind = NotAdmittedError if code in _BAD_LOGIN else RunError
            raise kind(f"{self._address} refused the connection: {reason} (CONNACK return code {code})")

    def _next_id(self) -> int:
        self._last_id = self._last_id % 0xFFFF + 1
        return self._last_id

    def _await(self, kind: type[_Answer], timeout_s: float, *, packet_id: int | None = None) -> _Answer:
        """The next answer, which must be of this kind and for this packet id."""
        deadline = time.monotonic() + timeout_s
        while not self._answers:
            if not self._read(deadline, f"waiting for {kind.__name__.upper()}"):
                raise RunError(f"{self._address} sent no {kind.__name__.upper()} in {timeout_s:g} s")
        answer = self._answers.popleft()
        if not isinstance(answer, kind) or getattr(answer, "packet_id", None) != packet_id:
            raise RunError(f"{self._address} sent {answer}, not the {kind.__name__.upper()} of packet {packet_id}")
        if getattr(answer, "reason_code", 0) >= FIRST_FAILURE:
            raise RunError(f"{self._address} refused: {answer}")
        return answer

    def _read(self, deadline: float, action: str) -> bool:
        """Takes in what arrives next; False when nothing did before the deadline."""
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return False
        with self._explained(action):
            try:
                data = read_some(self._stream, _READ_BYTES, deadline)
            except TimeoutError:
                return False
            self.read_ns = time.monotonic_ns()
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            packets = self._parser.feed(data)
        replies = [reply for packet in packets if (reply := self._take(packet)) is not None]
        if replies:
            self._send(*replies)
        return True

    def _take(self, packet: Packet) -> Packet | None:
        """What it is answered with, if with anything."""
        match packet:
            case Publish(qos=0):
                self._messages.append(packet)
            case Publish(qos=1, packet_id=int(packet_id)):
                self._messages.append(packet)
                return PubAck(packet_id)
            case Publish(packet_id=int(packet_id)):
                if packet_id not in self._received_ids:
                    self._received_ids.add(packet_id)
                    self._messages.append(packet)
                return PubRec(packet_id)
            case PubRel(packet_id):
                self._received_ids.discard(packet_id)
                return PubComp(packet_id)
            case _:
                self._answers.append(packet)
        return None

    def _send(self, *packets: Packet) -> None:
        with self._explained(f"sending {type(packets[0]).__name__.upper()}"):
            data = b"".join(packet.encode(self._level) for packet in packets)
            send_all(self._stream, data, time.monotonic() + _SEND_S)

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            yield
        except RefusedError as problem:
            raise NotAdmittedError(f"{self._address}: {problem}") from problem
        except (OSError, UnicodeError, MalformedPacketError) as problem:  # a UnicodeError: of a name that is no host's
            raise RunError(f"{self._address}: {action} failed: {problem}") from problem
