"""What a workload asks of MQTT 5.0, as the properties of our packets (study/mqtt5.py has the keys).

The correlation data of a request stands last in its block, so that it can be filled in just before the payload.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerlab.load.packets import encode_length
from brokerlab.load.pieces import Block
from brokerlab.load.properties import (
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    RECEIVE_MAXIMUM,
    RESPONSE_TOPIC,
    SESSION_EXPIRY,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    USER_PROPERTY,
    Properties,
    encode_properties,
)
from brokerlab.load.spec import Client
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.topics import expand
from brokerlab.study.values import Workload

Longs = NDArray[np.int64]

_SESSION_EXPIRY_S = 3600  # longer than a will may be delayed

CORRELATION_BYTES = 8  # the sequence number of a request, little endian
ALIAS = 1  # a publisher has one topic, so one alias


def connect_properties(mqtt5: Mqtt5, *, keeps_session: bool) -> Properties:
    """Those of CONNECT; a session that shall outlast its connection has an expiry, the study's or a long one."""
    found: Properties = ()
    expiry_s = _SESSION_EXPIRY_S if keeps_session and mqtt5.session_expiry_s is None else mqtt5.session_expiry_s
    if expiry_s is not None:
        found += ((SESSION_EXPIRY, expiry_s),)
    if mqtt5.receive_maximum is not None:
        found += ((RECEIVE_MAXIMUM, mqtt5.receive_maximum),)
    return found


def subscribe_properties(mqtt5: Mqtt5, client: Client) -> Properties:
    return ((SUBSCRIPTION_IDENTIFIER, client.number + 1),) if mqtt5.subscription_identifiers else ()


def publish_properties(client: Client, workload: Workload) -> bytes:
    """The block of every message of a publisher, without its length; correlation data are zero."""
    mqtt5 = workload.mqtt5
    properties: Properties = ()
    if mqtt5.expiry_s is not None:
        properties += ((MESSAGE_EXPIRY, mqtt5.expiry_s),)
    if mqtt5.topic_alias:
        properties += ((TOPIC_ALIAS, ALIAS),)
    properties += tuple((USER_PROPERTY, _pair(number, mqtt5.property_bytes)) for number in range(mqtt5.user_properties))
    if mqtt5.response_topic:
        properties += ((RESPONSE_TOPIC, expand(workload.topics.reply, publisher=client.number)),)
        properties += ((CORRELATION_DATA, bytes(CORRELATION_BYTES)),)
    return encode_properties(properties, encode_length)


class Messages(Protocol):
    """As in messages.py, which uses this module."""

    @property
    def count(self) -> int | None: ...
    @property
    def largest(self) -> int: ...
    @property
    def built_bytes(self) -> int: ...
    def build(self, first_seq: int, intended_ns: Longs) -> Block: ...
    def payload_bytes(self, first_seq: int, count: int) -> int | Longs: ...


class Aliased:
    """Messages whose topic is told once, with its alias, and not again; implements Messages for one connection."""

    def __init__(self, first: Messages, later: Messages) -> None:
        self._first, self._later, self._is_told = first, later, False
        self.count, self.largest, self.built_bytes = first.count, first.largest, first.built_bytes

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        if self._is_told:
            return self._later.build(first_seq, intended_ns)
        self._is_told = True
        told = self._first.build(first_seq, intended_ns[:1])
        return told + self._later.build(first_seq + 1, intended_ns[1:]) if intended_ns.size > 1 else told

    def payload_bytes(self, first_seq: int, count: int) -> int | Longs:
        return self._later.payload_bytes(first_seq, count)


class Requests:
    """Messages whose correlation data, just before the payload, are their sequence number; implements Messages."""

    def __init__(self, inner: Messages) -> None:
        self._inner = inner
        self.count, self.largest, self.built_bytes = inner.count, inner.largest, inner.built_bytes

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        block = self._inner.build(first_seq, intended_ns)
        if any(piece.ends is None and not piece.stride for piece in block):
            return block  # large messages in several pieces: their correlation data stay zero
        seq = first_seq
        for piece in block:
            ends = np.arange(piece.stride, len(piece.data) + 1, piece.stride) if piece.ends is None else piece.ends
            sizes = self._inner.payload_bytes(seq, ends.size)
            data, seqs = np.frombuffer(piece.data, dtype=np.uint8), np.arange(seq, seq + ends.size)
            for k in range(CORRELATION_BYTES):
                data[ends - sizes - CORRELATION_BYTES + k] = (seqs >> (8 * k)) & 0xFF
            seq += ends.size
        return block

    def payload_bytes(self, first_seq: int, count: int) -> int | Longs:
        return self._inner.payload_bytes(first_seq, count)


def _pair(number: int, size_bytes: int) -> tuple[str, str]:
    """A user property of so many bytes, half of them its name."""
    half = size_bytes // 2
    return f"p{number}".ljust(half, "-")[:half], f"value {number} ".ljust(size_bytes - half, ".")[: size_bytes - half]
