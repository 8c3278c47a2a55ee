"""The role of devices (C-03): each answers every message that it hears at once, byte for byte, on another topic.

A request of MQTT 5.0 names the topic of its answer itself, and gets its correlation data back.
"""

import time
from collections import deque
from collections.abc import Callable, MutableSequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import echowalk, wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.ears import Bytes, Ear, Ears
from brokerlab.load.hearing import Hearing
from brokerlab.load.packets import encode_length
from brokerlab.load.pieces import Block, Piece
from brokerlab.load.properties import CORRELATION_DATA
from brokerlab.load.publisher import Publisher
from brokerlab.load.publishing import Publishing
from brokerlab.load.resting import Rest
from brokerlab.load.role import Connections, Report, Say
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import (
    Client,
    Connect,
    Connected,
    Drain,
    Go,
    Progress,
    Stock,
    Stopped,
    Subscribe,
    Subscribed,
    WorkerSpec,
)

Longs = NDArray[np.int64]

_ROWS = 65_536
_Body = tuple[bytes, bytes]  # what stands before the packet identifier of an answer and after it


class Answers:
    """The answers of one device that are not sent yet; implements Messages, and builds what was asked for first."""

    def __init__(
        self, client: Client, *, qos: int, level: int, payload_bytes: int, note: Callable[[int], None]
    ) -> None:  # fmt: skip
        """`note` is told of the payload bytes that are to be answered."""
        self._note = note
        self._topic, self._qos, self._level = client.topic.encode(), qos, level
        self.count = None  # as many as are asked for
        self._bodies: deque[_Body] = deque()
        self._built: deque[tuple[int, _Body]] = deque()  # with the sequence number; may not be handed over yet
        self.received_ns: deque[int] = deque()
        self._sizes: deque[int] = deque()  # of payloads that are not recorded yet
        self.largest = self.built_bytes = len(self._topic) + payload_bytes + 16

    def take(self, view: Bytes, places: Longs, arrived_ns: int) -> None:
        for begin, end, topic_at, topic_bytes, data_at, data_bytes in places.tolist():
            topic = view[topic_at : topic_at + topic_bytes].tobytes() if topic_bytes else self._topic
            block = b""
            if self._level >= 5:
                data = view[data_at : data_at + data_bytes].tobytes()
                block = bytes((CORRELATION_DATA,)) + len(data).to_bytes(2, "big") + data if data_bytes else b""
                block = encode_length(len(block)) + block
            rest = block + view[begin:end].tobytes()
            head = len(topic).to_bytes(2, "big") + topic
            size = len(head) + len(rest) + (2 if self._qos else 0)
            self._bodies.append((bytes((0x30 | self._qos << 1,)) + encode_length(size) + head, rest))
            self.received_ns.append(arrived_ns)
            self._sizes.append(end - begin)
            self._note(end - begin)

    def __len__(self) -> int:
        return len(self._bodies)

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        packets = []
        for seq in range(first_seq, first_seq + intended_ns.size):
            before, after = body = self._bodies.popleft()
            self._built.append((seq, body))
            packets.append(before + (wire.packet_id(seq).to_bytes(2, "big") if self._qos else b"") + after)
        ends = np.cumsum([len(packet) for packet in packets], dtype=np.int64)
        return (Piece(memoryview(b"".join(packets)), ends=ends),)

    def forget(self, handed: int) -> None:
        """All before this sequence number were handed over."""
        while self._built and self._built[0][0] < handed:
            self._built.popleft()

    def take_back(self, handed: int, received_ns: Longs) -> None:
        """Those from this sequence number on were not, and are to be built anew: first, as they were received first."""
        while self._built and self._built[-1][0] >= handed:
            self._bodies.appendleft(self._built.pop()[1])
        self.received_ns.extendleft(received_ns[::-1].tolist())

    def payload_bytes(self, _first_seq: int, count: int) -> Longs:
        """Is asked once for each message, in their order."""
        return np.array([self._sizes.popleft() for _ in range(count)], dtype=np.int64)


