"""The properties of MQTT 5.0 (section 2.2.2) as values, and their bytes.

    ((RECEIVE_MAXIMUM, 20), (USER_PROPERTY, ("name", "value")))

A property stands in its block by its identifier; the identifier says how its value is written.
"""

from collections.abc import Callable
from typing import Protocol

Value = int | bytes | str | tuple[str, str]
Properties = tuple[tuple[int, Value], ...]

MESSAGE_EXPIRY = 0x02
RESPONSE_TOPIC = 0x08
CORRELATION_DATA = 0x09
SUBSCRIPTION_IDENTIFIER = 0x0B
SESSION_EXPIRY = 0x11
ASSIGNED_CLIENT_ID = 0x12
SERVER_KEEP_ALIVE = 0x13
WILL_DELAY = 0x18
REASON_STRING = 0x1F
RECEIVE_MAXIMUM = 0x21
TOPIC_ALIAS_MAXIMUM = 0x22
TOPIC_ALIAS = 0x23
MAXIMUM_QOS = 0x24
USER_PROPERTY = 0x26
MAXIMUM_PACKET_SIZE = 0x27

_BYTE, _TWO, _FOUR, _VARIABLE, _TEXT, _BLOB, _PAIR = range(7)

# Section 2.2.2.2: identifier -> how its value is written.
_KINDS = {
    0x01: _BYTE, 0x02: _FOUR, 0x03: _TEXT, 0x08: _TEXT, 0x09: _BLOB, 0x0B: _VARIABLE, 0x11: _FOUR, 0x12: _TEXT,
    0x13: _TWO, 0x15: _TEXT, 0x16: _BLOB, 0x17: _BYTE, 0x18: _FOUR, 0x19: _BYTE, 0x1A: _TEXT, 0x1C: _TEXT,
    0x1F: _TEXT, 0x21: _TWO, 0x22: _TWO, 0x23: _TWO, 0x24: _BYTE, 0x25: _BYTE, 0x26: _PAIR, 0x27: _FOUR,
    0x28: _BYTE, 0x29: _BYTE, 0x2A: _BYTE,
}  # fmt: skip
_WIDTH = {_BYTE: 1, _TWO: 2, _FOUR: 4}
_REPEATABLE = (0x0B, USER_PROPERTY)

NAMES = {
    SESSION_EXPIRY: "session expiry",
    ASSIGNED_CLIENT_ID: "assigned client id",
    SERVER_KEEP_ALIVE: "server keep alive",
    REASON_STRING: "reason",
    RECEIVE_MAXIMUM: "receive maximum",
    TOPIC_ALIAS_MAXIMUM: "topic alias maximum",
    MAXIMUM_QOS: "maximum QoS",
    MAXIMUM_PACKET_SIZE: "maximum packet size",
}


class Fields(Protocol):
    """What reads a block: the fields of its bytes from left to right."""

    def take(self, size: int) -> bytes: ...
    def blob(self) -> bytes: ...
    def text(self) -> str: ...
    def variable(self) -> int: ...
    def has_more(self) -> bool: ...


def encode_properties(properties: Properties, encode_length: Callable[[int], bytes]) -> bytes:
    """The block without its length."""
    return b"".join(_encode(identifier, value, encode_length) for identifier, value in properties)


def _encode(identifier: int, value: Value, encode_length: Callable[[int], bytes]) -> bytes:
    head = bytes((identifier,))
    match _KINDS[identifier], value:
        case (kind, int(number)) if kind in _WIDTH:
            return head + number.to_bytes(_WIDTH[kind], "big")
        case (kind, int(number)) if kind == _VARIABLE:
            return head + encode_length(number)
        case (kind, str(text)) if kind == _TEXT:
            return head + _blob(text.encode())
        case (kind, bytes(data)) if kind == _BLOB:
            return head + _blob(data)
        case (kind, (str(name), str(text))) if kind == _PAIR:
            return head + _blob(name.encode()) + _blob(text.encode())
    raise ValueError(f"the property {identifier:#04x} cannot be {value!r}")


def _blob(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def read_properties(fields: Fields, fail: Callable[[str], Exception]) -> Properties:
    """All properties of a block; `fail` makes the error that is raised where they are not MQTT 5.0."""
    found: list[tuple[int, Value]] = []
    seen: set[int] = set()
    while fields.has_more():
        identifier = fields.take(1)[0]
        if identifier not in _KINDS:
            raise fail(f"there is no property {identifier:#04x}")
        if identifier in seen and identifier not in _REPEATABLE:
            raise fail(f"the property {identifier:#04x} is there twice")
        seen.add(identifier)
        found.append((identifier, _read(_KINDS[identifier], fields)))
    return tuple(found)


def _read(kind: int, fields: Fields) -> Value:
    if kind in _WIDTH:
        return int.from_bytes(fields.take(_WIDTH[kind]), "big")
    if kind == _VARIABLE:
        return fields.variable()
    if kind == _BLOB:
        return fields.blob()
    if kind == _PAIR:
        return fields.text(), fields.text()
    return fields.text()


def number_of(properties: Properties, identifier: int) -> int | None:
    """The value of a property that is a number; None where it is not there."""
    return next((value for found, value in properties if found == identifier and isinstance(value, int)), None)


def described(properties: Properties) -> str:
    """The properties in words, for logs: "receive maximum 20, maximum QoS 1"."""
    return ", ".join(f"{NAMES.get(number, f'property {number:#04x}')} {value!r}" for number, value in properties)
