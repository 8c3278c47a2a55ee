"""Capture files made by hand: MQTT packets on TCP connections, in any link layer and container."""

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ETHERNET, RAW, COOKED, COOKED2, NULL, LOOP = 1, 101, 113, 276, 0, 108


@dataclass(frozen=True)
class Frame:
    at_ns: int
    data: bytes
    captured: int | None = None  # bytes of it that are in the file


def text(value: str) -> bytes:
    return len(value.encode()).to_bytes(2, "big") + value.encode()


def packet(first: int, body: bytes) -> bytes:
    length, digits = len(body), b""
    while True:
        length, digit = divmod(length, 128)
        digits += bytes([digit | (0x80 if length else 0)])
        if not length:
            return bytes([first]) + digits + body


def connect(level: int = 4) -> bytes:
    name = "MQIsdp" if level == 3 else "MQTT"
    return packet(0x10, text(name) + bytes([level, 2, 0, 60]) + (b"\0" if level == 5 else b"") + text("me"))


def publish(topic: str, payload: bytes, *, qos: int = 0, number: int = 1, dup: bool = False, properties=None) -> bytes:
    block = b"" if properties is None else bytes([len(properties)]) + properties
    body = text(topic) + (number.to_bytes(2, "big") if qos else b"") + block + payload
    return packet(0x30 | qos << 1 | dup << 3, body)


CONNACK, PINGREQ, PINGRESP, DISCONNECT = b"\x20\x02\0\0", b"\xc0\0", b"\xd0\0", b"\xe0\0"


def puback(number: int) -> bytes:
    return b"\x40\x02" + number.to_bytes(2, "big")


@dataclass
class Talk:
    """A connection: what is said becomes frames, a millisecond apart, with sequence numbers that are right."""

    link: int = ETHERNET
    is_ipv6: bool = False
    vlans: int = 0
    client: tuple[str, int] = ("10.0.0.1", 40_000)
    broker: tuple[str, int] = ("10.0.0.2", 1883)
    seq: dict[bool, int] = field(default_factory=lambda: {True: 100, False: 0xFFFFFF00})
    frames: list[Frame] = field(default_factory=list)
    next_ns: int = START_NS

    def at(self, ms: float) -> "Talk":
        """The next frame is captured so long after the start."""
        self.next_ns = START_NS + round(ms * MS)
        return self

    def open(self) -> "Talk":
        self.add(True, b"", SYN)
        self.add(False, b"", SYN | ACK)
        return self

    def says(self, data: bytes, *, cuts: Sequence[int] = ()) -> "Talk":
        return self._say(True, data, cuts)

    def hears(self, data: bytes, *, cuts: Sequence[int] = ()) -> "Talk":
        return self._say(False, data, cuts)

    def _say(self, to_broker: bool, data: bytes, cuts: Sequence[int]) -> "Talk":
        edges = [0, *cuts, len(data)]
        for start, end in itertools.pairwise(edges):
            self.add(to_broker, data[start:end])
        return self

    def add(self, to_broker: bool, data: bytes, flags: int = PSH | ACK) -> None:
        self.frames.append(Frame(self.next_ns, self.frame(to_broker, data, flags)))
        self.next_ns += MS
        self.seq[to_broker] = (self.seq[to_broker] + len(data) + bool(flags & (SYN | FIN))) % 2**32

    def frame(self, to_broker: bool, data: bytes, flags: int) -> bytes:
        (source, source_port), (target, target_port) = (
            (self.client, self.broker) if to_broker else (self.broker, self.client)
        )
        tcp = struct.pack(">HHIIBBHHH", source_port, target_port, self.seq[to_broker], 1, 5 << 4, flags, 500, 0, 0)
        payload = tcp + data
        if self.is_ipv6:
            options = b"\x06\0" + bytes(6)  # a hop-by-hop header that says nothing
            ends = bytes(15) + bytes([int(source[-1])]) + bytes(15) + bytes([int(target[-1])])
            network = struct.pack(">IHBB", 6 << 28, len(options) + len(payload), 0, 64) + ends + options
        else:
            ends = bytes(map(int, source.split("."))) + bytes(map(int, target.split(".")))
            network = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, 6, 0) + ends
        return self._link_header() + network + payload

    def _link_header(self) -> bytes:
        kind = b"\x86\xdd" if self.is_ipv6 else b"\x08\x00"
        if self.link == ETHERNET:
            return bytes(12) + b"\x81\x00\x00\x07" * self.vlans + kind
        if self.link == COOKED:
            return bytes(14) + kind
        if self.link == COOKED2:
            return kind + bytes(18)
        return b"\x02\0\0\0" if self.link in (NULL, LOOP) else b""


def pcap(frames: Iterable[Frame], *, link: int = ETHERNET, is_big: bool = False, is_nano: bool = True) -> bytes:
    order = ">" if is_big else "<"
    magic = 0xA1B23C4D if is_nano else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link)]
    for frame in frames:
        seconds, ns = divmod(frame.at_ns, 10**9)
        kept = frame.data[: frame.captured]
        fraction = ns if is_nano else ns // 1000
        out.append(struct.pack(order + "IIII", seconds, fraction, len(kept), len(frame.data)) + kept)
    return b"".join(out)


def pcapng(frames: Iterable[Frame], *, link: int = ETHERNET, is_big: bool = False, digits: int = 9) -> bytes:
    """One section with one interface; `digits` with the highest bit set are powers of two."""
    order = ">" if is_big else "<"

    def block(kind: int, body: bytes) -> bytes:
        size = 12 + len(body) + -len(body) % 4
        return struct.pack(order + "II", kind, size) + body + bytes(-len(body) % 4) + struct.pack(order + "I", size)

    options = struct.pack(order + "HHB3xHH", 9, 1, digits, 0, 0)
    out = [
        block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(1, struct.pack(order + "HHI", link, 0, 262_144) + options),
    ]
    for frame in frames:
        ticks = frame.at_ns * 2 ** (digits & 0x7F) // 10**9 if digits & 0x80 else frame.at_ns // 10 ** (9 - digits)
        kept = frame.data[: frame.captured]
        head = struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(kept), len(frame.data))
        out.append(block(6, head + kept))
    return b"".join(out)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
