"""Where the payloads of messages lie in a buffer, for a device that answers them: a compiled walk."""

# mypy: disable-error-code="arg-type, assignment, return-value"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

import numpy as np
from numba import njit

from brokerlab.load.wire import Bytes, Longs

# Columns of `find_payloads`: the payload, and of a request its response topic and correlation data (MQTT 5.0, 4.10).
BEGIN, END, TOPIC_AT, TOPIC_BYTES, DATA_AT, DATA_BYTES = range(6)

_RESPONSE_TOPIC, _CORRELATION_DATA, _USER_PROPERTY = 0x08, 0x09, 0x26


@njit("i8(u1[::1], i8)", cache=True, nogil=True)
def _two(buffer: Bytes, at: int) -> int:
    return np.int64(buffer[at]) << 8 | np.int64(buffer[at + 1])


@njit("UniTuple(i8, 2)(u1[::1], i8)", cache=True, nogil=True)
def _variable(buffer: Bytes, at: int) -> tuple[int, int]:
    """A number of variable length and the place after it."""
    value = np.int64(0)
    for k in range(4):
        digit = np.int64(buffer[at + k])
        value |= (digit & 0x7F) << (7 * k)
        if digit < 0x80:
            return value, at + k + 1
    return value, at + 4


@njit("i8(u1[::1], i8, i8)", cache=True, nogil=True)
def _value_bytes(buffer: Bytes, kind: int, at: int) -> int:
    """How long the value of a property is (MQTT 5.0 section 2.2.2.2); 0 for what no PUBLISH may carry."""
    if kind == 0x01:
        return 1
    if kind == 0x02:
        return 4
    if kind == 0x23:
        return 2
    if kind == 0x0B:
        return _variable(buffer, at)[1] - at
    if kind in (0x03, _RESPONSE_TOPIC, _CORRELATION_DATA):
        return 2 + _two(buffer, at)
    if kind == _USER_PROPERTY:
        name = 2 + _two(buffer, at)
        return name + 2 + _two(buffer, at + name)
    return 0


@njit("void(u1[::1], i8, i8, i8[:, ::1], i8)", cache=True, nogil=True)
def _read_request(buffer: Bytes, at: int, end: int, places: Longs, row: int) -> None:
    while at < end:
        kind = np.int64(buffer[at])
        size = _value_bytes(buffer, kind, at + 1)
        if size == 0 or at + 1 + size > end:
            return
        if kind == _RESPONSE_TOPIC:
            places[row, TOPIC_AT], places[row, TOPIC_BYTES] = at + 3, size - 2
        elif kind == _CORRELATION_DATA:
            places[row, DATA_AT], places[row, DATA_BYTES] = at + 3, size - 2
        at += 1 + size


@njit("i8(u1[::1], i8, i8, i8, u1[::1], i8[:, ::1])", cache=True, nogil=True)
def find_payloads(buffer: Bytes, at: int, end: int, level: int, held: Bytes, places: Longs) -> int:
    """Notes the new messages of a stretch of whole packets that `walk_deliveries` has read; how many there are.

    `held` is what it was before that walk, so that the same retransmissions are passed over.
    """
    row = 0
    while at < end:
        first = np.int64(buffer[at])
        size, begin = _variable(buffer, at + 1)
        at = begin + size
        if first >> 4 == 6:
            identifier = _two(buffer, begin)
            held[identifier >> 3] &= 0xFF ^ (1 << (identifier & 7))
            continue
        qos = (first >> 1) & 3
        payload = begin + 2 + _two(buffer, begin)
        is_new = True
        if qos:
            if qos == 2:
                identifier = _two(buffer, payload)
                mark = 1 << (identifier & 7)
                is_new = (held[identifier >> 3] & mark) == 0
                held[identifier >> 3] |= mark
            payload += 2
        if not is_new:
            continue
        places[row, :] = 0
        if level >= 5:
            block, properties = _variable(buffer, payload)
            payload = properties + block
            _read_request(buffer, properties, payload, places, row)
        places[row, BEGIN], places[row, END] = payload, at
        row += 1
    return row
