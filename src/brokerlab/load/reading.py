"""What a subscribing worker does with a socket that has something for it: a row for every message."""

import contextlib
from collections.abc import Callable, MutableSequence

import numpy as np

from brokerlab.load import readwalk, wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.arrival import difference_ns
from brokerlab.load.gather import Gather
from brokerlab.load.lag import Lag
from brokerlab.load.pace import Pace
from brokerlab.load.packets import LEVELS
from brokerlab.load.passing import passing_of
from brokerlab.load.pausing import Pausing
from brokerlab.load.resolver import Resolver
from brokerlab.load.room import Room
from brokerlab.load.rows import DeliveryRows
from brokerlab.load.spec import Go, Progress, WorkerSpec
from brokerlab.load.stream import TcpStream
from brokerlab.load.subscriber import Subscriber
from brokerlab.load.wire import Bytes, Longs
from brokerlab.study.values import Qos

_BUFFER_BYTES = 1 << 20
_NOBODY = np.empty(0, dtype=np.int64)


class Reader:
    """Reads for all subscribers of a worker; acknowledgements go into their outboxes."""

    def __init__(
        self, spec: WorkerSpec, counts: MutableSequence[int], progress: Progress, *,
        rows: DeliveryRows, resolver: Resolver | None, gather: Gather | None, pace: Pace, room: Room, pausing: Pausing,
        pass_over: Callable[[Subscriber, Bytes, int], int],
    ) -> None:  # fmt: skip
        """`pass_over` is given a packet that is no message, and where it stands; it tells the place after it."""
        self._counts, self._place, self._publishers = counts, spec.index, spec.workload.publishers
        self._rows, self._resolver, self._gather = rows, resolver, gather
        self._pace, self._room, self._pausing, self._pass_over = pace, room, pausing, pass_over
        self._level, self._qos = LEVELS[spec.workload.protocol], spec.workload.qos
        self.order, self.lag = Go(0, 0, 0), Lag()
        self.last_ns = 0  # of the last arrival
        self.retransmissions = 0
        self._handshakes = 0  # of QoS 2 that are open, which the window waits for
        self._overtaken_at: int | None = None
        topics = spec.workload.topics
        if gather and topics.count == 1 and not topics.share:  # of other flows a subscriber gets a part, by plan
            self._overtaken_at = progress.overtaken[progress.delivered.index(spec.index)]
        self._is_swift = gather is not None and resolver is None and not pausing.is_planned
        self._words, self._notes = readwalk.words(), readwalk.notes()
        self._resize(_BUFFER_BYTES)
        self._acks = np.empty(_BUFFER_BYTES, dtype=np.uint8)

    def go(self, order: Go) -> None:
        self.order, self.lag = order, Lag()

    def read_all(self, subscriber: Subscriber) -> None:
        """Reads what epoll told of, and what is here already behind it."""
        whole = 0
        with contextlib.suppress(BlockingIOError):  # nothing to read after all: epoll may wake for less (epoll(7))
            if self._is_swift and subscriber.passing is None and isinstance(subscriber.stream, TcpStream):
                whole = self._read_pieces(subscriber, subscriber.stream)
            if not whole:
                whole, pieces = self.read(subscriber), readwalk.MOST
                got = whole
                while subscriber.stream.has_more or (pieces and self._reads_on(got)):
                    got, pieces = self.read(subscriber), max(0, pieces - 1)
                    whole += got
        subscriber.look(whole)

    def _reads_on(self, got: int) -> bool:
        """Whether more may be there behind a read of so many bytes."""
        return self._gather is not None and not self._pace.is_on and got >= self._room.piece_bytes

    def _read_pieces(self, subscriber: Subscriber, stream: TcpStream) -> int:
        """As `read`, but compiled, and all that is there: so many bytes, 0 where `read` has to see what there is."""
        stamps = stream.stamps
        if stamps is None:
            return 0
        length, first = len(subscriber.unread), self._rows.used
        self._buffer[:length] = subscriber.unread
        highest = _NOBODY if self._overtaken_at is None else self._highest(subscriber)
        at, length, why, _, overtaken, pieces, whole, got, used, again, last_ns, out_of_order = readwalk.read_walk(
            stream.fileno(), self._words, self._view, length, self._level, self._rows.wire, first, subscriber.held,
            self._acks, highest, self._notes, difference_ns(now_ns()), stamps.last_ns, stamps.out_of_order,
            self._room.piece_bytes, 1 if self._pace.is_on else readwalk.MOST,
        )  # fmt: skip
        stamps.last_ns, stamps.out_of_order = last_ns, out_of_order
        if not pieces:
            return 0
        if overtaken and self._overtaken_at is not None:
            self._counts[self._overtaken_at] += overtaken
        before, arrived_ns = self._rows.total, 0
        for messages, arrived_ns, lag_ns in self._notes[:pieces].tolist():
            self._note_lag(arrived_ns, lag_ns)
            if messages:
                self._rows.stamp(
                    subscriber.client.number, self._rows.used + messages, arrived_ns, arrived_ns - subscriber.empty_ns
                )
                self._note_count(messages)
        self._answer(subscriber, used, again)
        if why != wire.NEED_MORE:
            at = self._walk(subscriber, self._view, length, at, arrived_ns)
        self._finish(subscriber, at, length, arrived_ns, got=got, before=before)
        return whole

    def read(self, subscriber: Subscriber) -> int:
        """Reads once, so many bytes: rows for all whole messages, acknowledgements into the outbox."""
        length = len(subscriber.unread)
        self._buffer[:length] = subscriber.unread
        got, arrived_ns = subscriber.stream.read(memoryview(self._buffer)[length:])
        if not got:
            raise ConnectionResetError("the broker closed the connection")
        self._note_lag(arrived_ns, now_ns() - self._pausing.readable_ns(arrived_ns))
        length += got
        before = self._rows.total
        at = 0
        if (passing := subscriber.passing) is not None:
            at = passing.take(length)
            if not passing.missing_bytes:
                subscriber.passing = None
                self._walk(subscriber, passing.short, passing.short.size, 0, arrived_ns, cut_bytes=passing.cut_bytes)
        at = self._walk(subscriber, self._view, length, at, arrived_ns)
        self._note_count(self._rows.total - before)
        self._finish(subscriber, at, length, arrived_ns, got=got, before=before)
        return got

    def _finish(self, subscriber: Subscriber, at: int, length: int, arrived_ns: int, *, got: int, before: int) -> None:
        """After all whole packets were read: what is left of the buffer, and what others want to know."""
        if self._gather and self._qos == Qos.EXACTLY_ONCE:
            self._handshakes += subscriber.opened()
        self._counts[self._place] = self._rows.total - self._handshakes
        if self._rows.total > before:
            if at == length and subscriber.stream.is_exact and not self._gather:
                self._rows.mark_last_exact()
            self.last_ns = arrived_ns
        subscriber.passing = subscriber.passing or passing_of(self._view[at:length], level=self._level)
        subscriber.unread = b"" if subscriber.passing else bytes(self._buffer[at:length])
        if length < len(self._buffer):
            is_left = subscriber.stream.has_more or self._reads_on(got)
            if not is_left and not self._pace.is_held_back(subscriber.stream.fileno(), got):
                subscriber.note_empty(arrived_ns, is_gathered=self._gather is not None)
        elif at == 0 and not subscriber.passing:
            self._resize(2 * len(self._buffer))  # one packet is longer than the buffer

    def _note_lag(self, arrived_ns: int, lag_ns: int) -> None:
        if self.order.measure_ns <= arrived_ns < self.order.end_ns:
            self.lag.note(lag_ns)

    def _note_count(self, messages: int) -> None:
        if messages and self._gather and self._qos:
            self._gather.note(messages)

    def _walk(
        self, subscriber: Subscriber, view: Bytes, length: int, at: int, arrived_ns: int, *, cut_bytes: int = 0
    ) -> int:
        """Reads all whole packets of the buffer from `at` on; where the rest begins."""
        why = wire.FULL
        while why == wire.FULL:
            if self._rows.used == len(self._rows.wire):
                self._rows.flush()
            first = self._rows.used
            at, row, used, again, why = wire.walk_deliveries(
                view, length, at, self._level, self._rows.wire, first, subscriber.held, self._acks
            )
            if cut_bytes:
                self._rows.wire[first:row, 3] += cut_bytes
            if self._resolver is not None and subscriber.expected is not None:
                self._resolver.resolve(view, self._level, self._rows.wire, first, row, subscriber.expected)
            if self._overtaken_at is not None and row > first:
                highest = self._highest(subscriber)
                self._counts[self._overtaken_at] += wire.count_overtaken(self._rows.wire, first, row, highest)
            self._rows.stamp(subscriber.client.number, row, arrived_ns, arrived_ns - subscriber.empty_ns)
            self._answer(subscriber, used, again)
            if why == wire.OTHER:
                at, why = self._pass_over(subscriber, view[:length], at), wire.FULL
        if why == wire.MALFORMED:
            raise ConnectionAbortedError("the broker sent a malformed packet")
        return at

    def _answer(self, subscriber: Subscriber, used: int, again: int) -> None:
        self.retransmissions += again
        if used:
            subscriber.outbox.put(memoryview(self._acks[:used].tobytes()))

    def _highest(self, subscriber: Subscriber) -> Longs:
        if subscriber.highest is None:
            subscriber.highest = np.full(self._publishers, -1, dtype=np.int64)
        return subscriber.highest

    def _resize(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = np.frombuffer(self._buffer, dtype=np.uint8)
