"""One publishing client: builds what is due, hands it over, and follows every message to its acknowledgement.

The messages of a publisher that are not yet recorded lie in a ring (ring.py):

    recorded <= oldest in flight <= following (the next to be built)

At QoS 0 a message leaves the ring when it is handed to the kernel, at QoS 1 with PUBACK, at QoS 2 with PUBCOMP.

A message that is due while as many are in flight as may be is released by the acknowledgement that makes room, one
that finds its socket full when the socket takes it, the others by their intended time. From the release on it is the
generator that is late, before it the broker is; so are the broker and the network where the kernel takes the first
bytes of a long message at once and the others later.
"""

import contextlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import connection, readwalk, resuming, wire
from brokerlab.load.ackwalk import CLOSED, NOTHING, read_acknowledgements
from brokerlab.load.alarm import now_ns
from brokerlab.load.broken import BrokenStreamError, broken
from brokerlab.load.features5 import tell_again
from brokerlab.load.messages import Messages
from brokerlab.load.others import Others
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import PROTOCOL_LEVEL
from brokerlab.load.pieces import Block
from brokerlab.load.pings import PINGREQ
from brokerlab.load.ring import ACKED, SENT, Ring
from brokerlab.load.rows import RECORD_AT, PublicationRows
from brokerlab.load.schedule import left_of
from brokerlab.load.spec import Client
from brokerlab.load.stream import Stream, TcpStream

Longs = NDArray[np.int64]

BLOCK_BYTES = 256 * 1024  # handed to the socket at once, at most
_BLOCKS_AT_ONCE = 4
_PINGRESP = 0xD0
_SUSPECT_BYTES = 8192  # some brokers take no more
SEEN = ("puback", "pubrec", "pubcomp", "unknown", "refused")  # "unknown": identifiers that are not in flight
_NOTHING: Longs = np.empty(0, dtype=np.int64)
_WORDS = readwalk.words()


