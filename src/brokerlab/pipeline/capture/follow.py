"""One connection after the other: its segments, part by part of the file, to its packets."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from brokerlab.pipeline.capture import mqtt, streams
from brokerlab.pipeline.capture.compiled import Bytes, Longs

OUT, IN = 0, 1  # from the broker, to it

_ROWS = 1 << 16


def _none(columns: int) -> list[Longs]:
    return [np.empty((0, columns), dtype=np.int64) for _ in (OUT, IN)]


@dataclass(slots=True)
class Counts:
    """Of both directions together."""

    gaps: int = 0
    gap_bytes: int = 0
    reordered: int = 0  # segments that came before an earlier one of their stream
    unread_bytes: int = 0  # in no packet
    lost_step: int = 0  # how often the beginning of the next packet was lost
    cut_packets: int = 0  # that the capture ends in
    connections: int = 0
    unopened: int = 0  # of those: without their beginning
    foreign: int = 0  # of those: something else than MQTT, or MQTT inside of something else (TLS, WebSocket)


@dataclass(slots=True)
class _State:
    """What is known of a connection between two parts of a file."""

    streams: Longs = field(default_factory=lambda: np.zeros((2, streams.STATE), dtype=np.int64))
    reading: Longs = field(default_factory=lambda: np.array([[-1, 0, 0]] * 2, dtype=np.int64))
    about: Longs = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    waiting: list[Longs] = field(default_factory=lambda: _none(5))
    pieces: list[Longs] = field(default_factory=lambda: _none(4))  # of a packet that is not complete
    aliases: list[Longs] = field(default_factory=lambda: _none(2))


@dataclass(slots=True)
class Room:
    """Memory that all connections use in turn."""

    rows: Longs = field(default_factory=lambda: np.empty((_ROWS, mqtt.COLUMNS), dtype=np.int64))
    scratch: Bytes = field(default_factory=lambda: np.empty(65_536, dtype=np.uint8))


class Connection:
    """Between one client and one broker; the same addresses and ports may serve several, one after the other."""

    def __init__(self, data: Bytes, room: Room, *, is_hashed: bool = True) -> None:
        """`is_hashed`: whether anybody asks for the hashes of topics and payloads."""
        self._data, self._room, self._is_hashed = data, room, is_hashed
        self._state = _State()
        self.gaps = np.zeros((2, streams.COUNTS), dtype=np.int64)
        self.unread = np.zeros(3, dtype=np.int64)
        self._connections, self._unopened, self._foreign = 0, 0, 0

    def feed(self, segments: Longs, fresh: Longs) -> Iterator[Longs]:
        """The packets that are complete with these segments; `fresh` gets how many bytes of each segment were new.

        They come in portions, each of which is there until the next is asked for.
        """
        at = 0
        while True:
            state = self._state
            at, pieces = streams.arrange(segments, at, state.streams, self.gaps, state.waiting, fresh)
            yield from self._read(pieces, is_final=False)
            if at == len(segments):
                return
            yield from self.finish()

    def finish(self) -> Iterator[Longs]:
        """What can be read although the rest is missing; the next segment begins another connection."""
        state = self._state
        rest = streams.give_up_all(state.streams, self.gaps, state.waiting)
        yield from self._read(rest, is_final=True)
        self._connections += 1
        self._unopened += not state.streams[IN, streams.HAS_START]
        self._foreign += int(state.about[mqtt.IS_FOREIGN])
        self._state = _State()

    def _read(self, pieces: list[Longs], *, is_final: bool) -> Iterator[Longs]:
        """Towards the broker first: CONNECT says which version the answers are in."""
        state = self._state
        for way in (IN, OUT):
            if state.streams[way, streams.HAS_START] and state.reading[way, mqtt.BEGIN] < 0:
                state.reading[way, : mqtt.REACH] = state.streams[way, streams.START], mqtt.AT_START
            state.reading[way, mqtt.REACH] = state.streams[way, streams.NEXT]
            own = pieces[way] if not len(state.pieces[way]) else np.concatenate([state.pieces[way], pieces[way]])
            if len(own):
                yield from self._read_way(way, own, is_final)

    def _read_way(self, way: int, pieces: Longs, is_final: bool) -> Iterator[Longs]:
        """Packets, as many at a time as there is room for."""
        state, room, used, missing = self._state, self._room, 0, mqtt.ROWS
        while missing != mqtt.NOTHING:
            n, used, missing = mqtt.read_packets(
                self._data, pieces, used, way == IN, is_final, self._is_hashed, state.reading[way], state.about,
                self.unread, state.aliases[way], room.rows, room.scratch,
            )  # fmt: skip
            if n:
                yield room.rows[:n]
            if missing == mqtt.ALIASES:
                state.aliases[way] = np.full((65_536, 2), -1, dtype=np.int64)
            elif missing > mqtt.ALIASES:
                room.scratch = np.empty(missing * 2, dtype=np.uint8)
        state.pieces[way] = pieces[used:].copy()

    def counts(self) -> Counts:
        gaps, gap_bytes, reordered = self.gaps.sum(axis=0).tolist()
        unread_bytes, lost_step, cut_packets = self.unread.tolist()
        return Counts(
            gaps, gap_bytes, reordered, unread_bytes, lost_step, cut_packets,
            self._connections, self._unopened, self._foreign,
        )  # fmt: skip
