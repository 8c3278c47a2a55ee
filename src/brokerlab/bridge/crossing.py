"""One route at work: its inlet, its lanes, and the transformer between them."""

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from brokerlab.bridge.counters import Counters
from brokerlab.bridge.hands import Hand, Outcome, outcome
from brokerlab.bridge.inlet import Inlet
from brokerlab.bridge.lane import Lane
from brokerlab.bridge.link import Link
from brokerlab.bridge.log import Log
from brokerlab.bridge.steps import Message
from brokerlab.bridge.topics import rewritten
from brokerlab.bridge.values import Route
from brokerlab.bridge.walks import (
    COLUMNS,
    DOWNSTREAM,
    END,
    FIRST,
    LANE,
    PAYLOAD_AT,
    PROPERTIES_AT,
    PROPERTIES_BYTES,
    TOPIC_AT,
    TOPIC_BYTES,
    UPSTREAM,
    Bytes,
    Longs,
    finish,
)
from brokerlab.load.packets import MalformedPacketError, Publish, encode_length
from brokerlab.load.parser import Parser
from brokerlab.load.properties import Properties, encode_properties

_MOST_TOPICS = 65_536  # whose rewriting is remembered
_SPARE_BYTES = 1024  # of a packet for what stands around the payload
_LONGEST_TOPIC = 65_535
_BATCH = 256  # messages that a hand gets at once
Told = Callable[[Link, str, bool], None]
_Taken = tuple[list[int], Message]  # a row, and the message that it told of


@dataclass(slots=True)
class _Table:
    """The work of one hand."""

    hand: Hand
    waiting: deque[_Taken] = field(default_factory=deque)
    given: list[_Taken] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.waiting) + len(self.given)


