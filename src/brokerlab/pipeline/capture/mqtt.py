"""From the bytes of a stream to the headers of its MQTT packets, of versions 3.1, 3.1.1 and 5.

A packet that lies in one piece in the file is read where it lies; one over several segments is put together first.
Bytes that are missing inside a payload do no harm: the packet's length says where the next one begins. Where a
header is missing, or what stands there is no packet of MQTT, reading goes on at the next segment that begins with one.
"""

# mypy: disable-error-code="assignment, return-value, arg-type, operator, no-any-return"

import numpy as np

from brokerlab.pipeline.capture.compiled import Bytes, Longs, big16, byte, compiled

# Columns of a packet.
KIND, PACKET_ID, TOPIC, TOPIC_BYTES, PAYLOAD, PAYLOAD_BYTES, SIZE, FIRST_NS, LAST_NS = range(9)
COLUMNS = 9
# KIND: flags << 4 | type, and above that
FROM_CLIENT, IS_WHOLE, IS_SYSTEM = 1 << 8, 1 << 9, 1 << 10

TYPES = (
    "(none)", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK",
    "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
)  # fmt: skip
PUBLISH = 3

# The state of a direction's reading: where the next packet begins (-1: not known), how certain that is, and how far
# the stream has come: what is missing before that will not come any more.
BEGIN, CERTAINTY, REACH = range(3)
STATE = 3
UNCERTAIN, CERTAIN, AT_START = range(3)
# What is known of a connection: protocol level (0: neither CONNECT nor CONNACK was captured), and whether it speaks
# something else.
LEVEL, IS_FOREIGN = range(2)
# What could not be read.
UNREAD_BYTES, LOST_STEP, CUT_PACKETS = range(3)

# Why a walk stopped before its end.
NOTHING, ROWS, ALIASES = range(3)

_UNKNOWN = -1
_SECRET = np.uint64(0x9E3779B97F4A7C15)
_LONGEST_UNCERTAIN = 2**20


@compiled("u8(u1[::1], u8)")
def _word(data: Bytes, at: int) -> int:
    """Eight bytes; places are unsigned, because for others Numba asks at each byte whether it counts from the end."""
    return (
        np.uint64(data[at]) | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16) | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32) | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48) | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )  # fmt: skip


@compiled("u8(u1[::1], i8, i8)")
def hashed(data: Bytes, at: int, size: int) -> int:
    """A 64-bit hash, eight bytes at a time."""
    value = np.uint64(size) * _SECRET
    k = np.uint64(at)
    end = k + np.uint64(size)
    while k + np.uint64(8) <= end:
        value = (value ^ _word(data, k)) * _SECRET
        value ^= value >> np.uint64(32)
        k += np.uint64(8)
    rest, shift = np.uint64(0), np.uint64(0)
    while k < end:
        rest |= np.uint64(data[k]) << shift
        shift += np.uint64(8)
        k += np.uint64(1)
    value = (value ^ rest) * _SECRET
    return value ^ value >> np.uint64(29)


@compiled("b1(i8, i8, b1, i8)")
def is_possible(first: int, remaining: int, from_client: bool, level: int) -> bool:
    """Whether a fixed header may stand in this direction (MQTT 3.1.1 and 5.0, sections 2.1 and 3)."""
    kind, flags = first >> 4, first & 15
    is_old = level in (3, 4)
    if kind == 3:
        return (flags >> 1 & 3) != 3 and remaining >= 2
    if kind in (4, 5, 7):
        return flags == 0 and (remaining == 2 or (remaining > 2 and not is_old))
    if kind == 6:
        return flags & 7 == 2 and (remaining == 2 or (remaining > 2 and not is_old))  # 3.1 allows DUP here
    if kind == 1:
        return from_client and flags == 0 and remaining >= 12
    if kind == 2:
        return not from_client and flags == 0 and (remaining == 2 or (remaining > 2 and not is_old))
    if kind == 8:
        return from_client and flags & 7 == 2 and remaining >= 5
    if kind == 9:
        return not from_client and flags == 0 and remaining >= 3
    if kind == 10:
        return from_client and flags & 7 == 2 and remaining >= 4
    if kind == 11:
        return not from_client and flags == 0 and remaining >= 2
    if kind == 12:
        return from_client and flags == 0 and remaining == 0
    if kind == 13:
        return not from_client and flags == 0 and remaining == 0
    if kind == 14:
        return flags == 0 and (remaining == 0 or not is_old)
    return kind == 15 and flags == 0 and not is_old


