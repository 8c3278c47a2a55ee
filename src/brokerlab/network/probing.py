"""Probes from inside the network: echoes that give round trips, and trains of datagrams that give loss and rate.

Arrival times are the kernel's own (SO_TIMESTAMPNS), so that a busy machine that reads late measures no delay. Sending
times are taken just before the call. Sockets belong to the namespace that they are made in; one thread serves all.
"""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from brokerlab.inside import inside

HEADER_BYTES = 14 + 20 + 8  # Ethernet, IPv4, and UDP or ICMP
SMALL_BYTES = HEADER_BYTES + 16  # a frame of a probe that holds its number and time
LARGE_BYTES = HEADER_BYTES + 1400
_PROBE = struct.Struct("!qq")  # number, time of sending
_ECHO = struct.Struct("!BBHHH")
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_SO_TIMESTAMPNS = 35
_BUFFER_BYTES = 32 << 20
_STAMP = struct.Struct("qq")
_TICK_S = 0.0005


@dataclass(slots=True)
class Echo:
    """Round trips between an address and the namespace that asks it."""

    namespace: str
    destination: str
    rtts_ms: dict[int, float] = field(default_factory=dict)
    sent: int = 0

    @property
    def median_ms(self) -> float | None:
        return float(np.median(list(self.rtts_ms.values()))) if self.rtts_ms else None


@dataclass(slots=True)
class Train:
    """Datagrams one way, and when those that came did."""

    source: str  # a namespace
    target: str
    address: str  # of the target
    count: int
    interval_s: float
    frame_bytes: int = SMALL_BYTES
    sent: int = 0
    arrivals: list[tuple[int, int, int]] = field(default_factory=list)  # number, sent_ns, arrived_ns; as they came

    @property
    def lost(self) -> int:
        return self.sent - len({number for number, _, _ in self.arrivals})

    @property
    def delay_ms(self) -> float | None:
        """The median, of the first copy of each."""
        first: dict[int, int] = {}
        for number, sent_ns, arrived_ns in self.arrivals:
            first.setdefault(number, arrived_ns - sent_ns)
        return float(np.median(list(first.values()))) / 1e6 if first else None

    @property
    def rate_bits_per_s(self) -> float | None:
        """The slope of bytes over time of arrival, without the beginning, in which a burst may pass."""
        arrived_ns = np.sort(np.array([at for _, _, at in self.arrivals], dtype=np.int64))
        arrived_ns = arrived_ns[len(arrived_ns) // 5 :]
        if len(arrived_ns) < 10:
            return None
        frames = np.arange(len(arrived_ns), dtype=np.float64)
        ns_per_frame = np.polyfit(frames, (arrived_ns - arrived_ns[0]).astype(np.float64), 1)[0]
        return float(self.frame_bytes * 8e9 / ns_per_frame) if ns_per_frame > 0 else None


def run_echoes(echoes: Sequence[Echo], *, count: int, interval_s: float, patience_s: float) -> None:
    """Asks all destinations so many times, all at once, and waits so long for the last answers."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(_echo_socket(each)) for each in echoes]
        identity = os.getpid() & 0xFFFF
        start = time.monotonic()
        for number in range(count):
            _sleep_until(start + number * interval_s)
            for each, way in zip(echoes, sockets, strict=True):
                _ask(way, identity, each.sent)
                each.sent += 1
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and any(len(each.rtts_ms) < each.sent for each in echoes):
            for each, way in zip(echoes, sockets, strict=True):
                _collect_answers(each, way, identity)
            time.sleep(_TICK_S * 4)
        for each, way in zip(echoes, sockets, strict=True):
            _collect_answers(each, way, identity)


def run_trains(trains: Sequence[Train], *, patience_s: float) -> None:
    """Sends all trains at once, each at its own pace, and waits so long for the last to arrive."""
    with ExitStack() as stack:
        ends = [stack.enter_context(_train_sockets(each)) for each in trains]
        start = time.monotonic()
        while any(each.sent < each.count for each in trains):
            now = time.monotonic() - start
            for each, (out, _) in zip(trains, ends, strict=True):
                _send_due(each, out, now)
            time.sleep(_TICK_S)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and any(each.lost > 0 for each in trains):
            time.sleep(_TICK_S * 4)
            for each, (_, arriving) in zip(trains, ends, strict=True):
                _collect_arrivals(each, arriving)
        for each, (_, arriving) in zip(trains, ends, strict=True):
            _collect_arrivals(each, arriving)


def _sleep_until(at: float) -> None:
    if (left_s := at - time.monotonic()) > 0:
        time.sleep(left_s)


# -- echoes ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _echo_socket(echo: Echo) -> Iterator[socket.socket]:
    with inside(echo.namespace):
        way = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with way:
        _listen(way)
        way.connect((echo.destination, 0))  # answers of others are not ours
        yield way


def _ask(way: socket.socket, identity: int, number: int) -> None:
    body = _PROBE.pack(number, time.time_ns())
    head = _ECHO.pack(_ECHO_REQUEST, 0, 0, identity, number & 0xFFFF)
    sum_ = checksum(head + body)
    with contextlib.suppress(BlockingIOError):
        way.send(_ECHO.pack(_ECHO_REQUEST, 0, sum_, identity, number & 0xFFFF) + body)


def checksum(content: bytes) -> int:
    """RFC 1071, of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(content) // 2}H", content))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def _collect_answers(echo: Echo, way: socket.socket, identity: int) -> None:
    for content, arrived_ns in _received(way):
        packet = content[(content[0] & 15) * 4 :]
        kind, _, _, theirs, _ = _ECHO.unpack_from(packet)
        if kind == _ECHO_REPLY and theirs == identity:
            number, sent_ns = _PROBE.unpack_from(packet, _ECHO.size)
            echo.rtts_ms.setdefault(number, (arrived_ns - sent_ns) / 1e6)


# -- trains ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _train_sockets(train: Train) -> Iterator[tuple[socket.socket, socket.socket]]:
    with inside(train.target):
        arriving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with arriving:
        arriving.bind((train.address, 0))
        _listen(arriving)
        with inside(train.source):
            out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with out:
            out.setblocking(False)
            out.connect(arriving.getsockname())
            yield out, arriving


def _send_due(train: Train, out: socket.socket, now_s: float) -> None:
    filler = bytes(train.frame_bytes - SMALL_BYTES)
    while train.sent < train.count and train.sent * train.interval_s <= now_s:
        try:
            out.send(_PROBE.pack(train.sent, time.time_ns()) + filler)
        except BlockingIOError:
            return  # the way out is full: the rest when there is room
        train.sent += 1


def _collect_arrivals(train: Train, arriving: socket.socket) -> None:
    for content, arrived_ns in _received(arriving):
        number, sent_ns = _PROBE.unpack_from(content)
        train.arrivals.append((number, sent_ns, arrived_ns))


# -- what both have -------------------------------------------------------------------------------------------------


def _listen(way: socket.socket) -> None:
    way.setblocking(False)
    way.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    way.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _BUFFER_BYTES)


def _received(way: socket.socket) -> Iterator[tuple[bytes, int]]:
    """All that has come, each with its time."""
    while True:
        try:
            content, ancillary, _, _ = way.recvmsg(2048, 64)
        except (BlockingIOError, ConnectionRefusedError):
            return
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _STAMP.unpack_from(data)
                yield content, seconds * 1_000_000_000 + nanoseconds
