"""MQTT on the wire, many packets at a time: compiled walks between socket buffers and NumPy columns.

No MQTT library is fast enough to stay out of its own measurement: they build and parse one Python object
a packet (paho some 25 µs, docs/design/0002). Here one call builds or reads all packets of a buffer.
The walks are general (any mix of lengths, types and QoS), so there is one path and not two that must agree;
load/packets.py, plain Python, is the reference that the tests hold them against.

Every application message begins with its identity, 16 bytes, little endian:

    0        8            12      16
    | intended_ns | publisher | seq |   the rest of the payload is filler

Payloads under 16 bytes hold less, those of a JSON template hold it as text: study/identity.py has the forms, and
load/identity.py reads them in a second pass over the rows, which the usual messages never need.
"""

# mypy: disable-error-code="assignment, return-value"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokerlab.load.packets import encode_length

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]

IDENTITY_BYTES = 16
HELD_BYTES = 65_536 // 8  # a bit for every packet identifier
PACKET_IDS = 65_535  # MQTT 3.1.1 section 2.3.1: 1 to 65535

# Why a walk stopped.
NEED_MORE = 0  # the rest of the buffer is less than a packet
OTHER = 1  # a whole packet that the caller must read itself stands at the returned position
MALFORMED = 2
FULL = 3  # no room for another row or acknowledgement: empty the output and call again

NO_SUBSCRIBERS = 0x10  # MQTT 5.0 section 3.4.2.1: the broker has the message, and nobody who hears it
UNKNOWN_ID = 0x92  # section 3.7.2.1: in PUBCOMP no error during recovery, at other times the two do not agree
UNHEARD = 1 << 62  # says so in a ring, beside the time, which is smaller
RECOVERED = 1 << 61  # a message in a ring whose PUBREL was sent again, in a session that was taken up again
TIME = RECOVERED - 1

_FARTHEST = 10_000_000  # a sequence number that is further ahead is that of a foreign message

_PUBLISH, _PUBACK, _PUBREC, _PUBREL, _PUBCOMP = 3, 4, 5, 6, 7


def packet_id(seq: int) -> int:
    """The packet identifier of a publisher's message `seq`; unique while at most 65,535 are in flight."""
    return seq % PACKET_IDS + 1


def publish_template(
    topic: str, *, payload_bytes: int, qos: int, retain: bool, filler: bytes, properties: bytes | None = None
) -> tuple[Bytes, int, int]:
    """A PUBLISH of zero identity, the place of its packet identifier (-1 at QoS 0) and of its payload.

    `properties` is the block of MQTT 5.0 without its length, empty where there are none; None for older versions.
    """
    name = topic.encode()
    block = b"" if properties is None else encode_length(len(properties)) + properties
    body = len(name).to_bytes(2, "big") + name + (b"\0\0" if qos else b"") + block
    head = bytes([0x30 | qos << 1 | int(retain)]) + encode_length(len(body) + payload_bytes) + body
    payload = bytes(IDENTITY_BYTES) + filler[: payload_bytes - IDENTITY_BYTES]
    packet = np.frombuffer(head + payload, dtype=np.uint8).copy()
    return packet, len(head) - len(block) - 2 if qos else -1, len(head)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(signature: str) -> Callable[[_Function], _Function]:
    """Compiles at import, before anything is measured; the machine code is kept for the next process."""
    decorate: Callable[[_Function], _Function] = njit(signature, cache=True, nogil=True)
    return decorate


@compiled("i8(u1[::1], i8, i8, i8, i8, i8[::1], u1[::1])")
def build_publishes(
    template: Bytes, id_at: int, payload_at: int, publisher: int, first_seq: int, intended_ns: Longs, out: Bytes
) -> int:
    """Writes one packet per intended time to `out`, numbered from `first_seq`; the number of bytes."""
    stride = template.size
    at = 0
    for i in range(intended_ns.size):
        out[at : at + stride] = template
        seq = first_seq + i
        if id_at >= 0:
            identifier = seq % 65_535 + 1
            out[at + id_at] = identifier >> 8
            out[at + id_at + 1] = identifier & 0xFF
        place = at + payload_at
        value = intended_ns[i]
        for k in range(8):
            out[place + k] = (value >> (8 * k)) & 0xFF
        for k in range(4):
            out[place + 8 + k] = (publisher >> (8 * k)) & 0xFF
            out[place + 12 + k] = (seq >> (8 * k)) & 0xFF
        at += stride
    return at


