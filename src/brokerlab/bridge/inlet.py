"""The connection to the source of a route: subscribes, reads, and acknowledges what is through.

It reads only as much as the lanes can take: what is not read the source must keep, so memory does not grow.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from brokerlab.bridge.counters import Counters
from brokerlab.bridge.lane import next_packet
from brokerlab.bridge.link import Link
from brokerlab.bridge.log import Log, Subscribed
from brokerlab.bridge.suspicion import OFTEN, Suspicion
from brokerlab.bridge.values import Route
from brokerlab.bridge.walks import (
    COLUMNS,
    DIGEST,
    FULL,
    LOOPED,
    MALFORMED,
    NEED_MORE,
    OTHER,
    RECEIVED_BYTES,
    RECEIVED_COUNT,
    REPEATED,
    Bytes,
    Longs,
    emit,
    walk_inlet,
)
from brokerlab.load.packets import (
    FIRST_FAILURE,
    REASONS,
    ConnAck,
    Disconnect,
    Packet,
    PingResp,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)

_ROWS = 4096
_SUBSCRIBE_ID, _UNSUBSCRIBE_ID = 1, 2
_AS_PUBLISHED, _IF_NEW = 0x08, 0x10  # MQTT 5.0 section 3.8.3.1: retain as published; retained messages if it is new


class Crossing(Protocol):
    """What an inlet asks of its route, and tells it."""

    def room(self) -> int: ...
    def pass_on(self, buffer: Bytes, rows: Longs, count: int) -> None: ...
    def session_lost(self) -> None: ...
    def subscribed(self) -> None: ...
    def told(self, link: Link, reason: str, *, is_final: bool) -> None: ...


class Inlet:
    """Implements Owner of its link."""

    def __init__(
        self, link: Link, route: Route, log: Log, kept: Subscribed, counters: Counters, crossing: Crossing, *,
        mark: Bytes, now_s: Callable[[], int],
    ) -> None:  # fmt: skip
        """`mark` is the property of messages that were at the target already."""
        self.link, self._route, self._log, self._kept = link, route, log, kept
        self._counters, self._crossing, self._now_s = counters, crossing, now_s
        self._mark = mark if link.broker.level >= 5 else mark[:0]
        self._rows = np.empty((_ROWS, COLUMNS), dtype=np.int64)
        self._acks = np.empty(4 * 65_536, dtype=np.uint8)
        self._tally = np.zeros(4, dtype=np.int64)
        self._suspicion = Suspicion()
        self._is_closing = self._is_busy = False
        self.is_subscribed = False
        link.owner = self

    # -- reading --------------------------------------------------------------------------------------------------

    def came(self) -> None:
        self.go_on()

    def go_on(self) -> None:
        """Passes on what is here, as far as there is room, and reads on or not."""
        link = self.link
        if self._is_busy or not link.is_open:
            return  # who is at work already looks for room again
        self._is_busy = True
        try:
            why = self._walk()
        finally:
            self._is_busy = False
        self._count()
        self.acknowledge()
        is_reading = why == NEED_MORE and not self._is_closing
        if link.is_open and not is_reading and link.is_reading:
            self._counters.paused += 1
        link.read_on(is_reading)
        link.shrink()

    def _walk(self) -> int:
        """Why it stopped."""
        link, why = self.link, FULL
        while why in (FULL, OTHER) and link.is_open:
            room = min(self._crossing.room(), _ROWS)
            if room <= 0 or self._is_closing:
                return FULL
            link.at, count, used, why = walk_inlet(
                link.buffer, link.end, link.at, link.broker.level, self._rows, room, self._route.workers, self._mark,
                self._log.memory, self._now_s(), self._log.upstream, self._log.downstream, self._acks, self._tally,
            )  # fmt: skip
            if used:
                link.put(memoryview(self._acks[:used].tobytes()))
            if count:
                self._suspect(count)
                self._crossing.pass_on(link.buffer, self._rows, count)
            if why == OTHER:
                self._other()
            elif why == MALFORMED:
                link.drop("its bytes are no MQTT")
        return why

    def _suspect(self, count: int) -> None:
        if self._log.memory.keys.size and self._suspicion.look(self._rows[:count, DIGEST], self._now_s()):
            self._counters.suspected += 1
            often = f"the same message came {OFTEN} times a second and more"
            self._crossing.told(
                self.link, f"{often}: if bridges make a circle, protocol 5.0 at its brokers stops it", is_final=False
            )

    def warm(self) -> None:
        """Calls every compiled walk once, with nothing to do."""
        up, down, link = self._log.upstream, self._log.downstream, self.link
        walk_inlet(
            link.buffer, 0, 0, 4, self._rows, 0, 1, self._mark, self._log.memory, 0, up, down, self._acks, self._tally
        )  # fmt: skip
        if up.ends[0] == up.ends[1]:
            emit(up, self._acks)

    def _count(self) -> None:
        counters, tally = self._counters, self._tally
        counters.received += int(tally[RECEIVED_COUNT])
        counters.received_bytes += int(tally[RECEIVED_BYTES])
        counters.looped += int(tally[LOOPED])
        counters.repeated += int(tally[REPEATED])
        tally[:] = 0

    def acknowledge(self) -> None:
        """Tells the source what is through, while it is there to hear it."""
        ends = self._log.upstream.ends
        if self.link.is_open and ends[0] != ends[1] and (used := emit(self._log.upstream, self._acks)):
            self.link.put(memoryview(self._acks[:used].tobytes()))

    def close(self) -> None:
        """Takes nothing more."""
        self._is_closing = True
        self.link.read_on(False)

    # -- the subscription -----------------------------------------------------------------------------------------

    def opened(self, answer: ConnAck) -> None:
        self.link.read_on(True)
        before = self._kept.read()
        if not answer.session_present:
            if before and self._route.qos:
                self._counters.sessions_lost += 1
            self._crossing.session_lost()
            before = {}
        wanted = dict.fromkeys(self._route.filters, self._route.qos)
        if before == wanted:
            self._granted()
            return
        level = self.link.broker.level
        if stale := tuple(topic_filter for topic_filter in before if topic_filter not in wanted):
            self.link.put(memoryview(Unsubscribe(_UNSUBSCRIBE_ID, stale).encode(level)))
        options = self._route.qos | ((_AS_PUBLISHED if self._route.retain else 0) | _IF_NEW if level >= 5 else 0)
        filters = tuple((topic_filter, options) for topic_filter in wanted)
        self.link.put(memoryview(Subscribe(_SUBSCRIBE_ID, filters).encode(level)))

    def _other(self) -> None:
        packet: Packet
        packet, self.link.at = next_packet(self.link)
        match packet:
            case SubAck(return_codes=codes):
                self._answered(codes)
            case PingResp() | UnsubAck():
                pass
            case Disconnect(reason_code=code):
                self.link.drop(f"it closed the connection: {REASONS.get(code, 'unknown reason')}")
            case _:
                self.link.drop(f"an unexpected {type(packet).__name__.upper()}")

    def _answered(self, codes: tuple[int, ...]) -> None:
        granted = dict(zip(self._route.filters, codes, strict=False))
        refused = [topic_filter for topic_filter, code in granted.items() if code >= FIRST_FAILURE]
        if refused or len(granted) < len(self._route.filters):
            names = ", ".join(refused or self._route.filters)
            self.link.drop(f"it refuses the subscription to {names}", is_final=True)
            return
        if lower := [code for code in codes if code < self._route.qos]:
            less = f"it grants QoS {min(lower)} where {self._route.qos} was asked for"
            self._crossing.told(self.link, less, is_final=False)
        self._kept.write(dict.fromkeys(self._route.filters, self._route.qos))
        self._granted()

    def _granted(self) -> None:
        self.is_subscribed = True
        self._crossing.subscribed()

    def drained(self) -> None:
        """Nothing waits for that."""

    def lost(self) -> None:
        self.is_subscribed = False
        self._counters.reconnected += 1

    def failed(self, reason: str, *, is_final: bool) -> None:
        self._crossing.told(self.link, reason, is_final=is_final)
