"""What the null broker plays to a subscriber: messages in blocks, as fast as the connection takes them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from brokerlab.load import nullwalk, wire
from brokerlab.load.messages import ShapedMessages
from brokerlab.load.outbox import Outbox
from brokerlab.load.pieces import Block, Piece
from brokerlab.load.spec import Client
from brokerlab.study.values import Content, Payload, Qos, Workload

WINDOW = 20_000  # messages in flight to one subscriber at QoS 1 and 2
_BLOCK_BYTES = 256 * 1024
_BLOCKS_BYTES = 4 << 20  # of all subscribers together
_TEMPLATES_BYTES = 64 << 20  # likewise: the payloads of messages that would take more are one, which all share


@dataclass(slots=True)
class Count:
    """What the null broker saw."""

    received: int = 0  # messages of publishers, each once
    received_payload_bytes: int = 0
    repeated: int = 0  # QoS 2 messages that came again before their release
    released: int = 0  # PUBRELs
    played: int = 0  # messages handed to subscribers' sockets
    completed: int = 0  # of these at QoS 1 and 2: acknowledged to the end
    unknown: int = 0  # acknowledgements of nothing in flight
    last_played_ns: int = 0  # on the monotonic clock


@dataclass(frozen=True, slots=True)
class Play:
    """When subscribers are played messages, on the monotonic clock, and which."""

    start_ns: int = 0
    end_ns: int = 0
    payload_bytes: int = 64
    template: str | None = None  # of JSON
    mix: tuple[tuple[int, float], ...] = ()  # sizes and their shares, where there are several
    properties: str = ""  # of each message at MQTT 5.0, without their length, in hexadecimal digits

    @property
    def is_shaped(self) -> bool:
        """Whether messages differ in more than a full identity, or have none."""
        return self.template is not None or bool(self.mix) or self.payload_bytes < wire.IDENTITY_BYTES


def play_of(order: dict[str, Any]) -> Play:
    """From JSON, which knows no tuples."""
    mix = tuple((int(size), float(share)) for size, share in order.get("mix", ()))
    return Play(**order | {"mix": mix})


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a subscriber asked for, and what it told of itself before."""

    filter: str
    qos: int
    level: int  # of its protocol
    identifier: bytes = b""  # of the subscription, as a property
    receive_maximum: int | None = None

    @property
    def topic(self) -> str:
        """One that the filter matches."""
        return self.filter.replace("#", "0").replace("+", "0")

    @property
    def window(self) -> int:
        return min(WINDOW, self.receive_maximum or WINDOW)


def rest_of(play: Play, *, players: int) -> memoryview | None:
    """What follows the identity in each payload, where so many players share it; None where each has its own."""
    if play.is_shaped or play.payload_bytes <= min(_BLOCK_BYTES, _TEMPLATES_BYTES // players):
        return None
    return memoryview(bytes(play.payload_bytes - wire.IDENTITY_BYTES))


class _Equal:
    """Messages that differ in their identity alone, and may share what follows it."""

    def __init__(self, asked: Subscription, play: Play, properties: bytes, rest: memoryview | None) -> None:
        self._template, self._id_at, self._payload_at = wire.publish_template(
            asked.topic,
            payload_bytes=play.payload_bytes,
            qos=asked.qos,
            retain=False,
            filler=bytes(0 if rest else max(0, play.payload_bytes - wire.IDENTITY_BYTES)),
            properties=None if asked.level < 5 else properties,
        )
        self._rest = rest
        self.largest = self._template.size + (len(rest) if rest else 0)

    def build(self, first_seq: int, intended_ns: wire.Longs) -> Block:
        """With a rest one message at a time."""
        out = np.empty(intended_ns.size * self._template.size, dtype=np.uint8)
        wire.build_publishes(self._template, self._id_at, self._payload_at, 0, first_seq, intended_ns, out)
        if self._rest is None:
            return (Piece(memoryview(out.data), self._template.size),)
        return Piece(memoryview(out.data)), Piece(self._rest, len(self._rest))


@lru_cache(maxsize=1)
def _shaped(asked: Subscription, play: Play, properties: bytes) -> ShapedMessages:
    """Those who ask for the same share what it is made of."""
    content = Content.RANDOM if play.template is None else Content.JSON
    payload = Payload(content, play.template, mix=play.mix)
    workload = Workload(payload_bytes=play.payload_bytes, payload=payload, qos=Qos(asked.qos))
    return ShapedMessages(
        Client(0, "", asked.topic), workload, seed=0, level=asked.level, names=((asked.topic, properties),)
    )


class Player:
    """The messages to one subscriber: built in blocks, numbered from 0, with a window above QoS 0."""

    def __init__(
        self, asked: Subscription, outbox: Outbox, play: Play, *, players: int, rest: memoryview | None = None
    ) -> None:
        """`rest` is what `rest_of` says for so many players."""
        properties = asked.identifier + bytes.fromhex(play.properties)
        equal = None if play.is_shaped else _Equal(asked, play, properties, rest)
        self._messages = equal or _shaped(asked, play, properties)
        self._qos, self._window, self._outbox, self._play = asked.qos, asked.window, outbox, play
        self._block = max(1, min(_BLOCK_BYTES, _BLOCKS_BYTES // players) // self._messages.largest)
        self._in_flight = np.zeros(65_536, dtype=np.uint8)  # packet identifiers
        self._counts = np.zeros(2, dtype=np.int64)
        self._following = 0

    def wants_to_send(self, now: int) -> bool:
        return self._play.start_ns <= now < self._play.end_ns and self._room() > 0

    def _room(self) -> int:
        return self._window - (self._following - self.completed) if self._qos else self._block

    def fill(self, now: int, count: Count) -> None:
        """Queues one block of messages."""
        size = min(self._block, self._room())
        block = self._messages.build(self._following, np.full(size, now, dtype=np.int64))
        if self._qos:
            self._in_flight[np.arange(self._following, self._following + size) % wire.PACKET_IDS + 1] = 1
        self._following += size
        for piece in block:
            self._outbox.put(piece.data, stride=piece.stride, ends=piece.ends)
        count.played += size
        count.last_played_ns = now

    def acknowledge(self, view: wire.Bytes, length: int, at: int, releases: wire.Bytes) -> tuple[int, int, int]:
        """Next position, bytes of PUBRELs, why the walk stopped."""
        return nullwalk.walk_completions(view, length, at, self._in_flight, releases, self._counts)

    @property
    def completed(self) -> int:
        return int(self._counts[nullwalk.COMPLETED])

    @property
    def unknown(self) -> int:
        return int(self._counts[nullwalk.UNKNOWN])


class Mirror:
    """Gives a client that is played nothing its own messages back, as they came: a self loop hears them."""

    def __init__(self) -> None:
        self._in_flight = np.zeros(65_536, dtype=np.uint8)
        self._counts = np.zeros(2, dtype=np.int64)

    def acknowledge(self, view: wire.Bytes, length: int, at: int, releases: wire.Bytes) -> tuple[int, int, int]:
        """Next position, bytes of PUBRELs, why the walk stopped."""
        return nullwalk.walk_completions(view, length, at, self._in_flight, releases, self._counts)

    def back(self, view: wire.Bytes, at: int, end: int) -> memoryview:
        """The messages among these whole packets."""
        out = np.empty(end - at, dtype=np.uint8)
        used = nullwalk.copy_publications(view, at, end, self._in_flight, out)
        return memoryview(out.data)[:used]