@compiled("UniTuple(i8, 2)(u1[::1], i8, i8)")
def _body(buffer: Bytes, length: int, at: int) -> tuple[int, int]:
    """Where the packet's body begins and how long it is; (-1, NEED_MORE or MALFORMED) where that cannot be told."""
    size = 0
    for k in range(4):
        place = at + 1 + k
        if place >= length:
            return -1, 0
        digit = np.int64(buffer[place])
        size |= (digit & 0x7F) << (7 * k)
        if digit < 0x80:
            return place + 1, size
    return -1, 2


@compiled("i8(u1[::1], i8, i8)")
def _little(buffer: Bytes, at: int, count: int) -> int:
    value = np.uint64(0)
    for k in range(count):
        value |= np.uint64(buffer[at + k]) << np.uint64(8 * k)
    return np.int64(value)


@compiled("void(u1[::1], i8, i8, i8, i8)")
def _acknowledge(out: Bytes, at: int, first_byte: int, high: int, low: int) -> None:
    out[at] = first_byte
    out[at + 1] = 2
    out[at + 2] = high
    out[at + 3] = low


@compiled("i8(u1[::1], i8, i8)")
def _after_properties(buffer: Bytes, at: int, end: int) -> int:
    """The place after the block of properties that begins at `at`; -1 where it does not end before `end`."""
    size = 0
    for k in range(4):
        place = at + k
        if place >= end:
            return -1
        digit = np.int64(buffer[place])
        size |= (digit & 0x7F) << (7 * k)
        if digit < 0x80:
            after = place + 1 + size
            return after if after <= end else -1
    return -1


@compiled("UniTuple(i8, 5)(u1[::1], i8, i8, i8, i8[:, ::1], i8, u1[::1], u1[::1])")
def walk_deliveries(
    buffer: Bytes, length: int, at: int, level: int, rows: Longs, row: int, held: Bytes, acks: Bytes
) -> tuple[int, int, int, int, int]:
    """Reads a subscriber's packets from `at`, appends a row per message, writes the acknowledgements that they ask for.

    `level` is the protocol level: from 5 on a PUBLISH has properties, which are passed over. MQTT 3.1 leaves open what
    the flags of acknowledgements are, and repeats PUBREL with DUP; from 3.1.1 on others than those of section 2.2.2
    make a packet malformed.
    A row is (publisher, seq, intended_ns, payload_bytes, place of the variable header << 8 | first byte).
    `held` marks the identifiers of QoS 2 messages that are not yet released, a bit each: the same identifier again is
    a retransmission that must not reach the application (MQTT 3.1.1 section 4.3.3), so it gets no row. It is empty
    where QoS 2 was not granted.
    Returns (next position, next row, bytes of acknowledgements, retransmissions, why it stopped).
    """
    used = 0
    again = 0
    while at < length:
        begin, size = _body(buffer, length, at)
        if begin < 0:
            return at, row, used, again, size
        end = begin + size
        if end > length:
            return at, row, used, again, 0
        if row >= rows.shape[0] or used + 4 > acks.size:
            return at, row, used, again, 3
        first = np.int64(buffer[at])
        kind = first >> 4
        if (first == 0x62 or (kind == 6 and level < 4)) and (size == 2 or (level >= 5 and size > 2)):
            identifier = np.int64(buffer[begin]) << 8 | buffer[begin + 1]
            if held.size:
                held[identifier >> 3] &= 0xFF ^ (1 << (identifier & 7))
            _acknowledge(acks, used, 0x70, buffer[begin], buffer[begin + 1])
            used += 4
        elif kind == 3:
            qos = (first >> 1) & 3
            if size < 2 or qos == 3:
                return at, row, used, again, 2
            payload = begin + 2 + (np.int64(buffer[begin]) << 8 | buffer[begin + 1])
            is_new = True
            if qos:
                if payload + 2 > end:
                    return at, row, used, again, 2
                identifier = np.int64(buffer[payload]) << 8 | buffer[payload + 1]
                _acknowledge(acks, used, 0x40 if qos == 1 else 0x50, buffer[payload], buffer[payload + 1])
                used += 4
                if qos == 2 and held.size:
                    mark = 1 << (identifier & 7)
                    is_new = (held[identifier >> 3] & mark) == 0
                    held[identifier >> 3] |= mark
                payload += 2
            if level >= 5:
                payload = _after_properties(buffer, payload, end)
            if payload > end or payload < 0:
                return at, row, used, again, 2
            if is_new:
                has_identity = end - payload >= 16
                rows[row, 0] = _little(buffer, payload + 8, 4) if has_identity else -1
                rows[row, 1] = _little(buffer, payload + 12, 4) if has_identity else -1
                rows[row, 2] = _little(buffer, payload, 8) if has_identity else 0
                rows[row, 3] = end - payload
                rows[row, 4] = begin << 8 | first
                row += 1
            else:
                again += 1
        else:
            return at, row, used, again, 1
        at = end
    return at, row, used, again, 0


