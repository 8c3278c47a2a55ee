"""From a stream of bytes, cut anywhere, to the control packets of MQTT 3.1.1.

Every rule of the standard that one packet alone can break is checked, and the reason is said.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from brokerlab.load.packets import (
    PROTOCOL_LEVEL,
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
    Will,
    decode_length,
)


@dataclass(slots=True)
class _Body:
    """Reads the fields of one packet's body from left to right."""

    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise MalformedPacketError(f"the packet ends {end - len(self.data)} bytes too early")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def uint16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def blob(self) -> bytes:
        return self.take(self.uint16())

    def text(self) -> str:
        try:
            text = self.blob().decode()
        except UnicodeDecodeError as problem:
            raise MalformedPacketError(f"a string is not UTF-8: {problem.reason}") from problem
        if "\0" in text:
            raise MalformedPacketError("a string holds the character U+0000")
        return text

    def packet_id(self) -> int:
        if not (number := self.uint16()):
            raise MalformedPacketError("the packet id is 0")
        return number

    def has_more(self) -> bool:
        return self.at < len(self.data)

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def finish(self) -> None:
        if self.has_more():
            raise MalformedPacketError(f"{len(self.data) - self.at} bytes follow the end of the packet")


def _qos(number: int) -> int:
    if number > 2:
        raise MalformedPacketError(f"there is no QoS {number}")
    return number


def _require_flags(flags: int, expected: int) -> None:
    if flags != expected:
        raise MalformedPacketError(f"the flags of the fixed header are {flags:#06b}, not {expected:#06b}")


def _read_connect(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 0)
    name, level, bits = body.text(), body.byte(), body.byte()
    if (name, level) != ("MQTT", PROTOCOL_LEVEL):
        raise MalformedPacketError(f"the protocol is {name!r} level {level}, not 'MQTT' level {PROTOCOL_LEVEL}")
    if bits & 0x01:
        raise MalformedPacketError("the reserved CONNECT flag is set")
    if not bits & 0x04 and bits & 0x38:
        raise MalformedPacketError("will QoS or will retain is set without a will")
    if bits & 0x40 and not bits & 0x80:
        raise MalformedPacketError("a password is given without a user name")
    keep_alive_s, client_id = body.uint16(), body.text()
    will = Will(body.text(), body.blob(), _qos(bits >> 3 & 3), bool(bits & 0x20)) if bits & 0x04 else None
    username = body.text() if bits & 0x80 else None
    password = body.blob() if bits & 0x40 else None
    return Connect(client_id, keep_alive_s, bool(bits & 0x02), will, username, password)


def _read_connack(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 0)
    acknowledge, return_code = body.byte(), body.byte()
    if acknowledge > 1:
        raise MalformedPacketError("a reserved bit of the CONNACK is set")
    return ConnAck(return_code, bool(acknowledge))


def _read_publish(flags: int, body: _Body) -> Packet:
    qos, dup, retain = _qos(flags >> 1 & 3), bool(flags & 8), bool(flags & 1)
    if dup and not qos:
        raise MalformedPacketError("DUP is set at QoS 0")  # section 3.3.1.1
    topic = body.text()
    if not topic or "+" in topic or "#" in topic:
        raise MalformedPacketError(f"{topic!r} is not a topic name")
    packet_id = body.packet_id() if qos else None
    return Publish(topic, body.rest(), qos, packet_id, dup, retain)


def _read_id(make: Callable[[int], Packet], expected_flags: int) -> Callable[[int, _Body], Packet]:
    """A reader of the packets that are nothing but a packet id."""

    def read(flags: int, body: _Body) -> Packet:
        _require_flags(flags, expected_flags)
        return make(body.packet_id())

    return read


def _read_subscribe(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 2)
    packet_id, filters = body.packet_id(), []
    while body.has_more():
        filters.append((body.text(), _qos(body.byte())))
    if not filters:
        raise MalformedPacketError("SUBSCRIBE without a topic filter")
    return Subscribe(packet_id, tuple(filters))


def _read_suback(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 0)
    packet_id, return_codes = body.packet_id(), tuple(body.rest())
    for code in return_codes:
        if code not in (0, 1, 2, 0x80):
            raise MalformedPacketError(f"there is no SUBACK return code {code:#04x}")
    return SubAck(packet_id, return_codes)


def _read_unsubscribe(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 2)
    packet_id, filters = body.packet_id(), []
    while body.has_more():
        filters.append(body.text())
    if not filters:
        raise MalformedPacketError("UNSUBSCRIBE without a topic filter")
    return Unsubscribe(packet_id, tuple(filters))


def _read_empty(make: Callable[[], Packet]) -> Callable[[int, _Body], Packet]:
    def read(flags: int, _: _Body) -> Packet:
        _require_flags(flags, 0)
        return make()

    return read


_READERS: dict[int, Callable[[int, _Body], Packet]] = {
    1: _read_connect,
    2: _read_connack,
    3: _read_publish,
    4: _read_id(PubAck, 0),
    5: _read_id(PubRec, 0),
    6: _read_id(PubRel, 2),
    7: _read_id(PubComp, 0),
    8: _read_subscribe,
    9: _read_suback,
    10: _read_unsubscribe,
    11: _read_id(UnsubAck, 0),
    12: _read_empty(PingReq),
    13: _read_empty(PingResp),
    14: _read_empty(Disconnect),
}


@dataclass(slots=True)
class Parser:
    """Turns a stream of bytes, cut anywhere, into packets; after malformed bytes it takes nothing more."""

    _buffer: bytearray = field(default_factory=bytearray)
    _failure: str = ""

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that are complete with these bytes; MalformedPacketError says why there are none."""
        if self._failure:
            raise MalformedPacketError(self._failure)
        self._buffer += data
        packets: list[Packet] = []
        at = 0
        try:
            while (found := self._read(at)) is not None:
                packet, at = found
                packets.append(packet)
        except MalformedPacketError as problem:
            self._failure = str(problem)
            raise MalformedPacketError(self._failure, tuple(packets)) from problem
        del self._buffer[:at]
        return packets

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an incomplete packet wait for the rest."""
        return len(self._buffer)

    def _read(self, start: int) -> tuple[Packet, int] | None:
        if start >= len(self._buffer):
            return None
        read = _READERS.get(self._buffer[start] >> 4)
        if read is None:
            raise MalformedPacketError(f"there is no packet type {self._buffer[start] >> 4}")
        if (decoded := decode_length(self._buffer, start + 1)) is None:
            return None
        length, begin = decoded
        if begin + length > len(self._buffer):
            return None
        body = _Body(bytes(self._buffer[begin : begin + length]))
        packet = read(self._buffer[start] & 0x0F, body)
        body.finish()
        return packet, begin + length