@compiled("UniTuple(i8, 2)(u1[::1], i8, i8)")
def variable(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A variable byte integer and the place after it; (-1, 0) where the bytes end first, (-2, 0) where it is none."""
    value = 0
    for k in range(4):
        if at + k >= end:
            return -1, 0
        digit = np.int64(data[at + k])
        value |= (digit & 0x7F) << (7 * k)
        if digit < 0x80:
            return value, at + k + 1
    return -2, 0


@compiled("i8(u1[::1], i8, i8)")
def _topic_alias(data: Bytes, at: int, end: int) -> int:
    """The topic alias among the properties of a PUBLISH (MQTT 5.0 section 3.3.2.3); 0 without one."""
    while at < end:
        name = data[at]
        at += 1
        if name == 0x23 and at + 2 <= end:
            return big16(data, at)
        if name == 0x01:
            at += 1
        elif name == 0x02:
            at += 4
        elif name == 0x0B:
            value, at = variable(data, at, end)
            if value < 0:
                return 0
        elif name in (0x03, 0x08, 0x09, 0x26):
            for _ in range(2 if name == 0x26 else 1):
                if at + 2 > end:
                    return 0
                at += 2 + big16(data, at)
        else:
            return 0
    return 0


@compiled("i8(u1[::1], i8, i8, i8)")
def read_level(data: Bytes, at: int, end: int, level: int) -> int:
    """The protocol level of a CONNECT whose body begins at `at`; the old one where it is none of MQTT's."""
    if at + 2 > end:
        return level
    size = big16(data, at)
    if size not in (4, 6) or at + 3 + size > end or data[at + 2] != 0x4D or data[at + 3] != 0x51:  # MQTT, MQIsdp
        return level
    told = np.int64(data[at + 2 + size]) & 0x7F  # the highest bit marks a bridge
    return told if told in (3, 4, 5) else level


@compiled("b1(u1[::1], i8, i8, i8, i8, i8, b1, i8[:, ::1], i8, i8[:, ::1])")
def read_publish(
    data: Bytes, body: int, end: int, known: int, first: int, level: int, is_hashed: bool, rows: Longs, n: int,
    aliases: Longs,
) -> bool:  # fmt: skip
    """Fills in topic, packet identifier and payload of a PUBLISH, as far as its bytes are there (before `known`).

    False where its topic has an alias and there is no room for one.
    """
    rows[n, 3], rows[n, 5] = _UNKNOWN, _UNKNOWN
    size = big16(data, body) if body + 2 <= known else known
    at = body + 2 + size
    if at > known or at > end:
        return True
    rows[n, 3] = size
    rows[n, 2] = np.int64(hashed(data, body + 2, size)) if is_hashed else 0
    if size and data[body + 2] == 0x24:  # $SYS and its like
        rows[n, 0] |= IS_SYSTEM
    if first & 6:
        if at + 2 > known:
            return True
        rows[n, 1] = big16(data, at)
        at += 2
    if level == 5:
        length, begin = variable(data, at, known)
        if length < 0 or begin + length > known:
            return True
        alias = _topic_alias(data, begin, begin + length)
        at = begin + length
        if alias:
            if aliases.shape[0] == 0:
                return False
            if size:
                aliases[alias, 0], aliases[alias, 1] = rows[n, 2], size
            else:
                rows[n, 2], rows[n, 3] = aliases[alias, 0], aliases[alias, 1]
    if at <= end:
        rows[n, 5] = end - at
        if known >= end and is_hashed:
            rows[n, 4] = np.int64(hashed(data, at, end - at))
    return True


@compiled("UniTuple(i8, 4)(u1[::1], i8[:, ::1], i8, i8, i8, u1[::1])")
def gather(data: Bytes, pieces: Longs, first: int, begin: int, size: int, out: Bytes) -> tuple[int, int, int, int]:
    """Copies bytes of a stream from where they lie to one place.

    How many there are up to the first that is missing, how far the pieces reach, and the earliest and latest time.
    """
    known, reached, hole = 0, 0, False
    first_ns, last_ns = pieces[first, 3], pieces[first, 3]
    for k in range(first, pieces.shape[0]):
        start = pieces[k, 0] - begin
        if start >= size:
            reached = size
            break
        skipped = max(-start, 0)
        count = min(pieces[k, 2], size - start) - skipped
        hole = hole or start + skipped > known
        if count > 0:
            place = start + skipped
            source = pieces[k, 1] + skipped
            for b in range(count):
                out[place + b] = data[source + b]
            first_ns, last_ns = min(first_ns, pieces[k, 3]), max(last_ns, pieces[k, 3])
            reached = place + count
            if not hole:
                known = reached
    return known, reached, first_ns, last_ns


@compiled("UniTuple(i8, 3)(u1[::1], i8[:, ::1], i8, i8, u1[::1])")
def header_at(data: Bytes, pieces: Longs, k: int, at: int, scratch: Bytes) -> tuple[int, int, int]:
    """First byte, remaining length and bytes of the fixed header at a position within piece `k`.

    The length is -1 where the stream is not there far enough yet, and -2 where this is no header.
    """
    place, end = pieces[k, 1] + at - pieces[k, 0], pieces[k, 1] + pieces[k, 2]
    remaining, body = variable(data, place + 1, end)
    if remaining != -1:
        return np.int64(data[place]), remaining, body - place
    known, reached, _, _ = gather(data, pieces, k, at, 5, scratch)
    remaining, body = variable(scratch, 1, known)
    if remaining == -1 and reached > known:
        return np.int64(data[place]), -2, 0
    return np.int64(data[place]), remaining, body


@compiled("b1(u1[::1], i8, i8, i8, i8, b1, i8)")
def _is_likely(data: Bytes, place: int, size: int, here: int, remaining: int, from_client: bool, level: int) -> bool:
    """Where it is not certain that a packet begins: whether it is small, its topic fits in, and another one follows."""
    if remaining > _LONGEST_UNCERTAIN:
        return False
    head = size - remaining
    if data[place] >> 4 == 3 and head + 2 <= here:
        topic = big16(data, place + head)
        if topic + 2 > remaining or (topic == 0 and level in (3, 4)):
            return False
    if size >= here:
        return True
    following, _ = variable(data, place + size + 1, place + here)
    shortest = 0 if data[place + size] >> 4 >= 12 else 12
    return following != -2 and is_possible(
        np.int64(data[place + size]), following if following >= 0 else shortest, from_client, level
    )


@compiled("b1(u1[::1], i8, i8, i8, i8, i8, b1, b1, i8[::1], i8[:, ::1], i8, i8[:, ::1])")
def _read_packet(
    data: Bytes, place: int, head: int, size: int, known: int, first: int, from_client: bool, is_hashed: bool,
    about: Longs, rows: Longs, n: int, aliases: Longs,
) -> bool:  # fmt: skip
    """Fills in a packet's row but its times, and what it says about its connection; as read_publish."""
    kind, body, end = first >> 4, place + head, place + size
    rows[n, 0] = kind | (first & 15) << 4 | (FROM_CLIENT if from_client else 0) | (IS_WHOLE if known >= end else 0)
    rows[n, 1], rows[n, 2], rows[n, 3], rows[n, 4], rows[n, 5], rows[n, 6] = 0, 0, 0, 0, 0, size
    is_done = True
    if kind == 3:
        is_done = read_publish(data, body, end, known, first, about[0], is_hashed, rows, n, aliases)
    elif kind == 1:
        about[0] = read_level(data, body, min(end, known), about[0])
    elif kind == 2 and about[0] == 0:  # its CONNECT was not captured: only MQTT 5.0 has properties here
        about[0] = 5 if size - head > 2 else 4
    elif 4 <= kind <= 11 and body + 2 <= known:
        rows[n, 1] = big16(data, body)
    return is_done


@compiled("i8(u1[::1], i8, i8, b1, b1, i8, i8, i8[:, ::1], i8)", is_inlined=True)
def _read_simple(
    data: Bytes, place: int, here: int, from_client: bool, is_hashed: bool, level: int, at_ns: int, rows: Longs, n: int
) -> int:  # fmt: skip
    """Fills in the row of what most streams are made of, and its size: 0 where it is anything else.

    That is an acknowledgement without a reason, or a PUBLISH without properties, in one piece: half of the time.
    """
    if here < 4:
        return 0
    first, remaining, head = byte(data, place), byte(data, place + 1), 2
    kind = first >> 4
    if remaining >= 0x80:
        remaining, head = remaining & 0x7F | byte(data, place + 2) << 7, 3
    size = head + remaining
    if remaining >= 1 << 14 or remaining < 2 or size > here or kind < 3 or kind > 7:
        return 0
    body, packet_id, topic, topic_bytes, payload, payload_bytes, more = place + head, 0, 0, 0, 0, 0, 0
    if kind == 3:
        topic_bytes = big16(data, body)
        to = 2 + topic_bytes + (2 if first & 6 else 0)
        if level == 5 or first & 6 == 6 or to > remaining:
            return 0
        payload_bytes = remaining - to
        if first & 6:
            packet_id = big16(data, body + to - 2)
        if topic_bytes and byte(data, body + 2) == 0x24:
            more = IS_SYSTEM
        if is_hashed:
            topic = np.int64(hashed(data, body + 2, topic_bytes))
            payload = np.int64(hashed(data, body + to, payload_bytes))
    elif remaining != 2 or first & 15 != (2 if kind == 6 else 0):
        return 0
    else:
        packet_id = big16(data, body)
    rows[n, 0] = kind | (first & 15) << 4 | (FROM_CLIENT if from_client else 0) | IS_WHOLE | more
    rows[n, 1], rows[n, 2], rows[n, 3], rows[n, 4] = packet_id, topic, topic_bytes, payload
    rows[n, 5], rows[n, 6], rows[n, 7], rows[n, 8] = payload_bytes, size, at_ns, at_ns
    return size


@compiled(
    "UniTuple(i8, 3)(u1[::1], i8[:, ::1], i8, b1, b1, b1, i8[::1], i8[::1], i8[::1], i8[:, ::1], i8[:, ::1], u1[::1])"
)
def read_packets(
    data: Bytes, pieces: Longs, k: int, from_client: bool, is_final: bool, is_hashed: bool, state: Longs, about: Longs,
    counts: Longs, aliases: Longs, rows: Longs, scratch: Bytes,
) -> tuple[int, int, int]:  # fmt: skip
    """Reads complete packets from piece `k` on: how many, the first piece that is still needed, and what is missing.

    The last is NOTHING, ROWS (call again), ALIASES, or how many bytes of scratch are needed. Unless `is_hashed`,
    TOPIC and PAYLOAD are 0.
    """
    n, missing = 0, NOTHING
    at = pieces[k, 0] if state[0] < 0 else state[0]
    while k < pieces.shape[0]:
        end = pieces[k, 0] + pieces[k, 2]
        if end <= at:
            k += 1
            continue
        if n == rows.shape[0]:
            missing = ROWS
            break
        if pieces[k, 0] > at:  # the header is missing
            counts[1] += state[1] > 0
            state[1], at = 0, pieces[k, 0]
        place, here = pieces[k, 1] + at - pieces[k, 0], end - at
        if state[1] == 1 and not about[1]:
            size = _read_simple(data, place, here, from_client, is_hashed, about[0], pieces[k, 3], rows, n)
            if size:
                n, at = n + 1, at + size
                continue
        first, remaining, head = header_at(data, pieces, k, at, scratch)
        if remaining == -1 and not is_final and state[2] < at + 5:
            break
        size = head + remaining
        is_packet = not about[1] and remaining >= 0 and is_possible(first, remaining, from_client, about[0])
        if state[1] == 2 and from_client and (not is_packet or first >> 4 != 1):
            about[1], is_packet = 1, False  # what the client begins with is no CONNECT
        if is_packet and state[1] == 0:
            is_packet = _is_likely(data, place, size, here, remaining, from_client, about[0])
        if not is_packet:
            counts[1] += state[1] > 0
            counts[0] += here
            state[1], at, k = 0, end, k + 1
            continue
        if size <= here:
            rows[n, 7], rows[n, 8] = pieces[k, 3], pieces[k, 3]
            known = place + size
            is_done = _read_packet(
                data, place, head, size, known, first, from_client, is_hashed, about, rows, n, aliases
            )
        elif scratch.size < size:
            missing = size
            break
        else:
            known, reached, rows[n, 7], rows[n, 8] = gather(data, pieces, k, at, size, scratch)
            if reached < size and state[2] < at + size:
                if is_final:
                    counts[2] += 1
                    counts[0] += known
                    k = pieces.shape[0]
                break
            is_done = _read_packet(
                scratch, 0, head, size, known, first, from_client, is_hashed, about, rows, n, aliases
            )
        if not is_done:
            missing = ALIASES
            break
        state[1], n, at = 1, n + 1, at + size
    state[0] = at
    return n, k, missing
