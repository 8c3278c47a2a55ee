"""The files that captures come in: pcap and pcapng, both byte orders, times in any unit.

A file is cut between records into parts that can be read alone; the planner finds the cuts by walking from record
to record, which touches nothing but their lengths. A part's records are rows of

    DATA    where the frame begins in the file
    CAPTURED, WIRE   bytes of it that are in the file, and that were on the wire
    AT      nanoseconds since 1970
    LINK    link type of its interface
"""

# mypy: disable-error-code="assignment, return-value, arg-type, operator, no-any-return"

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from brokerlab.errors import UserError
from brokerlab.pipeline.capture.compiled import Bytes, Longs, compiled, word32

DATA, CAPTURED, WIRE, AT, LINK = range(5)
WHOLE, CUT_OFF, DAMAGED, FULL = range(4)  # how a walk ended; the last: without room for the next record

SPLIT_BYTES = 64 * 2**20
_AT_ONCE = 1 << 13  # records: rows that are used again before they leave the processor's cache
_LARGEST_RECORD = 2**24 - 1  # libpcap writes 256 KiB at most

_PCAP = {  # magic number in big-endian order: decimal digits of a second's parts
    0xA1B2C3D4: 6,
    0xA1B23C4D: 9,
}
_SECTION, _INTERFACE, _SIMPLE, _ENHANCED, _OLD = 0x0A0D0D0A, 1, 3, 6, 2
_BYTE_ORDER = 0x1A2B3C4D
_TSRESOL, _TSOFFSET = 9, 14  # options of an interface
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"\xfd7": "xz", b"\x04\x22": "lz4"}


@dataclass(frozen=True, slots=True)
class Interface:
    link: int
    is_binary: bool = False  # ticks are 2^-digits seconds, else 10^-digits
    digits: int = 6
    offset_s: int = 0
    longest: int = 0  # of a captured frame; 0: no limit


@dataclass(frozen=True, slots=True)
class Part:
    """Whole records of one file, in [start, end)."""

    path: str
    number: int
    start: int
    end: int
    is_big: bool
    is_pcapng: bool
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True, slots=True)
class Records:
    rows: Longs
    unread_bytes: int  # of the part, after what could not be read
    ended: int  # WHOLE, CUT_OFF or DAMAGED; FULL: others follow


def open_capture(path: str) -> Bytes:
    """The bytes of a file, none of them read yet. (A private mapping, because compiled walks take writable arrays.)"""
    if Path(path).stat().st_size == 0:
        return np.empty(0, dtype=np.uint8)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="c"))


def parts_of(path: str, *, split_bytes: int = SPLIT_BYTES) -> list[Part]:
    """The parts of a file, in its order; a file that is no capture is refused with its name."""
    try:
        data = open_capture(path)
    except OSError as problem:
        raise UserError(f"{path}: the capture cannot be read: {problem.strerror}") from problem
    magic = data[:4].tobytes()
    if magic == struct.pack(">I", _SECTION):
        return list(_pcapng_parts(path, data, split_bytes))
    for is_big, order in ((True, ">I"), (False, "<I")):
        digits = _PCAP.get(struct.unpack(order, magic)[0]) if len(magic) == 4 else None
        if digits is not None and data.size >= 24:
            link = int(word32(data, 20, is_big)) & 0xFFFF  # above it: whether frames end in a checksum
            return list(_cut(path, data, 24, data.size, is_big, False, (Interface(link, digits=digits),), split_bytes))
    raise _not_a_capture(path, data)


def _not_a_capture(path: str, data: Bytes) -> UserError:
    packed = _COMPRESSED.get(data[:2].tobytes())
    if data.size == 0:
        return UserError(f"{path}: not a capture: the file is empty")
    if packed:
        return UserError(f"{path}: the capture is compressed ({packed})", hint="unpack it first")
    return UserError(f"{path}: not a capture: neither pcap nor pcapng", hint="tcpdump -w writes one")


def _cut(
    path: str, data: Bytes, start: int, end: int, is_big: bool, is_pcapng: bool,
    interfaces: tuple[Interface, ...], split_bytes: int, first: int = 0,
) -> Iterator[Part]:  # fmt: skip
    number = first
    while start < end or number == first:
        is_last = end - start <= split_bytes  # and there is nothing to look for
        following = end if is_last else int(next_cut(data, start, end, start + split_bytes, is_big, is_pcapng))
        yield Part(path, number, start, following, is_big, is_pcapng, interfaces)
        start, number = following, number + 1