class Publisher:
    """One client of a publishing worker; a worker may have tens of thousands of them."""

    __slots__ = (
        "_level", "_prepared_ns", "_qos", "_received", "_record_at", "_rows", "block", "client", "due", "following",
        "is_asking", "messages", "most_in_flight", "oldest", "others", "outbox", "prepared", "resent", "ring",
        "room_since_ns", "seen", "stream", "times", "unread", "wire_bytes",
    )  # fmt: skip

    def __init__(
        self, client: Client, stream: Stream, messages: Messages, *, qos: int, rows: PublicationRows,
        level: int = PROTOCOL_LEVEL, receive_maximum: int = wire.PACKET_IDS, seen: Longs | None = None,
        record_at: int = RECORD_AT,
    ) -> None:  # fmt: skip
        self.client, self.stream = client, stream
        self.messages, self._qos, self._rows, self._level = messages, qos, rows, level
        self._record_at = record_at
        self.most_in_flight = receive_maximum if qos else wire.PACKET_IDS
        self.outbox = Outbox(stream)
        self.block = max(1, BLOCK_BYTES // messages.built_bytes)
        self.times: Iterator[Longs] = iter(())
        self.due = _NOTHING
        self.prepared: Block | None = None
        self._prepared_ns = 0
        self.ring = Ring()
        self.room_since_ns = 0  # when there last was room again in flight, or in the socket
        self.oldest = self.following = 0
        self.unread = b""
        self.is_asking = False  # whether the broker has to answer yet behind all that was sent
        self._received: resuming.Received | None = None  # where a session may be taken up again
        self.resent = 0
        self.others: Others | None = None
        self.wire_bytes = 0  # of all PUBLISH packets
        self.seen: Longs = np.zeros(len(SEEN), dtype=np.int64) if seen is None else seen

    # -- the schedule ---------------------------------------------------------------------------------------------

    def follow(self, times: Iterator[Longs]) -> None:
        """Takes the intended times of the run, in order."""
        self.times = times
        self.due = next(self.times, _NOTHING)

    def give_up(self) -> int:
        """Forgets what is due and not built; how many messages that are."""
        count = self.still_due()
        self.prepared, self.due, self.times = None, _NOTHING, iter(())
        return count

    def next_due_ns(self) -> int | None:
        """When the next message is due; None after the last one."""
        if self.prepared is not None:
            return self._prepared_ns
        if not self.due.size:
            self.due = next(self.times, _NOTHING)
        return int(self.due[0]) if self.due.size else None

    def prepare(self) -> None:
        """Builds the next message ahead of its time, so that nothing but a system call is left to do when it is due."""
        if self.prepared is not None or self.is_blocked or not self.room():
            return
        if (due_ns := self.next_due_ns()) is not None:
            times, self.due = self.due[:1], self.due[1:]
            self.prepared, self._prepared_ns = self._built(times), due_ns

    def send_due(self, until_ns: int) -> None:
        """Hands over what is due; what the socket or the window of identifiers does not take waits.

        A publisher that has fallen far behind hands over a few blocks at a time: between them others have their turn,
        and what is done is recorded, so that memory does not grow with the lag.
        """
        if self.prepared is not None and self._prepared_ns <= until_ns:
            self._put(self.prepared)
            self.following += 1
            self.prepared = None
            self.push()
        for _ in range(_BLOCKS_AT_ONCE):
            due_ns = self.next_due_ns()
            if due_ns is None or due_ns > until_ns or not self.outbox.is_empty or not (room := self.room()):
                return
            is_last = self.due.size > 1 and self.due[1] > until_ns  # looking is cheaper than searching
            count = 1 if is_last else min(int(np.searchsorted(self.due, until_ns, side="right")), room, self.block)
            times, self.due = self.due[:count], self.due[count:]
            self.send(times)
            if is_last:
                return

    def sent_elsewhere(self, following: int, last_ns: int) -> None:
        """Somebody else has built and handed over all messages before `following`, and keeps their times."""
        count, self.following = following - self.following, following
        self.outbox.note_past(count, last_ns)
        self.wire_bytes += count * self.messages.built_bytes
        if self._qos == 0:
            self.oldest = following

    def queue_next(self, taken: int, sent_ns: int) -> None:
        """Somebody else has built the next message that is due, of which the socket took so many bytes."""
        times, self.due = self.due[:1], self.due[1:]
        self.queue(times, taken, sent_ns)

    def room(self) -> int:
        """How many more messages may be in flight: identifiers are 16 bits, and MQTT 5.0 lets the broker say less."""
        room = self.most_in_flight - (self.following - self.oldest)
        return room if self.messages.count is None else min(room, self.messages.count - self.following)

    def send(self, intended_ns: Longs) -> None:
        """Builds one message per intended time and hands them over as far as the socket takes them."""
        self._put(self._built(intended_ns))
        self.following += intended_ns.size
        self.push()

    def queue(self, intended_ns: Longs, taken: int, sent_ns: int) -> None:
        """Somebody else has built the next messages, of which the socket took so many bytes: the rest waits here."""
        self._put(self._built(intended_ns))
        self.following += intended_ns.size
        if taken:
            self.outbox.took(taken, sent_ns, self._note_handed)
        if self.is_blocked:
            self.outbox.full_ns = sent_ns

    def _put(self, block: Block) -> None:
        for piece in block:
            self.wire_bytes += len(piece.data)
            self.outbox.put(piece.data, stride=piece.stride, ends=piece.ends)

    def _built(self, intended_ns: Longs) -> Block:
        """The next messages as bytes, with their places in the ring ready; they are not in flight yet."""
        self.ring.put(self.following, intended_ns, self.room_since_ns)
        return self.messages.build(self.following, intended_ns)

    # -- the socket -----------------------------------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether only acknowledgements are to come, of messages that end with this connection, over bare TCP."""
        return self._received is None and self.others is None and isinstance(self.stream, TcpStream)

    @property
    def is_blocked(self) -> bool:
        """Whether the socket did not take everything yet."""
        return not self.outbox.is_empty

    @property
    def in_flight(self) -> int:
        """Messages that are built but not acknowledged (QoS 0: not handed over)."""
        return self.following - self.oldest

    @property
    def unsent(self) -> int:
        """Messages that are built but not handed over as a whole."""
        return self.following - self.outbox.handed

    @property
    def has_more(self) -> bool:
        return self.is_blocked or self.next_due_ns() is not None

    def still_due(self) -> int:
        """Messages of the schedule that were never built."""
        return (self.prepared is not None) + self.due.size + left_of(self.times)

    def push(self) -> bool:
        """Hands over more of what is queued; whether all of it is gone."""
        was_full, is_gone = self.outbox.full_ns > 0, self.outbox.push(self._note_handed)
        if was_full and is_gone:
            self.room_since_ns = self.outbox.last_ns
        return is_gone

    def _note_handed(self, before: int, count: int, at_ns: int) -> None:
        if self.outbox.begun_ns or self.outbox.full_ns:
            self.ring.note_waited(before, count, at_ns, begun_ns=self.outbox.begun_ns, full_ns=self.outbox.full_ns)
        self.ring.note_sent(before, count, at_ns)
        if self._qos == 0:
            self.oldest = before + count

    def read(self, buffer: bytearray, view: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Takes in what the broker sent and answers it; ConnectionError when the connection is over."""
        if not self.is_plain or not self.outbox.is_empty or not self._take_plain(buffer, view, out):
            self._take(buffer, view, out)
        if not self.outbox.is_empty:
            self.push()

    def _take_plain(self, buffer: bytearray, view: NDArray[np.uint8], out: NDArray[np.uint8]) -> bool:
        """As `_take`, compiled, where nothing waits to be sent; whether something could be read."""
        length = len(self.unread)
        buffer[:length] = self.unread
        was_full = self.following - self.oldest >= self.most_in_flight
        at, length, why, self.oldest, used, now = read_acknowledgements(
            self.stream.fileno(), _WORDS, view, length, self._level, self.oldest, self.following, self.ring.rows[ACKED],
            out, self.seen,
        )  # fmt: skip
        if why in (NOTHING, CLOSED):
            return False
        if used:
            self.outbox.put(memoryview(out[:used].tobytes()))
        if why != wire.NEED_MORE:
            at = self._walk(view, length, at, now, out)
        if was_full and self.room():
            self.room_since_ns = now
        self.unread = bytes(buffer[at:length])
        return True

    def go_on(self, unread: NDArray[np.uint8], now: int) -> None:
        """Takes in what somebody else has read."""
        at = self._walk(unread, unread.size, 0, now, np.empty(unread.size + 4, dtype=np.uint8))
        self.unread = unread[at:].tobytes()

    def read_rest(self, problem: OSError, buffer: bytearray, view: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Takes in what had arrived when the connection ended: it is acknowledged, though nothing can be answered."""
        if isinstance(problem, BrokenStreamError):
            return
        with contextlib.suppress(OSError):  # the end of the connection, or nothing there
            while True:
                self._take(buffer, view, out)

    def _take(self, buffer: bytearray, view: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        length = len(self.unread)
        buffer[:length] = self.unread
        got, now = self.stream.read(memoryview(buffer)[length:])
        if not got:
            raise ConnectionResetError("the broker closed the connection")
        length += got
        was_full = not self.room()
        at = self._walk(view, length, 0, now, out)
        if was_full and self.room():
            self.room_since_ns = now
        self.unread = bytes(buffer[at:length])
        if self.others:
            self.others.done(now, is_empty=length < len(buffer) and not self.stream.has_more)

    def _walk(self, view: NDArray[np.uint8], length: int, at: int, now: int, out: NDArray[np.uint8]) -> int:
        """Reads all whole packets of the buffer from `at` on, PUBRELs go into the outbox; where the rest begins."""
        why = wire.FULL
        while why == wire.FULL:
            at, self.oldest, _, used, why = wire.walk_acknowledgements(
                view, length, at, self._level, self.oldest, self.following, self.ring.rows[ACKED], now, out, self.seen
            )
            if used:
                self.outbox.put(memoryview(out[:used].tobytes()))
                if self._received is not None:
                    self._received.note(out[:used], self.oldest, self.following)
            if why == wire.OTHER:
                at, why = self._other(view, length, at, now), wire.FULL
        if why == wire.MALFORMED:
            raise broken(view[at:length], level=self._level)
        return at

    def is_quiet_since(self, at_ns: int) -> bool:
        return self.outbox.last_ns < at_ns

    def _other(self, view: NDArray[np.uint8], length: int, at: int, now: int) -> int:
        """The place after a packet that is no acknowledgement."""
        if view[at] == _PINGRESP:
            self.is_asking = False
        if self.others:
            return self.others.take(view, length, at, now)
        return connection.pass_over(view[:length], at, level=self._level)

    def answer(self, data: memoryview) -> None:
        """Queues bytes that are no message; they leave with what is pushed next."""
        self.outbox.put(data)

    def explained(self, problem: OSError) -> str:
        """Why the connection ended; with large packets on the way, how large they are: brokers limit that."""
        size = self.messages.largest
        is_suspect = size >= _SUSPECT_BYTES and self.following > 0
        return f"{problem}, when it was sent packets of up to {size} bytes" if is_suspect else str(problem)

    def ping(self, since_ns: int) -> None:
        """Unless something was sent since then."""
        if self.is_quiet_since(since_ns):
            self.outbox.put(memoryview(PINGREQ))
            self.push()

    def ask(self) -> None:
        """Has the broker answer behind all that was sent: at QoS 0 nothing else tells that it has read that."""
        self.is_asking = True
        self.outbox.put(memoryview(PINGREQ))
        self.push()

    # -- one connection after the other -----------------------------------------------------------------------------

    def keep_session(self) -> None:
        """From now on remembers what it needs to take up its session on another connection."""
        self._received = resuming.Received()

    def leave(self) -> None:
        """The connection is over: what was not handed over as a whole is due again.

        What was handed over and is not acknowledged stays so, unless the session lasts: then `join` sends it again.
        """
        handed = self.outbox.handed
        again = self.ring.intended(handed, self.following - handed)
        prepared = [np.array([self._prepared_ns])] if self.prepared is not None else []
        self.due = np.concatenate([*again, *prepared, self.due])
        self.prepared = None
        self.following = handed
        self.unread, self.is_asking = b"", False
        self.outbox = Outbox(self.stream, handed=handed)  # nothing that was queued is to be sent any more
        if self._received is None:
            self.oldest = self.following
        if self.others:
            self.others.leave()

    def join(self, stream: Stream, *, receive_maximum: int, is_resumed: bool) -> None:
        """Goes on over another connection, with the session of the last one if the broker still has it."""
        self.stream, self.outbox = stream, Outbox(stream, handed=self.following)
        self.most_in_flight = receive_maximum if self._qos else wire.PACKET_IDS
        self.room_since_ns = now_ns()
        if self._received is not None and not is_resumed:
            self._received.clear()
        under_way = (seq for seq in range(self.oldest, self.following) if not self.ring.is_acknowledged(seq))
        again = [resuming.again(seq, self.messages, self.ring, self._received, self._level) for seq in under_way]
        tell_again(self.messages)
        if self.others:
            self.others.come_back(is_resumed=is_resumed)
        if again:
            self.resent += len(again)
            self.outbox.put(memoryview(b"".join(again)))
        self.push()

    def send_next(self, until_ns: int, *, asks: bool = False) -> None:
        """Hands over one message, if it is due, and where the caller wants that, asks for an answer behind it."""
        if (due_ns := self.next_due_ns()) is not None and due_ns <= until_ns:
            times, self.due = self.due[:1], self.due[1:]
            self.send(times)
        if asks:
            self.ask()

    # -- the record -----------------------------------------------------------------------------------------------

    def record(self, *, everything: bool = False, least: int | None = None) -> Longs | None:
        """Passes the finished messages on to the run directory; None if few wait.

        Rows of intended and released times, and of those when they began to leave.
        """
        until = self.following if everything else self.oldest
        first = self.ring.recorded
        count = until - first
        if not count or (count < (least or self._record_at) and not everything):
            return None
        done = self.ring.taken(until)
        intended, _, sent, acked, held = done
        self._rows.add(self.client.number, first, intended, sent, acked, self.messages.payload_bytes(first, count))
        if held.any():
            done = done.copy()  # the times of sending are on their way to disk
            done[SENT] -= held
        return done[:ACKED]
