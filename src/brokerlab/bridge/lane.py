"""One connection to the target: sends what it is given, and knows what is acknowledged.

Messages that belong to one topic go over one lane, so their order is kept. What is sent stays in memory, in the pieces
in which it was built, until the target has acknowledged all of a piece.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from brokerlab.bridge.counters import Counters
from brokerlab.bridge.link import Link
from brokerlab.bridge.log import Log
from brokerlab.bridge.outwalks import CHUNKS, again, build, ids_in, measure, release, walk_answers
from brokerlab.bridge.values import Route
from brokerlab.bridge.walks import (
    FREE,
    FULL,
    IDS,
    MALFORMED,
    OTHER,
    RECEIVED,
    TWO,
    Bytes,
    Longs,
    Memory,
    head,
)
from brokerlab.load.packets import (
    REASONS,
    ConnAck,
    Disconnect,
    Packet,
    PingResp,
    Publish,
)
from brokerlab.load.parser import Parser
from brokerlab.load.properties import MAXIMUM_PACKET_SIZE, MAXIMUM_QOS, RECEIVE_MAXIMUM, number_of

_RETAIN_AVAILABLE = 0x25
_ALL_FLAGS, _WITHOUT_RETAIN = 0x07, 0x06
_ANSWERS = 8192  # acknowledgements that one walk may take
_LONGEST_PACKET = 268_435_455 + 5


class Crossing(Protocol):
    """What a lane tells its route."""

    def progress(self) -> None:
        """Something is through, or there is room again."""
        ...

    def drained(self) -> None:
        """All that was sent has gone to the system."""
        ...

    def refuse(self, message: Publish, upstream: int, lane: int, reason: str) -> None:
        """The target does not take a message."""
        ...

    def told(self, link: Link, reason: str, *, is_final: bool) -> None: ...


@dataclass(slots=True)
class _Chunk:
    data: Bytes
    ends: Longs
    ids: Longs
    is_sent: bool


class Lane:
    """Implements Owner of its link."""

    def __init__(
        self, number: int, link: Link, route: Route, log: Log, counters: Counters, crossing: Crossing, *,
        mark: Bytes, memory: Memory, now_s: Callable[[], int],
    ) -> None:  # fmt: skip
        self.number, self.link, self._route, self._log = number, link, route, log
        self._counters, self._crossing, self._now_s = counters, crossing, now_s
        self._mark, self._memory = mark, memory
        self._chunks: deque[_Chunk] = deque()
        self._first_chunk = 0  # the number of the oldest
        self._live = np.zeros(CHUNKS, dtype=np.int64)
        self._chunk_of = np.zeros(IDS, dtype=np.int64)
        self._cursor = 0
        self._window = route.inflight
        self._flags = _ALL_FLAGS if route.retain else _WITHOUT_RETAIN
        self._through = np.empty(_ANSWERS, dtype=np.int64)
        self._refused = np.empty(_ANSWERS, dtype=np.int64)
        self._releases = np.empty(4 * _ANSWERS, dtype=np.uint8)
        self.longest_packet = _LONGEST_PACKET
        self.held = 0  # messages of QoS 1 and 2 in memory
        self.held_bytes = 0
        link.owner = self

    def warm(self, nothing: Bytes, rows: Longs) -> None:
        """Calls every compiled walk once, with nothing to do."""
        up, down, none = self._log.upstream, self._log.downstream, rows[0, :0]
        measure(rows, 0, 0, 4, 0)
        build(
            nothing, nothing, rows, 0, 0, 4, 0, self._mark, 0, self._memory, 0, up, down, 0, self._chunk_of, nothing,
            none, none,
        )  # fmt: skip
        walk_answers(nothing, 0, 0, 0, up, down, self._releases, self._through, self._refused)
        release(none, 0, 0, down, self._chunk_of, self._live)
        again(nothing, none, none, 0, down, True, nothing)

    @property
    def is_ready(self) -> bool:
        return self.link.is_open or not self._route.is_lasting

    @property
    def is_busy(self) -> bool:
        return bool(self._chunks) or self.link.unsent_bytes > 0

    def room(self) -> int:
        """How many messages it can take now."""
        if not self._route.is_lasting:
            return 0 if self._chunks or self.link.unsent_bytes or self.link.is_open else 1
        is_full = self.held_bytes + self.link.unsent_bytes >= self._route.buffer_bytes
        if is_full or not self.link.is_open or len(self._chunks) >= CHUNKS - 1:
            return 0
        return self._window - self.held

    def take(self, source: Bytes, names: Bytes, rows: Longs, count: int) -> None:
        """Sends the messages of the rows that are for this lane."""
        down = self._log.downstream
        level = self.link.broker.level
        mark = self._mark if level >= 5 else self._mark[:0]
        found, size = measure(rows, count, self.number, level, mark.size)
        if not found:
            return
        data = np.empty(size, dtype=np.uint8)
        ends, ids = np.empty(found, dtype=np.int64), np.empty(found, dtype=np.int64)
        number = self._first_chunk + len(self._chunks)
        self._cursor = build(
            source, names, rows, count, self.number, level, self._flags, mark, self._cursor, self._memory,
            self._now_s(), self._log.upstream, down, number, self._chunk_of, data, ends, ids,
        )  # fmt: skip
        held = int(np.count_nonzero(ids))
        self._counters.published += found
        if held or not self.link.is_open:
            self._live[number % CHUNKS] = held
            self._chunks.append(_Chunk(data, ends, ids, self.link.is_open))
            self.held += held
            self.held_bytes += size
        if self.link.is_open:
            self.link.put(data.data)
        else:
            self.link.open()

    # -- what the link tells --------------------------------------------------------------------------------------

    def opened(self, answer: ConnAck) -> None:
        properties = answer.properties
        self._window = min(self._route.inflight, number_of(properties, RECEIVE_MAXIMUM) or 65_535)
        self.longest_packet = number_of(properties, MAXIMUM_PACKET_SIZE) or _LONGEST_PACKET
        most_qos = number_of(properties, MAXIMUM_QOS)
        if most_qos is not None and most_qos < self._route.qos:
            self.link.drop(f"it takes QoS {most_qos} at most: write qos: {most_qos} in the route", is_final=True)
            return
        if number_of(properties, _RETAIN_AVAILABLE) == 0:
            self._flags = _WITHOUT_RETAIN
        self._resume(is_resumed=answer.session_present)
        self._crossing.progress()

    def _resume(self, *, is_resumed: bool) -> None:
        """Sends again what is not acknowledged, as the target's memory of our session asks for."""
        down = self._log.downstream
        if not is_resumed and np.any(down.state[self.number] == RECEIVED):
            self._counters.sessions_lost += 1
        for chunk in tuple(self._chunks):  # sending may let go of some
            if chunk.is_sent:
                out = np.empty(chunk.data.size, dtype=np.uint8)
                used, count = again(chunk.data, chunk.ends, chunk.ids, self.number, down, is_resumed, out)
                self._counters.resent += count
                if used:
                    self.link.put(out[:used].data)
            else:
                chunk.is_sent = True
                self.link.put(chunk.data.data)
        self._settle(is_resumed=is_resumed)
        self._forget()

    def _settle(self, *, is_resumed: bool) -> None:
        """What has no bytes in memory: from before the bridge was stopped."""
        state, is_held = self._log.downstream.state[self.number], self._log.downstream.is_held[self.number]
        received = ids_in(np.where(is_held, FREE, state), RECEIVED)
        if is_resumed:
            self._put_releases(received)
        else:
            state[received] = TWO  # the source sends it once more, and so do we
        self.sweep(is_resumed=is_resumed)

    def sweep(self, *, is_resumed: bool = True) -> None:
        """Frees identifiers of ours that no message of the source's will come for again."""
        state, source = self._log.downstream.state[self.number], self._log.downstream.source[self.number]
        is_held = self._log.downstream.is_held[self.number]
        orphans = ids_in(np.where(is_held | (source != 0), FREE, state), TWO)
        if not self.link.is_open:
            return
        if is_resumed:
            state[orphans] = RECEIVED  # the target answers with PUBCOMP, whether it has the message or not
            self._put_releases(orphans)
        else:
            state[orphans] = FREE

    def _put_releases(self, ids: Longs) -> None:
        if ids.size:
            packets = b"".join(b"\x62\x02" + int(each).to_bytes(2, "big") for each in ids)
            self.link.put(memoryview(packets))

    def came(self) -> None:
        link, why = self.link, FULL
        while why in (FULL, OTHER):
            link.at, used, done, no, why = walk_answers(
                link.buffer, link.end, link.at, self.number, self._log.upstream, self._log.downstream,
                self._releases, self._through, self._refused,
            )  # fmt: skip
            if used:
                link.put(memoryview(self._releases[:used].tobytes()))
            if done:
                self._release(self._through, done)
                self._counters.acknowledged += done
            if no:
                self._take_back(self._refused[:no])
            if why == MALFORMED or (why == OTHER and not self._other()):
                break
        if why == MALFORMED:
            link.drop("its bytes are no MQTT")
        self._forget()
        self._crossing.progress()

    def _release(self, ids: Longs, count: int) -> None:
        down = self._log.downstream
        self.held -= int(np.count_nonzero(down.is_held[self.number, ids[:count]]))
        release(ids, count, self.number, down, self._chunk_of, self._live)

    def _forget(self) -> None:
        """Lets go of pieces that are acknowledged."""
        while self._chunks and self._chunks[0].is_sent and not self._live[self._first_chunk % CHUNKS]:
            self.held_bytes -= self._chunks.popleft().data.size
            self._first_chunk += 1
        if not self._route.is_lasting and not self._chunks and not self.link.unsent_bytes and self.link.is_open:
            self.link.leave()

    def _take_back(self, refused: Longs) -> None:
        down = self._log.downstream
        for entry in refused.tolist():
            ours, code = entry >> 8, entry & 0xFF
            upstream = int(down.source[self.number, ours])
            message = self._message(ours)
            self._release(np.array([ours], dtype=np.int64), 1)
            if message is not None:
                reason = f"the target refuses it: {REASONS.get(code, 'unknown reason')} ({code:#04x})"
                self._crossing.refuse(message, upstream, self.number, reason)

    def _message(self, ours: int) -> Publish | None:
        if not self._log.downstream.is_held[self.number, ours]:
            return None
        chunk = self._chunks[int(self._chunk_of[ours]) - self._first_chunk]
        place = int(np.flatnonzero(chunk.ids == ours)[0])
        begin = int(chunk.ends[place - 1]) if place else 0
        packet = Parser(self.link.broker.level).feed(chunk.data[begin : chunk.ends[place]].tobytes())[0]
        return packet if isinstance(packet, Publish) else None

    def _other(self) -> bool:
        """Reads a packet that is no acknowledgement; whether the connection goes on."""
        packet, self.link.at = next_packet(self.link)
        if isinstance(packet, Disconnect):
            self.link.drop(f"it closed the connection: {REASONS.get(packet.reason_code, 'unknown reason')}")
            return False
        if not isinstance(packet, PingResp):
            self.link.drop(f"an unexpected {type(packet).__name__.upper()}")
            return False
        return True

    def drained(self) -> None:
        self._forget()
        self._crossing.drained()

    def lost(self) -> None:
        self._counters.reconnected += 1

    def failed(self, reason: str, *, is_final: bool) -> None:
        self._crossing.told(self.link, reason, is_final=is_final)


def next_packet(link: Link) -> tuple[Packet, int]:
    """The packet that stands next in the link's buffer, whole, and the place after it."""
    _, end = head(link.buffer, link.end, link.at)
    return Parser(link.broker.level).feed(link.buffer[link.at : end].tobytes())[0], end