class Crossing:
    """Implements what its inlet and its lanes ask for."""

    def __init__(
        self, route: Route, log: Log, counters: Counters, hands: Sequence[Hand], *, told: Told,
        joined: Callable[[], None],
    ) -> None:  # fmt: skip
        """Without hands messages are transformed here."""
        self.route, self.log, self.counters = route, log, counters
        self._tables = [_Table(hand) for hand in hands]
        self._told, self._joined = told, joined
        self.inlet: Inlet
        self.lanes: list[Lane] = []
        self._book: dict[bytes, tuple[int, int]] = {}  # a topic -> where its rewriting lies in `_names`
        self._names = np.zeros(2**16, dtype=np.uint8)
        self._names_end = 0

    def warm(self) -> None:
        """Has everything compiled, before a message waits for it."""
        self.inlet.warm()
        nothing, rows = np.zeros(1, dtype=np.uint8), np.zeros((1, COLUMNS), dtype=np.int64)
        for lane in self.lanes[:1]:
            lane.warm(nothing, rows)

    @property
    def is_joined(self) -> bool:
        return self.inlet.is_subscribed and all(lane.is_ready for lane in self.lanes)

    @property
    def is_awaited(self) -> bool:
        """Whether the source waits for acknowledgements."""
        ends = self.log.upstream.ends
        return bool(ends[0] != ends[1])

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way to the target."""
        return not any(lane.is_busy for lane in self.lanes) and not any(table.count for table in self._tables)

    # -- from the inlet -------------------------------------------------------------------------------------------

    def room(self) -> int:
        if self._tables:
            return min(lane.room() - table.count for lane, table in zip(self.lanes, self._tables, strict=True))
        return min(lane.room() for lane in self.lanes)

    def pass_on(self, buffer: Bytes, rows: Longs, count: int) -> None:
        """Sends the messages of the rows, each over its lane."""
        longest = min(lane.longest_packet for lane in self.lanes) - _SPARE_BYTES
        sizes = rows[:count, END] - rows[:count, PAYLOAD_AT] + rows[:count, PROPERTIES_BYTES]
        is_plain = not self.route.steps and not np.any(sizes > longest)
        if not is_plain or (self.route.topics and not self._rename(buffer, rows, count)):
            self._transform([(row, self._message(buffer, row)) for row in rows[:count].tolist()])
            return
        names = self._names if self.route.topics else buffer
        for lane in self.lanes:
            lane.take(buffer, names, rows, count)

    def _rename(self, buffer: Bytes, rows: Longs, count: int) -> bool:
        """Whether all rows have their new topics; none has where one is no topic that can be published to."""
        places = []
        for at, size in rows[:count, TOPIC_AT : TOPIC_BYTES + 1].tolist():
            topic = buffer[at : at + size].tobytes()
            place = self._book.get(topic)
            if place is None:
                place = self._book[topic] = self._enter(topic)
            places.append(place)
        if not all(0 < size <= _LONGEST_TOPIC for _, size in places):
            return False
        rows[:count, TOPIC_AT : TOPIC_BYTES + 1] = places
        return True

    def _enter(self, topic: bytes) -> tuple[int, int]:
        name = rewritten(topic.decode(errors="replace"), self.route.topics).encode()
        at, self._names_end = self._names_end, self._names_end + len(name)
        while self._names_end > self._names.size:
            self._names = np.concatenate([self._names, np.zeros_like(self._names)])
        self._names[at : self._names_end] = np.frombuffer(name, dtype=np.uint8)
        return at, len(name)

    def _forget_names(self) -> None:
        if len(self._book) > _MOST_TOPICS:
            self._book.clear()
            self._names_end = 0

    def session_lost(self) -> None:
        self.log.forget_upstream()
        for table in self._tables:
            for row, _ in (*table.waiting, *table.given):
                row[UPSTREAM] = row[DOWNSTREAM] = 0
        for lane in self.lanes:
            lane.sweep()

    def subscribed(self) -> None:
        self._joined()

    # -- from the lanes -------------------------------------------------------------------------------------------

    def progress(self) -> None:
        self._forget_names()
        self.inlet.go_on()
        self.counters.in_flight = sum(lane.held for lane in self.lanes)
        self.counters.waiting_bytes = sum(lane.held_bytes + lane.link.unsent_bytes for lane in self.lanes)
        self._joined()

    def drained(self) -> None:
        if not self.inlet.link.is_reading:
            self.progress()

    def refuse(self, message: Publish, upstream: int, lane: int, reason: str) -> None:
        row = [0] * COLUMNS
        row[FIRST], row[UPSTREAM], row[LANE] = 0x30 | message.qos << 1, upstream, lane
        if message.topic == self.route.dead_letters:
            self.counters.refused += 1
            self._told(self.lanes[lane].link, f"a dead letter is refused too, and lost: {reason}", False)
            self._let_go(row)
            return
        bad = Message(message.topic, message.payload, message.qos)
        self._send([(row, self._dead_letter(bad, reason))])

    def told(self, link: Link, reason: str, *, is_final: bool) -> None:
        self._told(link, reason, is_final)

    # -- the transformer ------------------------------------------------------------------------------------------

    def _transform(self, messages: list[_Taken]) -> None:
        """Here, or by the hand of each message's lane."""
        if not self._tables:
            self._finish(
                [(row, message, outcome(self._renamed(message), self.route.steps)) for row, message in messages]
            )
            return
        for row, message in messages:
            self._tables[row[LANE]].waiting.append((row, message))
        for table in self._tables:
            self._feed(table)

    def _feed(self, table: "_Table") -> None:
        if table.waiting and not table.hand.is_busy:
            table.given = [table.waiting.popleft() for _ in range(min(_BATCH, len(table.waiting)))]
            table.hand.give([self._renamed(message) for _, message in table.given])

    def done(self, hand: Hand) -> None:
        """A hand has done its batch."""
        table = next(each for each in self._tables if each.hand is hand)
        outcomes, given = hand.take(), table.given
        table.given = []
        self._feed(table)
        self._finish([(row, message, made) for (row, message), made in zip(given, outcomes, strict=True)])
        self.progress()

    def _finish(self, made: list[tuple[list[int], Message, Outcome]]) -> None:
        longest = min(lane.longest_packet for lane in self.lanes) - _SPARE_BYTES
        ready: list[tuple[list[int], Message | None]] = []
        for row, message, found in made:
            reason = found if isinstance(found, str) else _fault(found, longest)
            changed = None if isinstance(found, str) else found
            ready.append((row, self._dead_letter(message, reason) if reason else changed))
        self._send(ready)

    def _renamed(self, message: Message) -> Message:
        return replace(message, topic=rewritten(message.topic, self.route.topics)) if self.route.topics else message

    def _message(self, buffer: Bytes, row: list[int]) -> Message:
        topic = buffer[row[TOPIC_AT] : row[TOPIC_AT] + row[TOPIC_BYTES]].tobytes()
        return Message(
            topic.decode(errors="replace"),
            buffer[row[PAYLOAD_AT] : row[END]].tobytes(),
            row[FIRST] >> 1 & 3,
            bool(row[FIRST] & 1),
            _properties(buffer[row[PROPERTIES_AT] : row[PROPERTIES_AT] + row[PROPERTIES_BYTES]].tobytes()),
        )

    def _dead_letter(self, message: Message, reason: str) -> Message:
        """What became of a message that cannot pass: all of it, and why."""
        self.counters.dead += 1
        if self.counters.dead == 1:  # thousands may follow, and are counted
            said = f"a message of {message.topic} goes to {self.route.dead_letters}, and so do others like it: {reason}"
            self._told(self.inlet.link, said, False)
        payload, room = message.payload, min(lane.longest_packet for lane in self.lanes) - 4 * _SPARE_BYTES
        content: dict[str, object] = {"reason": reason, "route": self.route.name, "topic": message.topic[:_SPARE_BYTES]}
        if len(payload) * 4 // 3 > room:
            payload = payload[: max(0, room * 3 // 4)]
            content["cut_from_bytes"] = len(message.payload)
        try:
            content["payload"] = payload.decode()
        except UnicodeDecodeError:
            content["payload_base64"] = base64.b64encode(payload).decode()
        text = json.dumps(content, ensure_ascii=False).encode()
        if len(text) > room + 2 * _SPARE_BYTES:
            content.pop("payload", None)
            content["payload_base64"] = base64.b64encode(payload).decode()
            text = json.dumps(content, ensure_ascii=False).encode()
        return Message(self.route.dead_letters, text, message.qos)

    def _send(self, messages: Iterable[tuple[list[int], Message | None]]) -> None:
        """Sends messages as they are now; those that are None are acknowledged, and go no further."""
        data = bytearray()
        rows: list[list[int]] = []
        for row, message in messages:
            if message is None:
                self.counters.dropped += 1
                self._let_go(row)
                continue
            topic = message.topic.encode()
            block = encode_properties(message.properties, encode_length)
            row[FIRST] = row[FIRST] & 0x0E | 0x30 | message.retain
            row[TOPIC_AT], row[TOPIC_BYTES] = len(data), len(topic)
            row[PROPERTIES_AT], row[PROPERTIES_BYTES] = len(data) + len(topic), len(block)
            row[PAYLOAD_AT] = row[PROPERTIES_AT] + len(block)
            row[END] = row[PAYLOAD_AT] + len(message.payload)
            data += topic + block + message.payload
            rows.append(row)
        if rows:
            # Of a bytearray: an array that cannot be written would be another type to the compiled walks.
            source, table = np.frombuffer(data, dtype=np.uint8), np.array(rows, dtype=np.int64)
            for lane in self.lanes:
                lane.take(source, source, table, len(rows))

    def _let_go(self, row: list[int]) -> None:
        """A message that does not go on is acknowledged; so is one whose sending was begun before a stop."""
        upstream = row[UPSTREAM]
        if upstream and self.log.upstream.place[upstream] >= 0:
            if row[DOWNSTREAM]:
                self.log.downstream.source[row[LANE], row[DOWNSTREAM]] = 0
            finish(self.log.upstream, upstream)
            if row[DOWNSTREAM]:
                self.lanes[row[LANE]].sweep()


def _fault(message: Message | None, longest: int) -> str:
    """Why it cannot be published; empty where it can."""
    if message is None:
        return ""
    try:
        topic, block = message.topic.encode(), encode_properties(message.properties, encode_length)
    except (ValueError, KeyError, AttributeError, TypeError) as problem:
        return f"its topic or its properties cannot be written: {problem}"
    if not topic or len(topic) > _LONGEST_TOPIC or any(character in message.topic for character in "+#\0"):
        return f"it has no topic that can be published to: {message.topic[:60]!r}"
    if len(message.payload) + len(block) > longest:
        return f"{len(message.payload) + len(block)} bytes are more than the target takes ({longest})"
    return ""


def _properties(block: bytes) -> Properties:
    """Of a PUBLISH; those that cannot be read are left out."""
    if not block:
        return ()
    body = encode_length(len(block)) + block
    packet = b"\x30" + encode_length(3 + len(body)) + b"\0\x01x" + body
    try:
        publish = Parser(5).feed(packet)[0]
    except MalformedPacketError:
        return ()
    return publish.properties if isinstance(publish, Publish) else ()