class Device:
    """One client that answers; implements ears.Hearer."""

    def __init__(self, publisher: Publisher, answers: Answers, *, level: int) -> None:
        self._publisher, self._answers, self._level = publisher, answers, level
        self._places: Longs = np.empty((_ROWS, 6), dtype=np.int64)

    def heard(self, view: Bytes, begin: int, end: int, held: Bytes, arrived_ns: int) -> None:
        count = echowalk.find_payloads(view, begin, end, self._level, held, self._places)
        self._answers.take(view, self._places[:count], arrived_ns)
        self.done()

    def done(self) -> None:
        """Sends what waits, as far as there is room for it in flight."""
        self._answers.forget(self._publisher.outbox.handed)
        while count := min(len(self._answers), self._publisher.room(), self._publisher.block):
            received = [self._answers.received_ns.popleft() for _ in range(count)]
            self._publisher.send(np.array(received, dtype=np.int64))

    def leave(self) -> None:
        """Answers that were not handed over wait for the next connection."""
        self._answers.take_back(self._publisher.following, self._publisher.due)
        self._publisher.give_up()


class Echoing:
    """Implements Role."""

    def __init__(
        self, spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say,
        counts: MutableSequence[int], progress: Progress,
    ) -> None:  # fmt: skip
        self._spec, self._say, self._counts = spec, say, counts
        self._ears = Ears(spec, log, note=lambda _total: None, subscribed=self._granted)
        self._answers: dict[int, Answers] = {}
        self._publishing = Publishing(
            spec, connections, log, self._hear_report, counts, progress, hearing=Hearing(self._listen, self._make)
        )
        self._cpu_ns = self._wall_ns = 0
        self._is_over = False
        self.gather_s, self.rest = 0.0, Rest.NONE

    def _granted(self, granted: Subscribed) -> None:
        """Devices are no subscribers of the run."""
        self._say(Subscribed(devices=granted.granted))

    def _hear_report(self, report: Report) -> None:
        """What Publishing would say to the lab: nobody waits until devices have sent everything."""
        if isinstance(report, Connected):
            self._say(report)

    def _make(self, client: Client, level: int) -> Answers:
        workload = self._spec.workload
        self._answers[client.number] = Answers(
            client, qos=workload.qos, level=level, payload_bytes=workload.payload_bytes, note=self._note
        )
        return self._answers[client.number]

    def _note(self, payload_bytes: int) -> None:
        self._counts[self._spec.heard_index] += payload_bytes

    def _listen(self, publisher: Publisher) -> Ear:
        device = Device(publisher, self._answers[publisher.client.number], level=self._ears.level)
        return Ear(self._ears, publisher, hearer=device)

    # -- what the lab asks for ------------------------------------------------------------------------------------

    def connect(self, order: Connect) -> None:
        self._publishing.connect(order)

    def subscribe(self, order: Subscribe) -> None:
        self._ears.subscribe(order, self._publishing)

    def go(self, order: Go) -> None:
        self._publishing.go(order)
        self._ears.go(order, self._publishing)
        self._cpu_ns, self._wall_ns = -time.process_time_ns(), -now_ns()

    def retime(self, order: Go) -> None:
        self._publishing.retime(order)
        self._ears.retime(order)

    def drain(self, _order: Drain) -> None:
        self._cpu_ns += time.process_time_ns()
        self._wall_ns += now_ns()
        self._is_over = True

    def halt(self) -> None:
        self._publishing.halt()

    def stock(self) -> Stock:
        return replace(self._publishing.stock(), **self._ears.watched())

    def close(self) -> Stopped:
        self._ears.close()
        said = self._publishing.close()
        return replace(
            said,
            cpu_ns=max(0, self._cpu_ns) if self._is_over else 0,
            wall_ns=max(0, self._wall_ns) if self._is_over else 0,
            heard=self._ears.rows.total,
            retransmissions=self._ears.retransmissions,
            lag_buckets=(),
            lag_max_ns=0,
            waited=0,
            device_buckets=said.lag_buckets,
            device_max_ns=said.lag_max_ns,
            **self._ears.watched(),
        )

    # -- what the loop calls --------------------------------------------------------------------------------------

    def tick(self, now: int) -> int | None:
        wakes = [wake_ns for wake_ns in (self._publishing.tick(now), self._ears.tick(now)) if wake_ns is not None]
        return min(wakes, default=None)

    def ready(self, fd: int, event: int) -> None:
        self._publishing.ready(fd, event)
