"""What the messages of a publisher look like on the wire: whole blocks of packets from intended times.

messages_of(client, workload, ...)  the one place that knows which kind of messages a workload asks for
build(first_seq, intended_ns)       the packets of consecutive messages
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import shapes, wire
from brokerlab.load.content import LARGE_BYTES, filler_of
from brokerlab.load.features5 import Aliased, aliased, completed, names_of
from brokerlab.load.pieces import Block, Piece
from brokerlab.load.replay import RecordMessages, limited, replay_ns
from brokerlab.load.schedule import Span, intended_ns
from brokerlab.load.shapes import Name
from brokerlab.load.spec import Client
from brokerlab.study import identity
from brokerlab.study.identity import Identity
from brokerlab.study.seeds import derived_seed
from brokerlab.study.template import WIDTHS, Template, read_template
from brokerlab.study.values import Arrivals, Schedule, Workload

_AT_ONCE = 1_000_000  # sequence numbers, to bound memory

Longs = NDArray[np.int64]
Stamp = Callable[[NDArray[np.uint8], Longs, int, Longs], None]  # (packets, where payloads start, first seq, times)


class Messages(Protocol):
    """Builds the messages of one publisher; message `seq` looks the same however the blocks are cut."""

    @property
    def count(self) -> int | None:
        """How many there are; None for as many as are asked for."""
        ...

    @property
    def largest(self) -> int:
        """Bytes of the longest packet."""
        ...

    @property
    def built_bytes(self) -> int:
        """The most that building one packet takes: of a large one the part that all share is not built."""
        ...

    def build(self, first_seq: int, intended_ns: Longs) -> Block: ...

    def payload_bytes(self, first_seq: int, count: int) -> int | Longs:
        """The size of all these messages, or of each."""
        ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long the payloads of a publisher are: one of a few classes, drawn for each message."""

    classes: Longs
    below: NDArray[np.uint64]  # a message whose random number is below the first of these is of the first class …
    seed: int

    @property
    def largest(self) -> int:
        return int(self.classes.max())

    def of(self, seqs: Longs) -> Longs:
        if self.classes.size == 1:
            return np.full(seqs.size, self.classes[0], dtype=np.int64)
        return self.classes[np.searchsorted(self.below, shapes.drawn(self.seed, seqs), side="right")]


def _sizes_of(client: Client, workload: Workload, *, seed: int) -> Sizes:
    shares = workload.payload.mix or ((own_payload_bytes(client, workload), 100.0),)
    edges = np.cumsum([share for _, share in shares][:-1]) / 100
    below = np.array([int(edge * 2**64) for edge in edges], dtype=np.uint64)
    classes = np.array([size for size, _ in shares], dtype=np.int64)
    return Sizes(classes, below, derived_seed(seed, "size", client.number))


def published_bytes(workload: Workload, publications: Mapping[int, int], *, seed: int) -> int:
    """The payload bytes of so many publications by publisher."""
    total = 0
    replay = workload.payload.replay
    for number, count in publications.items():
        if replay is not None:
            records = RecordMessages(Client(number, "", ""), workload, replay, level=4, names=(("", b""),))
            total += int(records.payload_bytes(0, count).sum())
            continue
        sizes = _sizes_of(Client(number, "", ""), workload, seed=seed)
        if sizes.classes.size == 1:
            total += count * sizes.largest
            continue
        for first in range(0, count, _AT_ONCE):
            total += int(sizes.of(np.arange(first, min(first + _AT_ONCE, count))).sum())
    return total


def own_payload_bytes(client: Client, workload: Workload) -> int:
    """The size of all messages of a publisher, where it has one."""
    each = workload.payload.each
    return each[client.number % len(each)] if each else workload.payload_bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """A packet with zero identity, and where that goes."""

    template: NDArray[np.uint8]
    id_at: int  # -1 at QoS 0
    payload_at: int
    publisher: int


class EqualMessages:
    """Messages that differ in their identity alone: one template, and a compiled loop that fills it in."""

    __slots__ = ("_id_at", "_payload_at", "_publisher", "_template")
    count = None

    def __init__(self, client: Client, workload: Workload, *, seed: int, level: int, names: Sequence[Name]) -> None:
        size = own_payload_bytes(client, workload)
        filler = filler_of(workload.payload.content, size, seed=f"{seed}/{client.number}")
        self._publisher = client.number
        ((topic, block),) = names
        self._template, self._id_at, self._payload_at = wire.publish_template(
            topic, payload_bytes=size, qos=workload.qos, retain=workload.retain,
            filler=filler[wire.IDENTITY_BYTES :].tobytes(), properties=block if level == 5 else None,
        )  # fmt: skip

    @property
    def shape(self) -> Shape:
        return Shape(self._template, self._id_at, self._payload_at, self._publisher)

    @property
    def largest(self) -> int:
        return self._template.size

    @property
    def built_bytes(self) -> int:
        return self._template.size

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        out = np.empty(intended_ns.size * self._template.size, dtype=np.uint8)
        wire.build_publishes(
            self._template, self._id_at, self._payload_at, self._publisher, first_seq, intended_ns, out
        )
        return (Piece(memoryview(out.data), self._template.size),)

    def payload_bytes(self, first_seq: int, count: int) -> int:  # noqa: ARG002 - all are alike
        return self._template.size - self._payload_at


