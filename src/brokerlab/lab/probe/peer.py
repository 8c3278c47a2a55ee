"""One connection to the broker under probe: it can send any bytes, and every packet is recorded as it is seen.

Messages are acknowledged at once unless the check wants to do that itself. Every wait has a deadline.
"""

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event
from typing import TypeVar

from brokerlab.lab.probe.values import Broken, Undecided, require
from brokerlab.lab.probe.words import words
from brokerlab.load.packets import (
    FIRST_FAILURE,
    ConnAck,
    Connect,
    Disconnect,
    MalformedPacketError,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)
from brokerlab.load.parser import Parser
from brokerlab.load.properties import Properties

_LOOK_S = 0.2  # between two looks whether the user wants to stop
_GOODBYE_S = 1.0  # a broker closes after DISCONNECT, section 3.14.4; nobody is blamed for being slow at it
_AT_ONCE = 1 << 18

_Answer = TypeVar("_Answer", bound=Packet)


@dataclass(slots=True)
class Limits:
    """How long a check may wait, and who may end it."""

    patience_s: float  # for one answer
    ends_s: float  # on the monotonic clock, the check as a whole
    stop: Event

    def until(self, within_s: float | None) -> float:
        return min(self.ends_s, time.monotonic() + (self.patience_s if within_s is None else within_s))

    def require_time(self) -> None:
        if self.stop.is_set():
            raise Undecided("it was stopped")
        if time.monotonic() >= self.ends_s:
            raise Undecided("the check took too long")


