"""What a subscribing worker does with a socket that has something for it: a row for every message."""

import contextlib
import select
from collections.abc import Callable, MutableSequence
from typing import Any, cast

import numpy as np

from brokerlab.load import readwalk, wallclock, wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.broken import broken
from brokerlab.load.gather import Gather
from brokerlab.load.lag import Lag
from brokerlab.load.pace import Pace
from brokerlab.load.packets import LEVELS
from brokerlab.load.passing import passing_of
from brokerlab.load.pausing import Pausing
from brokerlab.load.resolver import Resolver
from brokerlab.load.role import Events
from brokerlab.load.room import Room
from brokerlab.load.rounds import NOTHING, Round, Table
from brokerlab.load.rows import DeliveryRows
from brokerlab.load.spec import Go, Progress, WorkerSpec
from brokerlab.load.stalls import Stalls
from brokerlab.load.subscriber import Subscriber
from brokerlab.load.wire import Bytes, Longs
from brokerlab.study.values import Qos

_BUFFER_BYTES = 1 << 20
_WATCH_S = 0.05  # without a look at anything but sockets that are read, and orders of the lab
_MOST_LOOKS = 16
_PUBCOMP = 0x70  # the answer to PUBREL
_MOST_TOGETHER = 256  # subscribers of a worker: each takes some 20 KiB of the table


