"""The null broker's side of the wire: compiled walks over what publishers send and what subscribers acknowledge.

Like load/wire.py: loops that no array expression can hold, because packets may be of any length; they take
arrays and return numbers, and load/packets.py is the reference that the tests hold them against.
"""

# mypy: disable-error-code="arg-type, assignment, return-value"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

import numpy as np
from numba import njit

from brokerlab.load.wire import Bytes, Longs

# Places in the counts of `walk_publications`.
MESSAGES, PAYLOAD_BYTES, REPEATED, RELEASED = range(4)

# Places in the counts of `walk_completions`.
COMPLETED, UNKNOWN = range(2)

# Topics that begin so are not load: the walk leaves their messages to the caller.
PLAIN_PREFIX = "brokerlab-"


@njit("b1(u1[::1], i8, i8, u1[::1])", cache=True, nogil=True)
def _begins_with(buffer: Bytes, at: int, length: int, prefix: Bytes) -> bool:
    if length < prefix.size:
        return False
    for k in range(prefix.size):  # noqa: SIM110 - Numba compiles no generator
        if buffer[at + k] != prefix[k]:
            return False
    return True


@njit("i8(u1[::1], i8, i8)", cache=True, nogil=True)
def _after_properties(buffer: Bytes, at: int, end: int) -> int:
    """Where what follows a block of properties begins; behind `end` where that is not so."""
    size = np.int64(0)
    for k in range(4):
        if at + k >= end:
            break
        digit = np.int64(buffer[at + k])
        size |= (digit & 0x7F) << (7 * k)
        if digit < 0x80:
            return at + k + 1 + size
    return end + 1


@njit("i8(u1[::1], i8, i8, u1[::1], i8)", cache=True, nogil=True)
def _answer(out: Bytes, used: int, first: int, buffer: Bytes, identified: int) -> int:
    """Writes an acknowledgement of the identifier at this place, which begins so; the bytes that are used then."""
    out[used] = first
    out[used + 1] = 2
    out[used + 2] = buffer[identified]
    out[used + 3] = buffer[identified + 1]
    return used + 4


@njit("UniTuple(i8, 3)(u1[::1], i8, i8, i8, u1[::1], u1[::1], u1[::1], i8[::1])", cache=True, nogil=True)
def walk_publications(
    buffer: Bytes, length: int, at: int, level: int, plain: Bytes, held: Bytes, acks: Bytes, counts: Longs
) -> tuple[int, int, int]:
    """Counts a publisher's messages from `at` on and writes the acknowledgements that they ask for.

    `level` is that of the protocol: from 5 on properties stand before the payload. `held` marks identifiers of QoS 2
    between PUBLISH and PUBREL: the same one again is no second message.
    Returns (next position, bytes of acknowledgements, why it stopped: NEED_MORE, OTHER, MALFORMED or FULL of wire.py).
    """
    used = 0
    while at < length:
        size = np.int64(0)
        begin = np.int64(-1)
        for k in range(4):
            place = at + 1 + k
            if place >= length:
                return at, used, 0
            digit = np.int64(buffer[place])
            size |= (digit & 0x7F) << (7 * k)
            if digit < 0x80:
                begin = place + 1
                break
        if begin < 0:
            return at, used, 2
        end = begin + size
        if end > length:
            return at, used, 0
        if used + 4 > acks.size:
            return at, used, 3
        first = np.int64(buffer[at])
        kind = first >> 4
        if kind == 3:
            qos = (first >> 1) & 3
            if size < 2 or qos == 3:
                return at, used, 2
            name = np.int64(buffer[begin]) << 8 | buffer[begin + 1]
            identified = begin + 2 + name
            payload = identified + (2 if qos else 0)
            if level >= 5:
                payload = _after_properties(buffer, payload, end)
            if payload > end:
                return at, used, 2
            if _begins_with(buffer, begin + 2, name, plain):
                return at, used, 1
            is_new = True
            if qos:
                identifier = np.int64(buffer[identified]) << 8 | buffer[identified + 1]
                if qos == 2:
                    is_new = held[identifier] == 0
                    held[identifier] = 1
                used = _answer(acks, used, 0x40 if qos == 1 else 0x50, buffer, identified)
            if is_new:
                counts[0] += 1
                counts[1] += end - payload
            else:
                counts[2] += 1
        elif kind == 6 and size == 2:
            held[np.int64(buffer[begin]) << 8 | buffer[begin + 1]] = 0
            counts[3] += 1
            used = _answer(acks, used, 0x70, buffer, begin)
        else:
            return at, used, 1
        at = end
    return at, used, 0


