"""From a stream of bytes, cut anywhere, to the control packets of one version of MQTT.

Every rule of the standard that one packet alone can break is checked, and the reason is said.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from brokerlab.load.packets import (
    FIRST_FAILURE,
    PROTOCOL_LEVEL,
    PROTOCOL_NAMES,
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
from brokerlab.load.properties import Properties, read_properties


@dataclass(slots=True)
class _Body:
    """Reads the fields of one packet's body from left to right."""

    data: bytes
    level: int
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

    def variable(self) -> int:
        if (decoded := decode_length(self.data, self.at)) is None:
            raise MalformedPacketError("the packet ends within a number")
        number, self.at = decoded
        return number

    def properties(self) -> Properties:
        """The block of properties that stands here; before MQTT 5.0 there is none."""
        if self.level < 5:
            return ()
        return read_properties(_Body(self.take(self.variable()), self.level), MalformedPacketError)

    def reason(self) -> tuple[int, Properties]:
        """Reason code and properties, both of which may be left out (MQTT 5.0 section 3.4.2)."""
        code = self.byte() if self.level == 5 and self.has_more() else 0
        return code, self.properties() if self.has_more() and self.level == 5 else ()

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
    if (name, level) != (PROTOCOL_NAMES[body.level], body.level):
        expected = f"{PROTOCOL_NAMES[body.level]!r} level {body.level}"
        raise MalformedPacketError(f"the protocol is {name!r} level {level}, not {expected}")
    if bits & 0x01:
        raise MalformedPacketError("the reserved CONNECT flag is set")
    if not bits & 0x04 and bits & 0x38:
        raise MalformedPacketError("will QoS or will retain is set without a will")
    if bits & 0x40 and not bits & 0x80 and level < 5:
        raise MalformedPacketError("a password is given without a user name")
    keep_alive_s, properties, client_id = body.uint16(), body.properties(), body.text()
    will = _read_will(bits, body) if bits & 0x04 else None
    username = body.text() if bits & 0x80 else None
    password = body.blob() if bits & 0x40 else None
    return Connect(client_id, keep_alive_s, bool(bits & 0x02), will, username, password, properties)


def _read_will(bits: int, body: _Body) -> Will:
    properties, topic, payload = body.properties(), body.text(), body.blob()
    return Will(topic, payload, _qos(bits >> 3 & 3), bool(bits & 0x20), properties)


def _read_connack(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 0)
    acknowledge, return_code = body.byte(), body.byte()
    if acknowledge > 1:
        raise MalformedPacketError("a reserved bit of the CONNACK is set")
    # A broker that does not know MQTT 5.0 refuses in the form of 3.1.1, without properties.
    return ConnAck(return_code, bool(acknowledge), body.properties() if body.has_more() or not return_code else ())


def _read_publish(flags: int, body: _Body) -> Packet:
    qos, dup, retain = _qos(flags >> 1 & 3), bool(flags & 8), bool(flags & 1)
    if dup and not qos:
        raise MalformedPacketError("DUP is set at QoS 0")  # section 3.3.1.1
    topic = body.text()
    if "+" in topic or "#" in topic or (not topic and body.level < 5):  # MQTT 5.0: an alias may stand for it
        raise MalformedPacketError(f"{topic!r} is not a topic name")
    packet_id = body.packet_id() if qos else None
    properties = body.properties()
    return Publish(topic, body.rest(), qos, packet_id, dup, retain, properties)


def _read_id(make: Callable[[int, int, Properties], Packet], expected_flags: int) -> Callable[[int, _Body], Packet]:
    """A reader of the packets that are nothing but a packet id, and in MQTT 5.0 a reason."""

    def read(flags: int, body: _Body) -> Packet:
        _require_flags(flags, expected_flags)
        return make(body.packet_id(), *body.reason())

    return read


def _read_subscribe(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 2)
    packet_id, properties, filters = body.packet_id(), body.properties(), []
    while body.has_more():
        filters.append((body.text(), _subscription_options(body.byte(), body.level)))
    if not filters:
        raise MalformedPacketError("SUBSCRIBE without a topic filter")
    return Subscribe(packet_id, tuple(filters), properties)


def _subscription_options(options: int, level: int) -> int:
    """A QoS, and in MQTT 5.0 (section 3.8.3.1) no local, retain as published and retain handling above it."""
    if level < 5:
        return _qos(options)
    _qos(options & 3)
    if options & 0xC0 or options & 0x30 == 0x30:
        raise MalformedPacketError(f"there are no subscription options {options:#04x}")
    return options


def _read_suback(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 0)
    packet_id, properties, return_codes = body.packet_id(), body.properties(), tuple(body.rest())
    for code in return_codes:
        if code not in (0, 1, 2, 0x80) and (body.level < 5 or code < FIRST_FAILURE):
            raise MalformedPacketError(f"there is no SUBACK return code {code:#04x}")
    return SubAck(packet_id, return_codes, properties)


def _read_unsubscribe(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 2)
    packet_id, properties, filters = body.packet_id(), body.properties(), []
    while body.has_more():
        filters.append(body.text())
    if not filters:
        raise MalformedPacketError("UNSUBSCRIBE without a topic filter")
    return Unsubscribe(packet_id, tuple(filters), properties)


def _read_unsuback(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 0)
    packet_id, properties = body.packet_id(), body.properties()
    return UnsubAck(packet_id, tuple(body.rest()) if body.level == 5 else (), properties)


def _read_disconnect(flags: int, body: _Body) -> Packet:
    _require_flags(flags, 0)
    return Disconnect(*body.reason())


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
    11: _read_unsuback,
    12: _read_empty(PingReq),
    13: _read_empty(PingResp),
    14: _read_disconnect,
}


@dataclass(slots=True)
class Parser:
    """Turns a stream of bytes, cut anywhere, into packets; after malformed bytes it takes nothing more."""

    level: int = PROTOCOL_LEVEL
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
        body = _Body(bytes(self._buffer[begin : begin + length]), self.level)
        packet = read(self._buffer[start] & 0x0F, body)
        body.finish()
        return packet, begin + length
