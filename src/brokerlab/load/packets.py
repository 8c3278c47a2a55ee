"""The control packets of MQTT 3.1, 3.1.1 and 5.0 as values, and their bytes: plain, pure and slow.

Small clients and our scripted broker speak through this module, and it is the reference that
the fast wire is tested against. Section numbers are those of the OASIS standard of 3.1.1 unless they say 5.0.
A version is named by its protocol level: 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5.0.

    packet.encode(level)       value -> bytes
    Parser(level).feed(bytes)  bytes, cut anywhere -> values   (parser.py)

Reason codes and properties of MQTT 5.0 have no place in the bytes of the older versions and are left out there.
AUTH is not here: nobody in the lab authenticates in several steps.
"""

from dataclasses import dataclass
from typing import Protocol

from brokerlab.load.properties import Properties, encode_properties

MAX_REMAINING_BYTES = 268_435_455  # four bytes of seven bits each, section 2.2.3
LEVELS = {"3.1": 3, "3.1.1": 4, "5.0": 5}  # as a study names the versions
PROTOCOL_LEVEL = LEVELS["3.1.1"]
PROTOCOL_NAMES = {3: "MQIsdp", 4: "MQTT", 5: "MQTT"}
FIRST_FAILURE = 0x80  # MQTT 5.0 section 2.4: reason codes from here on are failures

CONNACK_REASONS = {
    1: "unacceptable protocol version",
    2: "identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorized",
}
# MQTT 5.0 section 2.4, the codes that a server may send in CONNACK, DISCONNECT and acknowledgements
REASONS = {
    0x00: "normal disconnection",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "unsupported protocol version",
    0x85: "client identifier not valid",
    0x86: "bad user name or password",
    0x87: "not authorized",
    0x88: "server unavailable",
    0x89: "server busy",
    0x8A: "banned",
    0x8B: "server shutting down",
    0x8C: "bad authentication method",
    0x8D: "keep alive timeout",
    0x8E: "session taken over",
    0x90: "topic name invalid",
    0x91: "packet identifier in use",
    0x92: "packet identifier not found",
    0x93: "receive maximum exceeded",
    0x94: "topic alias invalid",
    0x95: "packet too large",
    0x96: "message rate too high",
    0x97: "quota exceeded",
    0x98: "administrative action",
    0x99: "payload format invalid",
    0x9A: "retain not supported",
    0x9B: "QoS not supported",
    0x9C: "use another server",
    0x9D: "server moved",
    0x9F: "connection rate exceeded",
}


def connack_reason(level: int, code: int) -> str:
    """Why the broker refused, in words."""
    # A broker that does not know MQTT 5.0 answers with a code of 3.1.1; the codes of 5.0 begin at 0x80.
    known = REASONS if level == 5 and code >= FIRST_FAILURE else CONNACK_REASONS
    return known.get(code, "unknown reason")


class Packet(Protocol):
    """Any control packet below."""

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes: ...


class MalformedPacketError(ValueError):
    """The bytes are not MQTT; `before` holds the packets of the same feed that came whole before them."""

    def __init__(self, reason: str, before: tuple[Packet, ...] = ()) -> None:
        super().__init__(reason)
        self.before = before


def encode_length(length: int) -> bytes:
    """The remaining length of a fixed header, in one to four bytes."""
    if not 0 <= length <= MAX_REMAINING_BYTES:
        raise ValueError(f"a packet cannot be {length} bytes long: MQTT ends at {MAX_REMAINING_BYTES}")
    encoded = bytearray()
    while True:
        length, digit = divmod(length, 128)
        encoded.append(digit | 0x80 if length else digit)
        if not length:
            return bytes(encoded)


def decode_length(data: bytes | bytearray, start: int) -> tuple[int, int] | None:
    """The remaining length that begins at `start` and the place after it; None while it is incomplete."""
    length = 0
    for place in range(4):
        if start + place >= len(data):
            return None
        digit = data[start + place]
        length |= (digit & 0x7F) << (7 * place)
        if not digit & 0x80:
            return length, start + place + 1
    raise MalformedPacketError("the remaining length is longer than four bytes")


def _packet(kind: int, flags: int, body: bytes) -> bytes:
    return bytes((kind << 4 | flags,)) + encode_length(len(body)) + body


def _uint16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _blob(data: bytes) -> bytes:
    return _uint16(len(data)) + data


def _text(text: str) -> bytes:
    return _blob(text.encode())


def _properties(level: int, properties: Properties) -> bytes:
    """The block with its length; before MQTT 5.0 there is none."""
    if level < 5:
        return b""
    block = encode_properties(properties, encode_length)
    return encode_length(len(block)) + block