@njit("i8(u1[::1], i8, i8, i8, u1[::1])", cache=True, nogil=True)
def looked_at(buffer: Bytes, length: int, at: int, level: int, plain: Bytes) -> int:
    """How many bytes of an unfinished packet anybody looks at: of a message of the load those before its payload.

    Of thousands of publishers each may have sent half a message, and those may be long.
    """
    every = length - at
    if every == 0 or buffer[at] >> 4 != 3:
        return every
    begin = at + 1
    for _ in range(4):
        begin += 1
        if begin > length or buffer[begin - 1] < 0x80:
            break
    if begin + 2 > length:
        return every
    name = np.int64(buffer[begin]) << 8 | buffer[begin + 1]
    payload = begin + 2 + name + (2 if (buffer[at] >> 1) & 3 else 0)
    if payload > length or _begins_with(buffer, begin + 2, name, plain):
        return every
    if level >= 5:
        payload = _after_properties(buffer, payload, length)
    return every if payload > length else payload - at


@njit("UniTuple(i8, 3)(u1[::1], i8, i8, u1[::1], u1[::1], i8[::1])", cache=True, nogil=True)
def walk_completions(
    buffer: Bytes, length: int, at: int, in_flight: Bytes, out: Bytes, counts: Longs
) -> tuple[int, int, int]:
    """Counts a subscriber's PUBACKs and PUBCOMPs from `at` on and answers its PUBRECs.

    `in_flight` marks the identifiers in use; a completed one is free again.
    Returns (next position, bytes of PUBRELs, why it stopped).
    """
    used = 0
    while at + 4 <= length:
        kind = np.int64(buffer[at]) >> 4
        if (kind != 4 and kind != 5 and kind != 7) or buffer[at + 1] != 2:
            return at, used, 1
        if used + 4 > out.size:
            return at, used, 3
        identifier = np.int64(buffer[at + 2]) << 8 | buffer[at + 3]
        if in_flight[identifier] == 0:
            counts[1] += 1
        elif kind != 5:
            in_flight[identifier] = 0
            counts[0] += 1
        if kind == 5:
            used = _answer(out, used, 0x62, buffer, at + 2)
        at += 4
    # Shorter than an acknowledgement: PINGREQ and DISCONNECT have two bytes.
    if at + 2 <= length and buffer[at + 1] == 0:
        return at, used, 1
    return at, used, 0


@njit("i8(u1[::1], i8, i8, u1[::1], u1[::1])", cache=True, nogil=True)
def copy_publications(buffer: Bytes, at: int, end: int, in_flight: Bytes, out: Bytes) -> int:
    """Copies the messages among the whole packets from `at` to `end`, as they are; the bytes that are used.

    `in_flight` marks their identifiers.
    """
    used = 0
    while at < end:
        size = np.int64(0)
        begin = at + 1
        for k in range(4):
            digit = np.int64(buffer[begin])
            size |= (digit & 0x7F) << (7 * k)
            begin += 1
            if digit < 0x80:
                break
        behind = begin + size
        if buffer[at] >> 4 == 3:
            if (buffer[at] >> 1) & 3:
                identified = begin + 2 + (np.int64(buffer[begin]) << 8 | buffer[begin + 1])
                in_flight[np.int64(buffer[identified]) << 8 | buffer[identified + 1]] = 1
            for k in range(behind - at):
                out[used + k] = buffer[at + k]
            used += behind - at
        at = behind
    return used
