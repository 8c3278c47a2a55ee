"""Many publishers at QoS 0 that keep a schedule, served in one compiled call: who is due, its message, the pause.

One of ten thousand publishers sends a message now and then. What the interpreter did for each was two thirds of the CPU
that they took, and the schedule waited for it. Here a message takes the kernel's time and a microsecond.

What a publisher keeps lies in a row of a table while it is lent (crowding.py), by the number of its socket. Who is due
next is told by a heap of (intended time, socket). An entry counts if the row is lent and due then: one that was taken
back leaves its entries behind, which are passed over.
"""

# mypy: disable-error-code="assignment, no-any-return"
# (NumPy's integers, as in wire.py; what C returns is known to Numba only.)

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from brokerlab.load.agenda import ROOM_TO_WATCH_NS, WATCH_NS
from brokerlab.load.pointers import bytes_at, longs_at
from brokerlab.load.readwalk import DONT_WAIT, monotonic_ns, send, wait
from brokerlab.load.rows import ACKED, BYTES, INTENDED, PUBLISHER, SENT, SEQ
from brokerlab.load.wire import Bytes, Longs, build_publishes, compiled

# Columns of the table. Addresses are those of the intended times that are still to come, and of the packet that
# messages are made of. TAKEN is what became of the last one: bytes, or less than 1 where the socket took none.
LENT, FOLLOWING, DUE, COUNT, LAST, TEMPLATE, SIZE, PAYLOAD_AT, NUMBER, TAKEN = range(10)
COLUMNS = 10

_AT_ONCE = 2_048  # messages, some 20 ms of the kernel's time: who has fallen behind still hears what else there is
_SHORTEST_NS = 250_000  # of thousands of publishers some are due all the time: what is due meanwhile goes together


@compiled("b1(i8[:, ::1], i8, i8)")
def _is_current(table: Longs, fd: int, due_ns: int) -> bool:
    """Whether an entry of the heap is one that counts."""
    row = table[fd]
    return row[LENT] != 0 and row[COUNT] > 0 and carray(longs_at(row[DUE]), (1,))[0] == due_ns


@compiled("void(i8[:, ::1], i8, i8, i8)")
def _sink(heap: Longs, size: int, due_ns: int, fd: int) -> None:
    """Puts an entry into the place of the first."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= due_ns:
            break
        heap[place] = heap[child]
        place = child
    heap[place, 0], heap[place, 1] = due_ns, fd


@compiled("i8(i8[:, ::1], i8)")
def _pop(heap: Longs, size: int) -> int:
    """Takes the first entry out; how many are left."""
    if size > 1:
        _sink(heap, size - 1, heap[size - 1, 0], heap[size - 1, 1])
    return size - 1


@compiled("i8(i8[:, ::1], i8, i8, i8)")
def push(heap: Longs, size: int, due_ns: int, fd: int) -> int:
    """How many entries there are then; the heap must have room."""
    place = size
    while place and heap[(place - 1) // 2, 0] > due_ns:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place, 0], heap[place, 1] = due_ns, fd
    return size + 1


@compiled("i8(i8[:, ::1], i8[:, ::1])")
def rebuild(heap: Longs, table: Longs) -> int:
    """One entry for each who is lent and has something due; how many these are."""
    size = 0
    for fd in range(table.shape[0]):
        if table[fd, LENT] and table[fd, COUNT] > 0:
            size = push(heap, size, carray(longs_at(table[fd, DUE]), (1,))[0], fd)
    return size


@compiled("i8(i8[:, ::1], i8, i8[:, ::1])")
def pass_over(heap: Longs, size: int, table: Longs) -> int:
    """Takes entries out that do not count, up to the first that does; how many are left."""
    while size and not _is_current(table, heap[0, 1], heap[0, 0]):
        size = _pop(heap, size)
    return size


@compiled("i8(i8[::1], i8, i8, i8[:, ::1], i8, u1[::1], i8[::1], i8[::1])")
def _send_one(
    row: Longs, fd: int, due_ns: int, rows: Longs, used: int, packet: Bytes, words: Longs, time: Longs
) -> int:
    """The next message of a row, of which a record is made at place `used`: bytes that the socket took of it."""
    template = carray(bytes_at(row[TEMPLATE]), (row[SIZE],))
    time[0] = due_ns
    build_publishes(template, -1, row[PAYLOAD_AT], row[NUMBER], row[FOLLOWING], time, packet)
    sent = monotonic_ns(words)
    row[TAKEN] = send(np.int32(fd), np.uintp(packet.ctypes.data), np.uintp(row[SIZE]), np.int32(DONT_WAIT))
    if row[TAKEN] == row[SIZE]:
        rows[PUBLISHER, used], rows[SEQ, used], rows[INTENDED, used] = row[NUMBER], row[FOLLOWING], due_ns
        rows[SENT, used], rows[ACKED, used], rows[BYTES, used] = sent, 0, row[SIZE] - row[PAYLOAD_AT]
        row[FOLLOWING] += 1
        row[DUE] += 8
        row[COUNT] -= 1
    row[LAST] = sent
    return row[TAKEN]


@compiled("UniTuple(i8, 3)(i8[:, ::1], i8[:, ::1], i8, i8[:, ::1], i8, u1[::1], i8[::1], i8[::1], i8[::1], i8, i8)")
def send_due(
    table: Longs, heap: Longs, size: int, rows: Longs, used: int, packet: Bytes, words: Longs, time: Longs, left: Longs,
    ears: int, until_ns: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Sends what is due, and goes on to do so until a time, or until `ears` can be read.

    It ends early when a publisher has to be seen to, because nothing of it is left or its socket did not take all: it
    is in `left` then, and lent no more; and after many messages. Returns (entries of the heap, next row, how many are
    in `left`).
    """
    count, last = 0, min(rows.shape[1], used + _AT_ONCE)
    while True:
        now = monotonic_ns(words)
        size = pass_over(heap, size, table)
        while size and heap[0, 0] <= now and used < last and count < left.size:
            due, fd = heap[0, 0], heap[0, 1]
            row = table[fd]
            if _send_one(row, fd, due, rows, used, packet, words, time) == row[SIZE]:
                used += 1
            if row[TAKEN] == row[SIZE] and row[COUNT] > 0:
                _sink(heap, size, carray(longs_at(row[DUE]), (1,))[0], fd)
            else:
                row[LENT] = 0
                size = _pop(heap, size)
                left[count] = fd
                count += 1
            size = pass_over(heap, size, table)
        if count or used == last or now >= until_ns:
            return size, used, count
        is_due = size > 0 and heap[0, 0] <= until_ns
        pause = (heap[0, 0] if is_due else until_ns) - monotonic_ns(words)
        is_watched = is_due and pause > ROOM_TO_WATCH_NS  # there is time: as Agenda does
        if wait(words, ears, pause - WATCH_NS if is_watched else max(pause, _SHORTEST_NS)):
            return size, used, count
        while is_watched and monotonic_ns(words) < heap[0, 0]:
            pass