class ShapedMessages:
    """Messages of any length and form of identity.

    A large one is built as far as its identity goes; the rest is sent from one filler that all messages share, so
    that memory does not grow with the payload.
    """

    count = None

    def __init__(self, client: Client, workload: Workload, *, seed: int, level: int, names: Sequence[Name]) -> None:
        self._heads = shapes.heads_of(names, workload, level=level)
        self._sizes = _sizes_of(client, workload, seed=seed)
        self._filler, self._stamp, self._stamped = _filling(client, workload, seed=seed)
        self._shared = memoryview(self._filler.data)

    @property
    def largest(self) -> int:
        return shapes.packet_bytes(self._heads.longest + self._sizes.largest)

    @property
    def built_bytes(self) -> int:
        return min(self.largest, self._heads.longest + LARGE_BYTES)

    def payload_bytes(self, first_seq: int, count: int) -> Longs:
        return self._sizes.of(np.arange(first_seq, first_seq + count))

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        count = intended_ns.size
        sizes = self.payload_bytes(first_seq, count)
        is_large = sizes > LARGE_BYTES
        copied = np.where(is_large, self._stamped, sizes)
        out = np.empty(count * (5 + self._heads.longest) + int(copied.sum()), dtype=np.uint8)
        starts, ends = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        used = shapes.build(
            self._heads.first_byte, self._heads.data, self._heads.ends, self._heads.has_id, self._filler,
            np.zeros(count, dtype=np.int64), sizes, copied, first_seq, out, starts, ends,
        )  # fmt: skip
        self._stamp(out, starts, first_seq, intended_ns)
        if not is_large.any():
            return (Piece(memoryview(out[:used].data), ends=ends),)
        return tuple(self._pieces(memoryview(out.data), sizes, copied, ends))

    def _pieces(self, data: memoryview, sizes: Longs, copied: Longs, ends: Longs) -> Iterator[Piece]:
        begin = 0
        for size, built, end in zip(sizes.tolist(), copied.tolist(), ends.tolist(), strict=True):
            yield Piece(data[begin:end], stride=0 if built < size else end - begin)
            begin, done = end, built
            while done < size:
                at = done % len(self._shared)
                piece = self._shared[at : at + size - done]
                done += len(piece)
                yield Piece(piece, stride=len(piece) if done == size else 0)


def _filling(client: Client, workload: Workload, *, seed: int) -> tuple[NDArray[np.uint8], Stamp, int]:
    """What fills the payloads, what writes the identity into them, and how many bytes from the start that touches."""
    form, number = identity.identity_of(workload), client.number
    filler = filler_of(workload.payload.content, identity.largest_payload_bytes(workload), seed=f"{seed}/{number}")
    if form is Identity.TEXT:
        template = read_template(workload.payload.template or "")
        filler[: len(template.text)] = np.frombuffer(template.text, dtype=np.uint8)
        return filler, _text_stamp(template, number, seed=derived_seed(seed, "payload", number)), len(template.text)
    if form is Identity.FULL:
        return filler, lambda out, at, seq, ns: shapes.stamp_full(out, at, number, seq, ns), wire.IDENTITY_BYTES
    if form is Identity.ORDER:
        return filler, lambda *_: None, 0
    own, low = identity.publisher_bytes(workload), identity.seq_bytes(workload)
    return filler, lambda out, at, seq, _: shapes.stamp_short(out, at, own, low, number, seq), own + low


def _text_stamp(template: Template, publisher: int, *, seed: int) -> Stamp:
    def stamp(out: NDArray[np.uint8], starts: Longs, first_seq: int, intended_ns: Longs) -> None:
        seqs = np.arange(first_seq, first_seq + starts.size)
        shapes.stamp_decimal(out, starts, template.seq_at, WIDTHS["seq"], seqs)
        if template.publisher_at >= 0:
            numbers = np.full(starts.size, publisher, dtype=np.int64)
            shapes.stamp_decimal(out, starts, template.publisher_at, WIDTHS["publisher"], numbers)
        if template.intended_at >= 0:
            shapes.stamp_decimal(out, starts, template.intended_at, WIDTHS["intended_ns"], intended_ns)
        for place, at in enumerate(template.random_at):
            numbers = (shapes.drawn(seed + place, seqs) >> np.uint64(32)).astype(np.int64)
            shapes.stamp_decimal(out, starts, at, WIDTHS["random"], numbers)

    return stamp


def messages_of(client: Client, workload: Workload, *, seed: int, level: int, aliases: int = 0) -> Messages:
    """The messages that the workload asks of this publisher; `level` is that of the protocol.

    `aliases` is how many topics of a connection may have one, by the broker's word.
    """
    names = names_of(client, workload, level=level)
    made = partial(_made, client, workload, seed=seed, level=level)
    if level < 5:
        return made(names)
    wall_ns = time.time_ns() - time.monotonic_ns()
    complete = partial(completed, client=client, workload=workload, seed=seed, wall_ns=wall_ns)
    if not workload.mqtt5.topic_alias or not aliases:
        return complete(made(names))
    told, later = aliased(names, most=aliases)
    return Aliased(complete(made(told)), complete(made(later)), topics=len(names))


def _made(client: Client, workload: Workload, names: Sequence[Name], *, seed: int, level: int) -> Messages:
    if workload.payload.replay is not None:
        return RecordMessages(client, workload, workload.payload.replay, level=level, names=names)
    is_equal = (
        workload.topics.count == 1 and not workload.payload.mix and own_payload_bytes(client, workload) <= LARGE_BYTES
    )
    is_usual = is_equal and identity.identity_of(workload) is Identity.FULL
    kind = EqualMessages if is_usual else ShapedMessages
    return kind(client, workload, seed=seed, level=level, names=names)


def due_ns(messages: Messages, schedule: Schedule, span: Span) -> Iterator[Longs]:
    """When the messages of a publisher are due, in order; no more times than there are messages."""
    if schedule.arrivals is Arrivals.REPLAY and isinstance(messages, RecordMessages):
        return limited(replay_ns(messages, schedule, span), messages.count)
    return limited(intended_ns(schedule, span), messages.count)
