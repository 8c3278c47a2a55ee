"""One publishing client: builds what is due, hands it over, and follows every message to its acknowledgement.

The messages of a publisher that are not yet recorded lie in a ring:

    recorded <= oldest in flight <= following (the next to be built)

At QoS 0 a message leaves the ring when it is handed to the kernel, at QoS 1 with PUBACK, at QoS 2 with PUBCOMP.

A message that is due while as many are in flight as may be is released by the acknowledgement that makes room, the
others by their intended time. From the release on it is the generator that is late, before it the broker is.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import connection, wire
from brokerlab.load.messages import Block, Messages
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import PROTOCOL_LEVEL
from brokerlab.load.rows import PublicationRows
from brokerlab.load.spec import Client
from brokerlab.load.stream import Stream

Longs = NDArray[np.int64]

BLOCK_BYTES = 256 * 1024  # handed to the socket at once, at most
_FIRST_RING = 256
_RECORD_AT = 4096  # rows of one publisher that wait in its ring before they are recorded
_NOTHING: Longs = np.empty(0, dtype=np.int64)


class Publisher:
    """One client of a publishing worker."""

    def __init__(
        self, client: Client, stream: Stream, messages: Messages, *, qos: int, rows: PublicationRows,
        level: int = PROTOCOL_LEVEL, receive_maximum: int = wire.PACKET_IDS,
    ) -> None:  # fmt: skip
        self.client, self.stream = client, stream
        self._messages, self._qos, self._rows, self._level = messages, qos, rows, level
        self._most_in_flight = receive_maximum if qos else wire.PACKET_IDS
        self._outbox = Outbox(stream)
        self.block = max(1, BLOCK_BYTES // messages.largest)
        self._times: Iterator[Longs] = iter(())
        self._due = _NOTHING
        self._prepared: Block | None = None
        self._prepared_ns = 0
        self._intended_ns, self._sent_ns, self._acked_ns = (np.zeros(_FIRST_RING, dtype=np.int64) for _ in range(3))
        self._released_ns = np.zeros(_FIRST_RING, dtype=np.int64)
        self._room_since_ns = 0  # when an acknowledgement last made room where there was none
        self._recorded = self._oldest = self.following = 0
        self._unread = b""
        self.seen = np.zeros(5, dtype=np.int64)  # PUBACK, PUBREC, PUBCOMP, identifiers not in flight, refused

    # -- the schedule ---------------------------------------------------------------------------------------------

    def follow(self, times: Iterator[Longs]) -> None:
        """Takes the intended times of the run, in order."""
        self._times = times
        self._due = next(self._times, _NOTHING)

    def next_due_ns(self) -> int | None:
        """When the next message is due; None after the last one."""
        if self._prepared is not None:
            return self._prepared_ns
        if not self._due.size:
            self._due = next(self._times, _NOTHING)
        return int(self._due[0]) if self._due.size else None

    def prepare(self) -> None:
        """Builds the next message ahead of its time, so that nothing but a system call is left to do when it is due."""
        if self._prepared is not None or self.is_blocked or not self.room():
            return
        if (due_ns := self.next_due_ns()) is not None:
            times, self._due = self._due[:1], self._due[1:]
            self._prepared, self._prepared_ns = self._built(times), due_ns

    def send_due(self, until_ns: int) -> None:
        """Hands over what is due; what the socket or the window of identifiers does not take waits."""
        if self._prepared is not None and self._prepared_ns <= until_ns:
            self._outbox.put(self._prepared.data, stride=self._prepared.stride)
            self.following += 1
            self._prepared = None
            self.push()
        while self._outbox.is_empty and (due_ns := self.next_due_ns()) is not None and due_ns <= until_ns:
            room = min(self.block, self.room())
            if not room:
                return
            count = min(int(np.searchsorted(self._due, until_ns, side="right")), room)
            times, self._due = self._due[:count], self._due[count:]
            self.send(times)

    def room(self) -> int:
        """How many more messages may be in flight: identifiers are 16 bits, and MQTT 5.0 lets the broker say less."""
        return self._most_in_flight - (self.following - self._oldest)

    def send(self, intended_ns: Longs) -> None:
        """Builds one message per intended time and hands them over as far as the socket takes them."""
        block = self._built(intended_ns)
        self._outbox.put(block.data, stride=block.stride)
        self.following += intended_ns.size
        self.push()

    def _built(self, intended_ns: Longs) -> Block:
        """The next messages as bytes, with their places in the ring ready; they are not in flight yet."""
        count = intended_ns.size
        self._make_room(count)
        places = np.arange(self.following, self.following + count) & (self._intended_ns.size - 1)
        self._intended_ns[places] = intended_ns
        self._released_ns[places] = np.maximum(intended_ns, self._room_since_ns)
        self._sent_ns[places] = 0
        self._acked_ns[places] = 0
        return self._messages.build(self.following, intended_ns)

    # -- the socket -----------------------------------------------------------------------------------------------

    @property
    def is_blocked(self) -> bool:
        """Whether the socket did not take everything yet."""
        return not self._outbox.is_empty

    @property
    def in_flight(self) -> int:
        """Messages that are built but not acknowledged (QoS 0: not handed over)."""
        return self.following - self._oldest

    @property
    def unsent(self) -> int:
        """Messages that are built but not handed over as a whole."""
        return self.following - self._outbox.handed

    def still_due(self) -> int:
        """Messages of the schedule that were never built."""
        return (self._prepared is not None) + self._due.size + sum(times.size for times in self._times)

    def push(self) -> bool:
        """Hands over more of what is queued; whether all of it is gone."""
        return self._outbox.push(self._note_handed)

    def _note_handed(self, before: int, count: int, at_ns: int) -> None:
        places = np.arange(before, before + count) & (self._sent_ns.size - 1)
        self._sent_ns[places] = at_ns
        if self._qos == 0:
            self._oldest = before + count

    def read(self, buffer: bytearray, view: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Takes in what the broker sent and answers it; ConnectionError when the connection is over."""
        length = len(self._unread)
        buffer[:length] = self._unread
        got, now = self.stream.read(memoryview(buffer)[length:])
        if not got:
            raise ConnectionResetError("the broker closed the connection")
        at, length = 0, length + got
        was_full, why = not self.room(), wire.FULL
        while why == wire.FULL:
            at, self._oldest, _, used, why = wire.walk_acknowledgements(
                view, length, at, self._level, self._oldest, self.following, self._acked_ns, now, out, self.seen
            )
            if used:
                self._outbox.put(memoryview(out[:used].tobytes()))
            if why == wire.OTHER:
                at, why = connection.pass_over(view[:length], at, level=self._level), wire.FULL
        if why == wire.MALFORMED:
            raise ConnectionAbortedError("the broker sent a malformed packet")
        if was_full and self.room():
            self._room_since_ns = now
        self._unread = bytes(buffer[at:length])
        self.push()

    def ping(self) -> None:
        self._outbox.put(memoryview(b"\xc0\x00"))
        self.push()

    # -- the record -----------------------------------------------------------------------------------------------

    def record(self, *, everything: bool = False) -> Longs | None:
        """Passes the finished messages on to the run directory; (intended, released, sent) or None if few wait."""
        until = self.following if everything else self._oldest
        count = until - self._recorded
        if not count or (count < _RECORD_AT and not everything):
            return None
        places = np.arange(self._recorded, until) & (self._intended_ns.size - 1)
        intended, sent, acked = self._intended_ns[places], self._sent_ns[places], self._acked_ns[places]
        released = self._released_ns[places]
        self._rows.add(self.client.number, self._recorded, intended, sent, acked)
        self._recorded = until
        return np.stack([intended, released, sent])

    def _make_room(self, count: int) -> None:
        """Doubles the ring until the messages not yet recorded and `count` more fit."""
        size = self._intended_ns.size
        needed = self.following - self._recorded + count
        if needed <= size:
            return
        larger = size
        while larger < needed:
            larger *= 2
        numbers = np.arange(self._recorded, self.following)
        for name in ("_intended_ns", "_released_ns", "_sent_ns", "_acked_ns"):
            ring = np.zeros(larger, dtype=np.int64)
            ring[numbers & (larger - 1)] = getattr(self, name)[numbers & (size - 1)]
            setattr(self, name, ring)