def _reasoned(level: int, code: int, properties: Properties, *, begin: bytes) -> bytes:
    """A body that may leave out what is usual: no properties, and then success (MQTT 5.0 sections 3.4.2, 3.14.2)."""
    if level < 5 or not (code or properties):
        return begin
    return begin + bytes((code,)) + (_properties(level, properties) if properties else b"")


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Connect:
    client_id: str
    keep_alive_s: int = 0  # 0 turns the keep-alive off
    clean_session: bool = True  # MQTT 5.0 calls it clean start
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        flags = self.clean_session << 1 | (self.username is not None) << 7 | (self.password is not None) << 6
        fields = _text(self.client_id)
        if self.will is not None:
            flags |= 0x04 | self.will.qos << 3 | self.will.retain << 5
            fields += _properties(level, self.will.properties) + _text(self.will.topic) + _blob(self.will.payload)
        if self.username is not None:
            fields += _text(self.username)
        if self.password is not None:
            fields += _blob(self.password)
        head = _text(PROTOCOL_NAMES[level]) + bytes((level, flags)) + _uint16(self.keep_alive_s)
        return _packet(1, 0, head + _properties(level, self.properties) + fields)


@dataclass(frozen=True, slots=True)
class ConnAck:
    return_code: int = 0
    session_present: bool = False
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        return _packet(2, 0, bytes((self.session_present, self.return_code)) + _properties(level, self.properties))


@dataclass(frozen=True, slots=True)
class Publish:
    topic: str
    payload: bytes = b""
    qos: int = 0
    packet_id: int | None = None  # None at QoS 0 and only there
    dup: bool = False
    retain: bool = False
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        if (self.packet_id is None) != (self.qos == 0):
            raise ValueError(f"a PUBLISH at QoS {self.qos} cannot have the packet id {self.packet_id}")
        packet_id = b"" if self.packet_id is None else _uint16(self.packet_id)
        flags = self.dup << 3 | self.qos << 1 | self.retain
        return _packet(3, flags, _text(self.topic) + packet_id + _properties(level, self.properties) + self.payload)


@dataclass(frozen=True, slots=True)
class PubAck:
    packet_id: int
    reason_code: int = 0
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        body = _reasoned(level, self.reason_code, self.properties, begin=_uint16(self.packet_id))
        return _packet(4, 0, body)


@dataclass(frozen=True, slots=True)
class PubRec:
    packet_id: int
    reason_code: int = 0
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        body = _reasoned(level, self.reason_code, self.properties, begin=_uint16(self.packet_id))
        return _packet(5, 0, body)


@dataclass(frozen=True, slots=True)
class PubRel:
    packet_id: int
    reason_code: int = 0
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        body = _reasoned(level, self.reason_code, self.properties, begin=_uint16(self.packet_id))
        return _packet(6, 2, body)


@dataclass(frozen=True, slots=True)
class PubComp:
    packet_id: int
    reason_code: int = 0
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        body = _reasoned(level, self.reason_code, self.properties, begin=_uint16(self.packet_id))
        return _packet(7, 0, body)


@dataclass(frozen=True, slots=True)
class Subscribe:
    packet_id: int
    filters: tuple[tuple[str, int], ...]  # (topic filter, QoS asked for; MQTT 5.0 has options in the bits above it)
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        filters = b"".join(_text(name) + bytes((qos,)) for name, qos in self.filters)
        return _packet(8, 2, _uint16(self.packet_id) + _properties(level, self.properties) + filters)


@dataclass(frozen=True, slots=True)
class SubAck:
    packet_id: int
    return_codes: tuple[int, ...]  # the QoS granted, or a refusal: 0x80, in MQTT 5.0 also above
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        body = _uint16(self.packet_id) + _properties(level, self.properties) + bytes(self.return_codes)
        return _packet(9, 0, body)


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        filters = b"".join(_text(name) for name in self.filters)
        return _packet(10, 2, _uint16(self.packet_id) + _properties(level, self.properties) + filters)


@dataclass(frozen=True, slots=True)
class UnsubAck:
    packet_id: int
    reason_codes: tuple[int, ...] = ()  # one a filter in MQTT 5.0, none before
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        codes = bytes(self.reason_codes) if level == 5 else b""
        return _packet(11, 0, _uint16(self.packet_id) + _properties(level, self.properties) + codes)


@dataclass(frozen=True, slots=True)
class PingReq:
    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:  # noqa: ARG002 - the same in every version
        return _packet(12, 0, b"")


@dataclass(frozen=True, slots=True)
class PingResp:
    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:  # noqa: ARG002 - the same in every version
        return _packet(13, 0, b"")


@dataclass(frozen=True, slots=True)
class Disconnect:
    reason_code: int = 0
    properties: Properties = ()

    def encode(self, level: int = PROTOCOL_LEVEL) -> bytes:
        return _packet(14, 0, _reasoned(level, self.reason_code, self.properties, begin=b""))
