"""The control packets of MQTT 3.1.1 as values, and their bytes: plain, pure and slow.

Small clients and our scripted broker speak through this module, and it is the reference that
the fast wire is tested against. Section numbers are those of the OASIS standard of 2014.

    packet.encode()       value -> bytes
    Parser().feed(bytes)  bytes, cut anywhere -> values   (parser.py)
"""

from dataclasses import dataclass
from typing import Protocol

MAX_REMAINING_BYTES = 268_435_455  # four bytes of seven bits each, section 2.2.3
PROTOCOL_LEVEL = 4  # 3.1.1

CONNACK_REASONS = {
    1: "unacceptable protocol version",
    2: "identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorized",
}


class Packet(Protocol):
    """Any control packet below."""

    def encode(self) -> bytes: ...


class MalformedPacketError(ValueError):
    """The bytes are not MQTT 3.1.1; `before` holds the packets of the same feed that came whole before them."""

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


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True)
class Connect:
    client_id: str
    keep_alive_s: int = 0  # 0 turns the keep-alive off
    clean_session: bool = True
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None

    def encode(self) -> bytes:
        flags = self.clean_session << 1 | (self.username is not None) << 7 | (self.password is not None) << 6
        fields = _text(self.client_id)
        if self.will is not None:
            flags |= 0x04 | self.will.qos << 3 | self.will.retain << 5
            fields += _text(self.will.topic) + _blob(self.will.payload)
        if self.username is not None:
            fields += _text(self.username)
        if self.password is not None:
            fields += _blob(self.password)
        head = _text("MQTT") + bytes((PROTOCOL_LEVEL, flags)) + _uint16(self.keep_alive_s)
        return _packet(1, 0, head + fields)


@dataclass(frozen=True, slots=True)
class ConnAck:
    return_code: int = 0
    session_present: bool = False

    def encode(self) -> bytes:
        return _packet(2, 0, bytes((self.session_present, self.return_code)))


@dataclass(frozen=True, slots=True)
class Publish:
    topic: str
    payload: bytes = b""
    qos: int = 0
    packet_id: int | None = None  # None at QoS 0 and only there
    dup: bool = False
    retain: bool = False

    def encode(self) -> bytes:
        if (self.packet_id is None) != (self.qos == 0):
            raise ValueError(f"a PUBLISH at QoS {self.qos} cannot have the packet id {self.packet_id}")
        packet_id = b"" if self.packet_id is None else _uint16(self.packet_id)
        flags = self.dup << 3 | self.qos << 1 | self.retain
        return _packet(3, flags, _text(self.topic) + packet_id + self.payload)


@dataclass(frozen=True, slots=True)
class PubAck:
    packet_id: int

    def encode(self) -> bytes:
        return _packet(4, 0, _uint16(self.packet_id))


@dataclass(frozen=True, slots=True)
class PubRec:
    packet_id: int

    def encode(self) -> bytes:
        return _packet(5, 0, _uint16(self.packet_id))


@dataclass(frozen=True, slots=True)
class PubRel:
    packet_id: int

    def encode(self) -> bytes:
        return _packet(6, 2, _uint16(self.packet_id))


@dataclass(frozen=True, slots=True)
class PubComp:
    packet_id: int

    def encode(self) -> bytes:
        return _packet(7, 0, _uint16(self.packet_id))


@dataclass(frozen=True, slots=True)
class Subscribe:
    packet_id: int
    filters: tuple[tuple[str, int], ...]  # (topic filter, QoS asked for)

    def encode(self) -> bytes:
        filters = b"".join(_text(name) + bytes((qos,)) for name, qos in self.filters)
        return _packet(8, 2, _uint16(self.packet_id) + filters)


@dataclass(frozen=True, slots=True)
class SubAck:
    packet_id: int
    return_codes: tuple[int, ...]  # the QoS granted, or 0x80 for a refusal

    def encode(self) -> bytes:
        return _packet(9, 0, _uint16(self.packet_id) + bytes(self.return_codes))


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    packet_id: int
    filters: tuple[str, ...]

    def encode(self) -> bytes:
        return _packet(10, 2, _uint16(self.packet_id) + b"".join(_text(name) for name in self.filters))


@dataclass(frozen=True, slots=True)
class UnsubAck:
    packet_id: int

    def encode(self) -> bytes:
        return _packet(11, 0, _uint16(self.packet_id))


@dataclass(frozen=True, slots=True)
class PingReq:
    def encode(self) -> bytes:
        return _packet(12, 0, b"")


@dataclass(frozen=True, slots=True)
class PingResp:
    def encode(self) -> bytes:
        return _packet(13, 0, b"")


@dataclass(frozen=True, slots=True)
class Disconnect:
    def encode(self) -> bytes:
        return _packet(14, 0, b"")