class Peer:
    """A connection; the room opens and closes it."""

    def __init__(
        self, sock: socket.socket, *, name: str, level: int, base: str, limits: Limits, record: Callable[[str], None]
    ) -> None:
        self._socket, self._name, self._level, self._base = sock, name, level, base
        self._limits, self._record = limits, record
        self._parser = Parser(level)
        self._last_id = 0
        self._taken: set[int] = set()  # QoS 2 messages between PUBLISH and PUBREL
        self.user: str | None = None  # with whom every CONNECT gets in
        self.password: bytes | None = None
        self.acknowledges = True
        self.takes_strays = False  # messages of topics that are none of this check's
        self.is_closed = False
        self.connack = ConnAck()
        self.messages: list[Publish] = []
        self.answers: deque[Packet] = deque()

    def next_id(self) -> int:
        self._last_id = self._last_id % 0xFFFF + 1
        return self._last_id

    def send(self, *packets: Packet) -> None:
        """Sends packets in one piece."""
        for packet in packets:
            self._record(f"{self._name}> {words(packet, self._base)}")
        self._send(b"".join(self._named(packet).encode(self._level) for packet in packets))

    def _named(self, packet: Packet) -> Packet:
        return replace(packet, username=self.user, password=self.password) if isinstance(packet, Connect) else packet

    def send_bytes(self, data: bytes) -> None:
        """Sends what need not be MQTT."""
        shown = data.hex(" ") if len(data) <= 48 else f"{data[:48].hex(' ')} … {len(data)} B"
        self._record(f"{self._name}> [{shown}]")
        self._send(data)

    def answer(self, kind: type[_Answer], *, packet_id: int | None = None) -> _Answer:
        """The next packet that is no message, which must be of this kind and for this packet id."""
        name = kind.__name__.upper()
        if not self._read_until(lambda: bool(self.answers)):
            raise Broken(f"no {name} came in {self._limits.patience_s:g} s")
        if not self.answers:
            raise Broken(f"the broker closed the connection where {name} was due")
        found = self.answers.popleft()
        wanted = name if packet_id is None else f"{name} #{packet_id}"
        if not isinstance(found, kind) or (packet_id is not None and getattr(found, "packet_id", None) != packet_id):
            raise Broken(f"{words(found, self._base)} came where {wanted} was due")
        return found

    def received_answer(self, *, within_s: float | None = None) -> bool:
        """Whether a packet that is no message is here, or comes in time."""
        self._read_until(lambda: bool(self.answers), within_s)
        return bool(self.answers)

    def received(self, count: int = 1, *, within_s: float | None = None) -> list[Publish]:
        """All messages so far, as soon as there are `count` of them; fewer when no more came in time."""
        self._read_until(lambda: len(self.messages) >= count, within_s)
        return list(self.messages)

    def one(self) -> Publish:
        """The first message."""
        found = self.received(1)
        if not found:
            raise Broken(f"no message came to {self._name}" + (", the connection was closed" if self.is_closed else ""))
        return found[0]

    def listen(self, seconds: float) -> None:
        """Takes in whatever comes for so long."""
        self._read_until(lambda: False, seconds)

    def is_ended(self, *, within_s: float | None = None) -> bool:
        """Whether the broker has closed the connection, or does in time."""
        self._read_until(lambda: False, within_s)
        return self.is_closed

    def subscribe(self, topic_filter: str, qos: int, *, properties: Properties = ()) -> int:
        """The code of the SUBACK; Broken when it is a refusal."""
        code = self.ask(topic_filter, qos, properties=properties)
        require(code < FIRST_FAILURE, f"the subscription was refused with {code:#04x}")
        return code

    def ask(self, topic_filter: str, qos: int, *, properties: Properties = ()) -> int:
        """The code of the SUBACK, whatever it is."""
        packet_id = self.next_id()
        self.send(Subscribe(packet_id, ((topic_filter, qos),), properties))
        codes = self.answer(SubAck, packet_id=packet_id).return_codes
        require(len(codes) == 1, f"one filter was answered with {len(codes)} codes")
        return codes[0]

    def unsubscribe(self, topic_filter: str) -> UnsubAck:
        packet_id = self.next_id()
        self.send(Unsubscribe(packet_id, (topic_filter,)))
        return self.answer(UnsubAck, packet_id=packet_id)

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        properties: Properties = (),
    ) -> int:
        """Sends one message with its whole handshake; the reason code of the first answer."""
        packet_id = self.next_id() if qos else None
        self.send(Publish(topic, payload, qos, packet_id, dup, retain, properties))
        if packet_id is None:
            return 0
        if qos == 1:
            return self.answer(PubAck, packet_id=packet_id).reason_code
        code = self.answer(PubRec, packet_id=packet_id).reason_code
        if code < FIRST_FAILURE:
            self.send(PubRel(packet_id))
            self.answer(PubComp, packet_id=packet_id)
        return code

    def ping(self) -> None:
        self.send(PingReq())
        self.answer(PingResp)

    def disconnect(self, reason_code: int = 0) -> None:
        """Says goodbye and gives the broker time to close first, so that what follows does not race with it."""
        self.send(Disconnect(reason_code))
        self.is_ended(within_s=_GOODBYE_S)
        self.close()

    def abort(self) -> None:
        """Ends the connection without a DISCONNECT."""
        self._record(f"{self._name}> closes without DISCONNECT")
        self.close()

    def close(self) -> None:
        self._socket.close()
        self.is_closed = True

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        deadline = self._limits.until(max(self._limits.patience_s, len(data) / 1e6))
        while view and not self.is_closed:
            self._limits.require_time()
            if time.monotonic() > deadline:
                raise Undecided("the broker stopped reading")
            try:
                if select.select([], [self._socket], [], _LOOK_S)[1]:
                    view = view[self._socket.send(view[:_AT_ONCE]) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                continue
            except OSError as problem:
                self._ended(problem.strerror or str(problem))

    def _read_until(self, is_enough: Callable[[], bool], within_s: float | None = None) -> bool:
        """Takes in packets; True when it is enough or the connection ended, False when the time was over."""
        deadline = self._limits.until(within_s)
        while not is_enough() and not self.is_closed:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                self._limits.require_time()
                return False
            if select.select([self._socket], [], [], min(left_s, _LOOK_S))[0]:
                self._read()
            elif self._limits.stop.is_set():
                self._limits.require_time()
        return True

    def _read(self) -> None:
        try:
            data = self._socket.recv(_AT_ONCE)
            while isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():  # select does not see these
                data += self._socket.recv(_AT_ONCE)
        except ssl.SSLWantReadError:
            return  # half a record
        except OSError as problem:
            self._ended(problem.strerror or str(problem))
            return
        if not data:
            self._ended("")
            return
        try:
            packets = self._parser.feed(data)
        except MalformedPacketError as problem:
            for packet in problem.before:
                self._take(packet)
            self._record(f"{self._name}< [{data[:48].hex(' ')}]")
            raise Broken(f"the broker sent what is not MQTT: {problem}") from problem
        for packet in packets:
            self._take(packet)

    def _ended(self, why: str) -> None:
        self._record(f"{self._name}< closed" + (f" ({why})" if why else ""))
        self.close()

    def _take(self, packet: Packet) -> None:
        self._record(f"{self._name}< {words(packet, self._base)}")
        match packet:
            case Publish(packet_id=packet_id):
                if (packet_id not in self._taken or packet.qos < 2) and self._is_own(packet.topic):
                    self.messages.append(packet)
                if self.acknowledges and packet_id is not None:
                    self._acknowledge(packet, packet_id)
            case PubRel(packet_id) if self.acknowledges:
                self._taken.discard(packet_id)
                self.send(PubComp(packet_id))
            case _:
                self.answers.append(packet)

    def _is_own(self, topic: str) -> bool:
        """Whether the check asked for it; `subscribe.stray` looks at what comes unasked."""
        return self.takes_strays or not topic or self._base in topic

    def _acknowledge(self, message: Publish, packet_id: int) -> None:
        if message.qos == 2:
            self._taken.add(packet_id)
        with contextlib.suppress(Undecided):  # a message in its last moment is a message
            self.send(PubRec(packet_id) if message.qos == 2 else PubAck(packet_id))