class Reader:
    """Reads for all subscribers of a worker; acknowledgements go into their outboxes."""

    def __init__(
        self, spec: WorkerSpec, counts: MutableSequence[int], progress: Progress, *,
        rows: DeliveryRows, resolver: Resolver | None, gather: Gather | None, pace: Pace, room: Room, pausing: Pausing,
        pass_over: Callable[[Subscriber, Bytes, int], int], lose: Callable[[int, OSError], None], orders_fd: int,
        stalls: Stalls,
    ) -> None:  # fmt: skip
        """`pass_over` is given a packet that is no message, and where it stands; it tells the place after it.

        `lose` is told of connections that ended where the caller of `read_together` cannot see it.
        """
        self._counts, self._place, self._publishers = counts, spec.index, spec.workload.publishers
        self._rows, self._resolver, self._gather = rows, resolver, gather
        self._pace, self._room, self._pausing = pace, room, pausing
        self._pass_over, self._lose, self._orders_fd, self._stalls = pass_over, lose, orders_fd, stalls
        self._level, self._qos = LEVELS[spec.workload.protocol], spec.workload.qos
        self.order, self.lag = Go(0, 0, 0), Lag()
        self.last_ns = 0  # of the last arrival
        self.retransmissions = 0
        self._ends_with_row = False  # whether the last packet that was walked is a message with a row of its own
        self._handshakes = 0  # of QoS 2 that are open, which the window waits for
        self._overtaken_at: int | None = None
        topics = spec.workload.topics
        if gather and topics.count == 1 and not topics.share:  # of other flows a subscriber gets a part, by plan
            self._overtaken_at = progress.overtaken[progress.delivered.index(spec.index)]
        self._round_ns = now_ns()
        self._table: Table | None = None
        is_plain = resolver is None and not pausing.is_planned and not pace.is_possible
        if gather is not None and is_plain and len(spec.clients) <= _MOST_TOGETHER:
            counted = 0 if self._overtaken_at is None else self._publishers
            self._table = Table(len(spec.clients), qos=self._qos, publishers=counted)
        # What all workers see: in a test it may be a list.
        self._shared = None if isinstance(counts, list) else np.frombuffer(cast(Any, counts), dtype=np.int64)
        self._resize(_BUFFER_BYTES)
        self._acks = np.empty(_BUFFER_BYTES, dtype=np.uint8)

    def go(self, order: Go) -> None:
        self.order, self.lag = order, Lag()

    def read_all(self, subscriber: Subscriber) -> None:
        """Reads what epoll told of, and what is here already behind it."""
        whole = 0
        with contextlib.suppress(BlockingIOError):  # nothing to read after all: epoll may wake for less (epoll(7))
            whole, pieces = self.read(subscriber), readwalk.MOST
            got = whole
            while subscriber.stream.has_more or (pieces and self._reads_on(got)):
                got, pieces = self.read(subscriber), max(0, pieces - 1)
                whole += got
        if subscriber.room.grows:
            before, subscriber.looked_ns = subscriber.looked_ns, now_ns()
            subscriber.look(whole, subscriber.looked_ns - before)

    def _reads_on(self, got: int) -> bool:
        """Whether more may be there behind a read of so many bytes."""
        return self._gather is not None and not self._pace.is_on and got >= self._room.piece_bytes

    def read_together(self, events: Events) -> Events:
        """Reads for all of these that can be served in a round, and answers; who is left has to be served by itself."""
        if self._table is None:
            return events
        places, left = self._table.parted(events)
        begin, round_ns = 0, now_ns()
        wallclock.refresh(round_ns)
        while begin < places.size:
            done = self._table.read(
                places, begin, self._view, self._rows.columns(), self._acks,
                level=self._level, piece_bytes=self._room.piece_bytes,
            )  # fmt: skip
            begin, before = done.place + done.is_cut, begin
            left = self._after_round(
                self._table, places[before:begin], done, left, elapsed_ns=round_ns - self._round_ns
            )
        self._round_ns = round_ns
        return left

    def watch(self, pause_s: float) -> Events | None:
        """Sleeps and reads for all who can be served in a round, some times; who is left. None where it cannot be.

        All that is gained is fewer turns of the interpreter, which finds its own code gone from the caches after every
        sleep: the pauses are those of one look at a time.
        """
        if self._table is None or self._shared is None or not self._table.all.size:
            return None
        wallclock.refresh(now_ns())
        everybody = self._table.all
        small_bytes = (self._room.buffer_bytes or 0) if self._room.grows else 0
        done = self._table.watch(
            self._view, self._rows.columns(), self._acks, level=self._level,
            piece_bytes=self._room.piece_bytes, looks=max(1, min(_MOST_LOOKS, int(_WATCH_S / pause_s))),
            pause_ns=round(pause_s * 1e9), counts=self._shared, delivered_at=self._place,
            overtaken_at=-1 if self._overtaken_at is None else self._overtaken_at, orders=self._orders_fd,
            small_bytes=small_bytes,
        )  # fmt: skip
        if self._overtaken_at is not None:
            done = done._replace(overtaken=0)  # counted already
        self._round_ns = now_ns()
        self._stalls.woke(self._round_ns - self._table.late_ns(), self._round_ns)
        served = everybody[: done.place + done.is_cut]
        return self._after_round(self._table, served, done, [], elapsed_ns=done.elapsed_ns)

    def _after_round(self, table: Table, places: Longs, done: Round, left: Events, *, elapsed_ns: int) -> Events:
        """Who is left, with those whom a round could not serve to the end."""
        arrived_ns = self._note_round(table, done)
        left = left + self._widen(table, places, done, elapsed_ns)
        if done.is_cut:
            fd, is_open = self._serve_apart(table, int(places[-1]), done, arrived_ns)
            left = [each for each in left if each[0] != fd] + is_open * [(fd, int(select.EPOLLIN))]
        return left

    def _note_round(self, table: Table, done: Round) -> int:
        """What a round has done for all who had their turn; when the last of it arrived."""
        self._rows.filled(done.row)
        arrived_ns = 0
        for messages, arrived_ns, lag_ns in table.pieces(done.pieces):
            self._note_lag(arrived_ns, lag_ns)
            if messages:
                self._note_count(messages)
                self.last_ns = max(self.last_ns, arrived_ns)
        self.retransmissions += done.retransmissions
        self._handshakes += done.opened
        if self._overtaken_at is not None:
            self._counts[self._overtaken_at] += done.overtaken
        self._counts[self._place] = self._rows.total - self._handshakes
        return arrived_ns

    def _widen(self, table: Table, places: Longs, done: Round, elapsed_ns: int) -> Events:
        """Gives more room to whom it was too little (room.py); who has answers left that its socket did not take."""
        if self._room.grows and self._room.buffer_bytes is not None and elapsed_ns:
            for place, whole in zip(places.tolist(), table.bytes_of(places), strict=True):
                if whole >= self._room.buffer_bytes:
                    table.subscriber(place).look(whole, elapsed_ns)
        return table.unanswered(places, self._acks) if done.unsent else []

    def _serve_apart(self, table: Table, place: int, done: Round, arrived_ns: int) -> tuple[int, bool]:
        """Goes on with whose turn it was when a round was cut: its socket, and whether the connection still stands."""
        subscriber = table.subscriber(place)
        fd = subscriber.stream.fileno()
        table.give_back(fd)
        try:
            if done.why != NOTHING:
                at = self._walk(subscriber, self._view, done.length, done.at, arrived_ns)
                self._finish(subscriber, at, done.length, arrived_ns, got=done.got, before=self._rows.total)
        except OSError as problem:
            self._lose(fd, problem)
            return fd, False
        return fd, True

    def take(self, subscriber: Subscriber) -> None:
        """From now on it is served with others, if that can be."""
        if self._table is not None:
            self._table.take(subscriber)

    def serves_together(self, fd: int) -> bool:
        return self._table is not None and fd in self._table

    def give_back(self, fd: int) -> None:
        """It is to be served by itself."""
        if self._table is not None:
            self._table.give_back(fd)

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
            if at == length and self._ends_with_row and subscriber.stream.is_exact and not self._gather:
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
            if row > first or used or why == wire.OTHER:
                is_released = used and self._acks[used - 4] == _PUBCOMP
                self._ends_with_row = row > first and not (again or is_released or why == wire.OTHER)
            self._answer(subscriber, used, again)
            if why == wire.OTHER:
                at, why = self._pass_over(subscriber, view[:length], at), wire.FULL
        if why == wire.MALFORMED:
            raise broken(view[at:length], level=self._level)
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
