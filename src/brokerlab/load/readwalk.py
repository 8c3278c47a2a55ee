"""Reads a subscriber's socket and walks what came in one compiled call, until nothing is left.

Under saturation a worker finds several pieces at each of its sockets and comes to them with cold caches: what Python
does for a piece is a sixth of the CPU that ten subscribers at QoS 0 take (docs/design/0004). So the C library is called
from here (recvmsg(2), clock_gettime(2), getsockopt(2)); arrival.py has the same in Python, and says what stamps mean.

Only plain data is dealt with. Nothing there, the end of the connection, a packet that is no message, rows that are
full: the call ends before it, and who called finds it as it would have without this.
"""

# mypy: disable-error-code="assignment, no-any-return"
# (NumPy's integers, as in wire.py; what C returns is known to Numba only.)

import select
import socket
from typing import Any

import numpy as np
from numba import types

from brokerlab.load import wallclock
from brokerlab.load.arrival import LATE_NS, OUT_OF_ORDER, SO_TIMESTAMPNS
from brokerlab.load.stalls import WOKE_LATE_NS
from brokerlab.load.wallclock import CLOSE_ENOUGH_NS
from brokerlab.load.wire import Bytes, Longs, compiled, count_overtaken, walk_deliveries

_recvmsg: Any = types.ExternalFunction("recvmsg", types.int64(types.int32, types.uintp, types.int32))
recv: Any = types.ExternalFunction("recv", types.int64(types.int32, types.uintp, types.uintp, types.int32))
send: Any = types.ExternalFunction("send", types.int64(types.int32, types.uintp, types.uintp, types.int32))
_ppoll: Any = types.ExternalFunction("ppoll", types.int32(types.uintp, types.uintp, types.uintp, types.uintp))
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))
_getsockopt: Any = types.ExternalFunction(
    "getsockopt", types.int32(types.int32, types.int32, types.int32, types.uintp, types.uintp)
)

MOST = 64  # pieces of a call: before a broker that never ends the loop has other things to do too

# What the kernel reads and writes, in words of 8 bytes as 64-bit Linux lays them out:
#
#     0       7    9       11                  15    16      17    18
#     | msghdr | iovec | timespec | control message | length | pollfd | late | tcp_info
#
# (late: by how much waits were late, those that were; nobody but us looks at it.)
_IOVEC, _TIME, _CONTROL, _LENGTH, _POLL, _LATE, _INFO = 7, 9, 11, 15, 16, 17, 18
_CONTROL_WORDS = 4
_INFO_BYTES = OUT_OF_ORDER.stop
_STAMPED = SO_TIMESTAMPNS << 32 | socket.SOL_SOCKET  # level and type of the control message
_OUT_OF_ORDER_WORD, _OUT_OF_ORDER_SHIFT = _INFO + OUT_OF_ORDER.start // 8, 8 * (OUT_OF_ORDER.start % 8)
_WORDS = _INFO + _INFO_BYTES // 8 + 1
_POLLIN = select.POLLIN
_REALTIME, _MONOTONIC = 0, 1
_TCP, _TCP_INFO = socket.IPPROTO_TCP, socket.TCP_INFO
DONT_WAIT = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


CLOCKS: Longs = np.frombuffer(wallclock.STATE, dtype=np.int64)  # the same as for reads in Python
note: Any = compiled("void(i8[::1], i8, i8)")(wallclock.note)
place: Any = compiled("i8(i8[::1], i8, i8)")(wallclock.place)


def words() -> Longs:
    return np.zeros(_WORDS, dtype=np.int64)


def notes() -> Longs:
    """A row for each piece: messages, time of arrival, how long it waited for us."""
    return np.zeros((MOST, 3), dtype=np.int64)


@compiled("i8(i8[::1])")
def monotonic_ns(words: Longs) -> int:
    """The time; `words` has it too."""
    _clock_gettime(np.int32(_MONOTONIC), np.uintp(words.ctypes.data + 8 * _TIME))
    return words[_TIME] * 1_000_000_000 + words[_TIME + 1]


@compiled("i8(i8[::1], i8, i8)")
def wait(words: Longs, fd: int, duration_ns: int) -> int:
    """Sleeps so long, or until `fd` can be read: whether it can. A negative one never can (ppoll(2)).

    `words` adds up by how much it was late (stalls.py).
    """
    until_ns = monotonic_ns(words) + duration_ns
    words[_TIME], words[_TIME + 1] = duration_ns // 1_000_000_000, duration_ns % 1_000_000_000
    words[_POLL] = (fd & 0xFFFFFFFF) | _POLLIN << 32
    base = words.ctypes.data
    is_ready = _ppoll(np.uintp(base + 8 * _POLL), np.uintp(1), np.uintp(base + 8 * _TIME), np.uintp(0)) > 0
    late_ns = monotonic_ns(words) - until_ns
    if late_ns > WOKE_LATE_NS:
        words[_LATE] += late_ns
    return is_ready


