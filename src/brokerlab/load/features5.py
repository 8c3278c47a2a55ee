"""What a workload asks of MQTT 5.0, as the properties of our packets (study/mqtt5.py has the keys).

Metadata and the correlation data of a request stand last in the block, so that they can be filled in at their
distance before the payload.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import shapes
from brokerlab.load.packets import decode_length, encode_length
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
from brokerlab.load.shapes import Name
from brokerlab.load.spec import Client
from brokerlab.load.topics import own_topics
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.seeds import derived_seed
from brokerlab.study.topics import expand
from brokerlab.study.values import Workload

Longs = NDArray[np.int64]

_SESSION_EXPIRY_S = 3600  # longer than a will may be delayed

CORRELATION_BYTES = 8  # the sequence number of a request, little endian

# Paper 004's three user properties, here of fixed length: 64 hexadecimal digits, milliseconds since 1970, a number.
_METADATA = (("unique_message_id", "0" * 64), ("publisher_send_time", "0000000000000.000"), ("order", "0000000000"))


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


def names_of(client: Client, workload: Workload, *, level: int) -> list[Name]:
    """The topics of a publisher, in full, with the properties of its messages; older versions have none."""
    block = publish_properties(client, workload) if level >= 5 else b""
    return [(topic, block) for topic in own_topics(client, workload)]


def aliased(names: Sequence[Name], *, most: int) -> tuple[list[Name], list[Name]]:
    """The same with an alias for so many of the topics: as each is told, and as it is later, by its alias alone."""
    own = [(topic, _alias(number) + block) for number, (topic, block) in enumerate(names[:most], start=1)]
    return [*own, *names[most:]], [*(("", block) for _, block in own), *names[most:]]


def _alias(number: int) -> bytes:
    return encode_properties(((TOPIC_ALIAS, number),), encode_length)


def longest_properties(client: Client, workload: Workload) -> int:
    """Bytes of the properties of any message of a publisher, with their length."""
    size = len(publish_properties(client, workload)) + (len(_alias(1)) if workload.mqtt5.topic_alias else 0)
    return len(encode_length(size)) + size


def publish_properties(client: Client, workload: Workload) -> bytes:
    """The block of every message of a publisher, without its length and an alias; correlation data are zero."""
    mqtt5 = workload.mqtt5
    properties: Properties = ()
    if mqtt5.expiry_s is not None:
        properties += ((MESSAGE_EXPIRY, mqtt5.expiry_s),)
    properties += tuple((USER_PROPERTY, _pair(number, mqtt5.property_bytes)) for number in range(mqtt5.user_properties))
    if mqtt5.metadata:
        properties += tuple((USER_PROPERTY, pair) for pair in _METADATA)
    return encode_properties(properties, encode_length) + _request_properties(client, workload)


def _request_properties(client: Client, workload: Workload) -> bytes:
    """The last of the block; nothing where no answer is asked for."""
    if not workload.mqtt5.response_topic:
        return b""
    topic = expand(workload.topics.reply, publisher=client.number)
    return encode_properties(((RESPONSE_TOPIC, topic), (CORRELATION_DATA, bytes(CORRELATION_BYTES))), encode_length)


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
    """Messages whose topics are told once on a connection, with their aliases, and not again; implements Messages."""

    def __init__(self, first: Messages, later: Messages, *, topics: int) -> None:
        self._first, self._later, self._topics = first, later, topics
        self._told: int | None = None  # from this message on all topics have been told; None: none yet
        self.count, self.largest, self.built_bytes = first.count, first.largest, first.built_bytes

    def forget(self) -> None:
        self._told = None

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        if self._told is None:
            self._told = first_seq + self._topics  # messages take the topics in turn
        telling = min(max(self._told - first_seq, 0), intended_ns.size)
        block = self._first.build(first_seq, intended_ns[:telling]) if telling else ()
        if telling == intended_ns.size:
            return block
        return block + self._later.build(first_seq + telling, intended_ns[telling:])

    def payload_bytes(self, first_seq: int, count: int) -> int | Longs:
        return self._later.payload_bytes(first_seq, count)


def tell_again(messages: Messages) -> None:
    """Has the next message of each topic tell it in full: an alias ends with its connection (section 3.3.2.3.4)."""
    if isinstance(messages, Aliased):
        messages.forget()


class Requests:
    """Messages whose correlation data, just before the payload, are their sequence number; implements Messages."""

    def __init__(self, inner: Messages) -> None:
        self._inner = inner
        self.count, self.largest, self.built_bytes = inner.count, inner.largest, inner.built_bytes

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        block = self._inner.build(first_seq, intended_ns)
        for data, starts, seq in _heads(block, self._inner, first_seq):
            shapes.stamp_request(data, starts, seq)
        return block

    def payload_bytes(self, first_seq: int, count: int) -> int | Longs:
        return self._inner.payload_bytes(first_seq, count)


class Described:
    """Messages with metadata about themselves in user properties; implements Messages.

    The time is the intended one, on the wall clock: the packet is built before it is sent.
    """

    def __init__(self, inner: Messages, client: Client, workload: Workload, *, seed: int, wall_ns: int) -> None:
        self._inner = inner
        self.count, self.largest, self.built_bytes = inner.count, inner.largest, inner.built_bytes
        self._seed = derived_seed(seed, "metadata", client.number)
        self._wall_ns = wall_ns
        back = len(_request_properties(client, workload))
        places: list[int] = []  # from the start of the payload back to that of each value
        for name, value in reversed(_METADATA):
            back += len(value)
            places.insert(0, back)
            back += len(encode_properties(((USER_PROPERTY, (name, "")),), encode_length))
        self._places = tuple(places)

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        block = self._inner.build(first_seq, intended_ns)
        sent_us = (intended_ns + self._wall_ns) // 1000
        for data, starts, seq in _heads(block, self._inner, first_seq):
            own_us = sent_us[seq - first_seq : seq - first_seq + starts.size]
            shapes.stamp_metadata(data, starts, seq, own_us, self._seed, *self._places)
        return block

    def payload_bytes(self, first_seq: int, count: int) -> int | Longs:
        return self._inner.payload_bytes(first_seq, count)


def _heads(
    block: Block, messages: Messages, first_seq: int
) -> Iterator[tuple[NDArray[np.uint8], Longs, int]]:  # fmt: skip
    """The pieces of a block in which packets begin, with where each payload starts, and the first sequence number.

    A large message is in several pieces, and the first has all that stands before its payload.
    """
    is_within = False
    for piece in block:
        is_first, is_within = not is_within, piece.ends is None and not piece.stride
        if not is_first:
            continue
        if is_within:
            ends = np.array([_packet_bytes(piece.data)], dtype=np.int64)
        else:
            ends = np.arange(piece.stride, len(piece.data) + 1, piece.stride) if piece.ends is None else piece.ends
        sizes = messages.payload_bytes(first_seq, ends.size)
        yield np.frombuffer(piece.data, dtype=np.uint8), ends - sizes, first_seq
        first_seq += ends.size


def _packet_bytes(data: memoryview) -> int:
    """How long the packet is that begins here, of which not all is here."""
    length, begin = decode_length(bytes(data[:5]), 1) or (0, 0)
    return begin + length


def completed(messages: Messages, *, client: Client, workload: Workload, seed: int, wall_ns: int) -> Messages:
    """The messages with what is different in the properties of each."""
    if workload.mqtt5.metadata:
        messages = Described(messages, client, workload, seed=seed, wall_ns=wall_ns)
    return Requests(messages) if workload.mqtt5.response_topic else messages


def _pair(number: int, size_bytes: int) -> tuple[str, str]:
    """A user property of so many bytes, half of them its name."""
    half = size_bytes // 2
    return f"p{number}".ljust(half, "-")[:half], f"value {number} ".ljust(size_bytes - half, ".")[: size_bytes - half]