@compiled("i8(u1[::1], i8, i8, i8, b1, b1)")
def next_cut(data: Bytes, start: int, end: int, wanted: int, is_big: bool, is_pcapng: bool) -> int:
    """The first start of a record at or after `wanted`; `end` where the walk cannot go on."""
    at = start
    while at < wanted:
        if is_pcapng:
            if at + 12 > end:
                return end
            size = word32(data, at + 4, is_big)
            if size < 12 or size % 4:
                return end
        else:
            if at + 16 > end:
                return end
            size = 16 + word32(data, at + 8, is_big)
        if size > _LARGEST_RECORD or at + size > end:
            return end
        at += size
    return at


@compiled("UniTuple(i8, 3)(u1[::1], i8, i8, b1, i8, i8, i8[:, ::1])")
def walk_pcap(
    data: Bytes, start: int, end: int, is_big: bool, digits: int, link: int, rows: Longs
) -> tuple[int, int, int]:
    """How many records a part has, where the walk stopped and why."""
    n, at, ended = 0, start, WHOLE
    per_s = 1_000_000 if digits == 6 else 1_000_000_000
    while at < end:
        if at + 16 > end:
            ended = CUT_OFF
            break
        fraction, captured, wire = (
            word32(data, at + 4, is_big), word32(data, at + 8, is_big), word32(data, at + 12, is_big)
        )  # fmt: skip
        if captured > _LARGEST_RECORD or wire > _LARGEST_RECORD or fraction >= per_s:
            ended = DAMAGED
            break
        if at + 16 + captured > end:
            ended = CUT_OFF
            break
        if n == rows.shape[0]:
            ended = FULL
            break
        rows[n, 0], rows[n, 1], rows[n, 2], rows[n, 4] = at + 16, captured, wire, link
        rows[n, 3] = word32(data, at, is_big) * 1_000_000_000 + fraction * (1_000_000_000 // per_s)
        n, at = n + 1, at + 16 + captured
    return n, at, ended


@compiled("i8(i8, i8, i8, i8, i8)")
def _nanoseconds(high: int, low: int, is_binary: int, digits: int, offset_s: int) -> int:
    ticks = high << 32 | low
    if is_binary:
        fraction = ticks & ((1 << digits) - 1)
        if digits > 32:
            fraction >>= digits - 32
        ns = (ticks >> digits) * 1_000_000_000 + ((fraction * 1_000_000_000) >> min(digits, 32))
    elif digits <= 9:
        ns = ticks * 10 ** (9 - digits)
    else:
        ns = ticks // 10 ** (digits - 9)
    return ns + offset_s * 1_000_000_000


@compiled("UniTuple(i8, 3)(u1[::1], i8, i8, b1, i8[:, ::1], i8[:, ::1])")
def walk_pcapng(
    data: Bytes, start: int, end: int, is_big: bool, interfaces: Longs, rows: Longs
) -> tuple[int, int, int]:
    """As walk_pcap; `interfaces` are rows of (link, is binary, digits, offset, longest)."""
    n, at, ended = 0, start, WHOLE
    while at < end:
        if at + 12 > end:
            ended = CUT_OFF
            break
        kind, size = word32(data, at, is_big), word32(data, at + 4, is_big)
        if size < 12 or size % 4 or size > _LARGEST_RECORD:
            ended = DAMAGED
            break
        if at + size > end:
            ended = CUT_OFF
            break
        which, head, ns = 0, 0, 0
        if kind == _ENHANCED and size >= 32:
            which, head = word32(data, at + 8, is_big), 28
        elif kind == _OLD and size >= 32:
            both = word32(data, at + 8, is_big)
            which, head = (both >> 16 if is_big else both & 0xFFFF), 28
        elif kind == _SIMPLE and size >= 16:
            head = 12
        if head:
            if which >= interfaces.shape[0]:
                ended = DAMAGED
                break
            wire = word32(data, at + head - 4, is_big)
            captured = min(wire, size - 16)
            if kind == _SIMPLE:
                if interfaces[which, 4]:
                    captured = min(captured, interfaces[which, 4])
            else:
                captured = word32(data, at + 20, is_big)
                ns = _nanoseconds(
                    word32(data, at + 12, is_big), word32(data, at + 16, is_big),
                    interfaces[which, 1], interfaces[which, 2], interfaces[which, 3],
                )  # fmt: skip
            if captured > size - head - 4 or wire > _LARGEST_RECORD:
                ended = DAMAGED
                break
            if n == rows.shape[0]:
                ended = FULL
                break
            rows[n, 0], rows[n, 1], rows[n, 2], rows[n, 3] = at + head, captured, wire, ns
            rows[n, 4] = interfaces[which, 0]
            n += 1
        at += size
    return n, at, ended


def record_portions(data: Bytes, part: Part) -> Iterator[Records]:
    """The records of a part, some at a time; the rows of a portion are there until the next is asked for.

    How the part ended is told by the last.
    """
    rows, at, ended = np.empty((_AT_ONCE, 5), dtype=np.int64), part.start, FULL
    while ended == FULL:
        n, at, ended = _walk(data, part, at, rows)
        yield Records(rows[:n], part.end - at, ended)


def read_records(data: Bytes, part: Part) -> Records:
    """All records of a part, and how many of its bytes could not be read."""
    rows = []
    for portion in record_portions(data, part):
        rows.append(portion.rows.copy())
    return Records(np.concatenate(rows), portion.unread_bytes, portion.ended)


def _walk(data: Bytes, part: Part, start: int, rows: Longs) -> tuple[int, int, int]:
    if not part.is_pcapng:
        only = part.interfaces[0]
        return walk_pcap(data, start, part.end, part.is_big, only.digits, only.link, rows)
    table = [(each.link, each.is_binary, each.digits, each.offset_s, each.longest) for each in part.interfaces]
    interfaces = np.array(table, dtype=np.int64).reshape(len(table), 5)
    return walk_pcapng(data, start, part.end, part.is_big, interfaces, rows)


def _pcapng_parts(path: str, data: Bytes, split_bytes: int) -> Iterator[Part]:
    """Parts of every section: each has a byte order and interfaces of its own."""
    start, number = 0, 0
    while start < data.size:
        if start + 12 > data.size:
            yield Part(path, number, start, data.size, False, True, ())
            return
        is_big = int(word32(data, start + 8, True)) == _BYTE_ORDER
        section_end, interfaces = _section(data, start, is_big)
        for part in _cut(path, data, start, section_end, is_big, True, interfaces, split_bytes, number):
            yield part
            number = part.number + 1
        start = section_end


def _section(data: Bytes, start: int, is_big: bool) -> tuple[int, tuple[Interface, ...]]:
    """Where the section ends, and its interfaces; the end of the file where the walk cannot go on."""
    at, interfaces = start, list[Interface]()
    while True:
        at = int(next_of_kind(data, at, data.size, is_big, at == start))
        if at >= data.size or int(word32(data, at, is_big)) == _SECTION:
            return at, tuple(interfaces)
        interfaces.append(_interface(data, at, is_big))
        at = at + int(word32(data, at + 4, is_big))


@compiled("i8(u1[::1], i8, i8, b1, b1)")
def next_of_kind(data: Bytes, start: int, end: int, is_big: bool, skips_first: bool) -> int:
    """The next block that begins a section or describes an interface; `end` without one."""
    at = start
    while at + 12 <= end:
        kind, size = word32(data, at, is_big), word32(data, at + 4, is_big)
        if (kind in (_SECTION, _INTERFACE)) and not (skips_first and at == start):
            return at if at + size <= end and size >= 12 else end
        if size < 12 or size % 4 or size > _LARGEST_RECORD:
            return end
        at += size
    return end


def _interface(data: Bytes, at: int, is_big: bool) -> Interface:
    order, size = ">" if is_big else "<", int(word32(data, at + 4, is_big))
    block = data[at : at + size].tobytes()
    link, longest = struct.unpack_from(order + "H2xI", block, 8)
    is_binary, digits, offset_s, place = False, 6, 0, 16
    while place + 4 <= size - 4:
        code, length = struct.unpack_from(order + "HH", block, place)
        value = block[place + 4 : place + 4 + length]
        if code == _TSRESOL and length == 1:
            is_binary, digits = bool(value[0] & 0x80), value[0] & 0x7F
        elif code == _TSOFFSET and length == 8:
            offset_s = struct.unpack(order + "q", value)[0]
        elif code == 0:
            break
        place += 4 + -(-length // 4) * 4
    return Interface(link, is_binary, min(digits, 63 if is_binary else 27), offset_s, longest)