@compiled("i8(u8[::1])")
def count_bits(words: NDArray[np.uint64]) -> int:
    """How many bits are set: of few among many, of which most words have none."""
    count = 0
    for place in range(words.size):
        word = words[place]
        while word:
            word &= word - np.uint64(1)
            count += 1
    return count


@compiled("i8(i8[:, ::1], i8, i8, i8[::1])")
def count_overtaken(rows: Longs, first: int, last: int, highest: Longs) -> int:
    """How many more messages of a subscriber are behind a later one of their publisher, after rows first to last.

    `highest` is the highest sequence number so far, by publisher. A message that comes after a later one was counted
    and is taken off again, so overtaken + arrived is what the flow has got past: lost messages are part of it.
    """
    count = 0
    for row in range(first, last):
        publisher, seq = rows[row, 0], rows[row, 1]
        if 0 <= publisher < highest.size and seq >= 0:
            ahead = seq - highest[publisher]
            if ahead <= 0:
                count -= 1
            elif ahead <= _FARTHEST:
                count += ahead - 1
                highest[publisher] = seq
    return count


@compiled("UniTuple(i8, 5)(u1[::1], i8, i8, i8, i8, i8, i8[::1], i8, u1[::1], i8[::1])")
def walk_acknowledgements(
    buffer: Bytes,
    length: int,
    at: int,
    level: int,
    oldest: int,
    following: int,
    acked_ns: Longs,
    now_ns: int,
    out: Bytes,
    seen: Longs,
) -> tuple[int, int, int, int, int]:
    """Reads a publisher's packets from `at`: marks what is acknowledged in the ring `acked_ns`, writes the PUBRELs.

    Messages oldest <= seq < following are in flight; message seq lies at seq modulo the ring's size, a power of two.
    A refused message (MQTT 5.0: a reason code from 0x80 on) is finished but not acknowledged: the negative of
    the code is its mark in the ring. One of which the broker says that nobody hears it has UNHEARD beside its time.
    One that is RECOVERED is acknowledged also where the broker knows its identifier no more: it was through before.
    `seen` counts PUBACK, PUBREC, PUBCOMP, identifiers that are not in flight, and refusals.
    Returns (next position, oldest message in flight now, newly acknowledged, bytes of PUBRELs, why it stopped).
    """
    used = 0
    count = 0
    mask = acked_ns.size - 1
    why = 0
    while at < length:
        begin, size = _body(buffer, length, at)
        if begin < 0:
            why = size
            break
        if begin + size > length:
            break
        if used + 4 > out.size:
            why = 3
            break
        first = np.int64(buffer[at])
        kind = first >> 4
        has_flags = level >= 4 and (first & 0x0F) != 0
        if (kind != 4 and kind != 5 and kind != 7) or has_flags or size < 2 or (size > 2 and level < 5):
            why = 1
            break
        reason = np.int64(buffer[begin + 2]) if size > 2 else 0
        identifier = np.int64(buffer[begin]) << 8 | buffer[begin + 1]
        seq = oldest + (identifier - 1 - oldest % 65_535) % 65_535
        is_known = identifier > 0 and seq < following and acked_ns[seq & mask] & TIME == 0
        if kind == 7 and reason == UNKNOWN_ID and is_known and acked_ns[seq & mask] & RECOVERED != 0:
            reason = 0
        unheard = UNHEARD if reason == NO_SUBSCRIBERS else 0
        seen[1 if kind == 5 else 0 if kind == 4 else 2] += 1
        if reason >= 0x80:
            seen[4] += 1
            if is_known:
                acked_ns[seq & mask] = -reason
        elif kind == 5:
            _acknowledge(out, used, 0x62, buffer[begin], buffer[begin + 1])
            used += 4
            if is_known:
                acked_ns[seq & mask] = unheard  # its time comes with PUBCOMP
        elif is_known:
            acked_ns[seq & mask] = now_ns | unheard | acked_ns[seq & mask] & UNHEARD
            count += 1
        if not is_known:
            seen[3] += 1
        at = begin + size
    while oldest < following and acked_ns[oldest & mask] & TIME != 0:
        oldest += 1
    return at, oldest, count, used, why
