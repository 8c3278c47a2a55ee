"""Bytes on their way into a stream, with a note of when each packet was handed over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerlab.load.alarm import now_ns

Handed = Callable[[int, int, int], None]  # (packets handed over before, packets handed over now, when)


class Taker(Protocol):
    """A stream, or a non-blocking socket."""

    def send(self, data: memoryview, /) -> int: ...


@dataclass(slots=True)
class _Chunk:
    data: memoryview
    stride: int  # bytes of each packet; 0 for bytes that nobody counts
    ends: NDArray[np.int64] | None  # of packets of unequal length
    handed: int  # bytes

    def packets(self, handed: int) -> int:
        """How many packets end within so many bytes."""
        if self.ends is not None:
            return int(np.searchsorted(self.ends, handed, side="right"))
        return handed // self.stride if self.stride else 0

    @property
    def is_counted(self) -> bool:
        return self.stride > 0 or self.ends is not None

    def begin_of(self, packet: int) -> int:
        """Where it begins."""
        if self.ends is not None:
            return int(self.ends[packet - 1]) if packet else 0
        return packet * self.stride


class Outbox:
    """A queue before one stream; a packet counts as handed over with its last byte."""

    __slots__ = ("_chunks", "_stream", "begun_ns", "full_ns", "handed", "last_ns")

    def __init__(self, stream: Taker, *, handed: int = 0) -> None:
        self._stream = stream
        self._chunks: list[_Chunk] = []  # few: a deque would take half a kilobyte of every client
        self.handed = handed  # counted packets
        self.last_ns = 0
        self.begun_ns = 0  # when the first byte of a packet left that the stream took in several pieces; 0: of none
        self.full_ns = 0  # since when the stream has not taken all that waits; 0: it has

    @property
    def is_empty(self) -> bool:
        return not self._chunks

    def put(self, data: memoryview, *, stride: int = 0, ends: NDArray[np.int64] | None = None) -> None:
        """Queues bytes that will not be changed; with a stride or ends its packets are counted as they leave."""
        self._chunks.append(_Chunk(data, stride, ends, 0))

    def push(self, on_handed: Handed | None = None) -> bool:
        """Hands over what the stream takes; whether everything is gone.

        The time of a packet is read just before the call that takes its last byte.
        """
        while self._chunks:
            chunk = self._chunks[0]
            at_ns = now_ns()
            try:
                taken = self._stream.send(chunk.data[chunk.handed :])
            except BlockingIOError:
                self.full_ns = self.full_ns or at_ns
                return False
            self.took(taken, at_ns, on_handed)
        self.full_ns = 0
        return True

    def took(self, taken: int, at_ns: int, on_handed: Handed | None = None) -> None:
        """So many bytes of what is queued first have left."""
        chunk = self._chunks[0]
        if not chunk.handed and taken == len(chunk.data):  # the whole of it, as nearly always
            self._chunks.pop(0)
            self.last_ns = at_ns
            if count := chunk.packets(taken):
                if on_handed:
                    on_handed(self.handed, count, at_ns)
                self.handed += count
                self.begun_ns = 0
            return
        before, after = chunk.packets(chunk.handed), chunk.packets(chunk.handed + taken)
        if before != after:
            if on_handed:
                on_handed(self.handed, after - before, at_ns)
            self.handed += after - before
            self.begun_ns = 0
        self.last_ns = at_ns
        if chunk.handed + taken == len(chunk.data):
            self._chunks.pop(0)
            return
        if chunk.is_counted and chunk.handed <= chunk.begin_of(after) < chunk.handed + taken:
            self.begun_ns = at_ns
        chunk.handed += taken

    def note_past(self, count: int, at_ns: int) -> None:
        """Packets have left that were never queued here."""
        self.handed += count
        self.last_ns = at_ns