def late_ns(words: Longs) -> int:
    """By how much waits with these words were late since the last question, those that were."""
    late, words[_LATE] = int(words[_LATE]), 0
    return late


@compiled("i8(i8[::1], i8[::1])")
def _look(words: Longs, clocks: Longs) -> int:
    """As wallclock.look; who calls from Python refreshes `clocks` itself. `words` has the time of now or just after."""
    now = monotonic_ns(words)
    _clock_gettime(np.int32(_REALTIME), np.uintp(words.ctypes.data + 8 * _TIME))
    wall = words[_TIME] * 1_000_000_000 + words[_TIME + 1]
    after = monotonic_ns(words)
    if after - now <= CLOSE_ENOUGH_NS:
        note(clocks, wall - (now + after) // 2, now)
    return now


@compiled("UniTuple(i8, 2)(i8, i8[::1], u1[::1], i8, i8[::1])")
def _receive(fd: int, words: Longs, buffer: Bytes, length: int, clocks: Longs) -> tuple[int, int]:
    """Bytes behind the first `length` of the buffer, and when they came by the kernel's stamp; `words` has the time."""
    base = words.ctypes.data
    words[0], words[1] = 0, 0
    words[2], words[3] = base + 8 * _IOVEC, 1
    words[4], words[5], words[6] = base + 8 * _CONTROL, 8 * _CONTROL_WORDS, 0
    words[_IOVEC], words[_IOVEC + 1] = buffer.ctypes.data + length, buffer.size - length
    got = _recvmsg(np.int32(fd), np.uintp(base), np.int32(DONT_WAIT))
    now = _look(words, clocks)
    if words[5] >= 8 * _CONTROL_WORDS and words[_CONTROL + 1] == _STAMPED:
        stamp = words[_CONTROL + 2] * 1_000_000_000 + words[_CONTROL + 3]
        return got, place(clocks, stamp, now)
    return got, now


@compiled("i8(i8, i8[::1])")
def _out_of_order(fd: int, words: Longs) -> int:
    """How many segments of a connection came out of order so far."""
    base = words.ctypes.data
    words[_OUT_OF_ORDER_WORD], words[_LENGTH] = 0, _INFO_BYTES
    _getsockopt(
        np.int32(fd), np.int32(_TCP), np.int32(_TCP_INFO), np.uintp(base + 8 * _INFO), np.uintp(base + 8 * _LENGTH)
    )
    return (words[_OUT_OF_ORDER_WORD] >> _OUT_OF_ORDER_SHIFT) & 0xFFFFFFFF


@compiled(
    "UniTuple(i8, 12)(i8, i8[::1], u1[::1], i8, i8, i8[:, ::1], i8, u1[::1], u1[::1], i8[::1], i8[:, ::1],"
    " i8[::1], i8, i8, i8, i8)"
)
def read_walk(
    fd: int, words: Longs, buffer: Bytes, length: int, level: int, rows: Longs, row: int, held: Bytes, acks: Bytes,
    highest: Longs, notes: Longs, clocks: Longs, last_ns: int, out_of_order: int, piece_bytes: int, most: int,
) -> tuple[int, int, int, int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Reads up to `most` pieces behind the first `length` bytes of the buffer, and their messages into rows.

    It reads on while a piece is of `piece_bytes` or more. `highest` is empty where nobody counts what is overtaken.
    Returns (position, length: what is left of the buffer lies between; why the walk stopped, next row, overtaken,
    pieces, bytes of all, bytes of the last or what recvmsg(2) returned instead of one, bytes of acknowledgements,
    retransmissions, time of the last stamp, segments out of order).
    """
    at, over, pieces, whole, got, used, again, why = 0, 0, 0, 0, 0, 0, 0, 0
    while pieces < most and length < buffer.size and why == 0:
        came, arrived = _receive(fd, words, buffer, length, clocks)
        if came <= 0:
            got = got if pieces else came
            break
        got = came
        now = words[_TIME] * 1_000_000_000 + words[_TIME + 1]
        if now - arrived > LATE_NS:
            before, out_of_order = out_of_order, _out_of_order(fd, words)
            if out_of_order != before or arrived < last_ns - CLOSE_ENOUGH_NS:
                arrived = now
        last_ns = max(arrived, last_ns)
        length += got
        whole += got
        first = row
        at, row, answers, more, why = walk_deliveries(buffer, length, 0, level, rows, row, held, acks[used:])
        used += answers
        again += more
        if highest.size:
            over += count_overtaken(rows, first, row, highest)
        notes[pieces, 0] = row - first
        notes[pieces, 1] = last_ns
        notes[pieces, 2] = now - last_ns
        pieces += 1
        if got < piece_bytes or pieces == most:
            break
        if at and why == 0:
            for place in range(length - at):
                buffer[place] = buffer[at + place]
            length -= at
            at = 0
    return at, length, why, row, over, pieces, whole, got, used, again, last_ns, out_of_order
