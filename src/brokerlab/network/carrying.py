"""The loop of the userspace link: frames in at one end, out at the other when they are due.

A link without the kernel's netem: each end is a TAP device, and one process between moves the frames of all links of
a network. This is Python compiled by Numba, which calls the C library itself: at 50,000 frames a second there are
20 µs for each, in which it is read, judged, kept and written.

What happens to a frame, in this order (all by a hash of seed, direction and number, so a run can be repeated):

    cut     a link that is cut drops everything
    loss    with the share claimed; correlation makes losses follow losses and keeps the share
    double  a second copy takes the same way
    rate    frames leave one after the other at the rate; what finds more than the queue's bytes waiting is dropped
    delay   from the end of that; jitter moves it to both sides; reordered frames are not delayed

Both tables (columns.py) are shared memory: the lab changes a link while it carries, and reads what it has done.
"""

# mypy: disable-error-code="assignment, return-value, arg-type, no-any-return"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from brokerlab.network.columns import (
    BYTES_IN,
    BYTES_OUT,
    CUT,
    CUT_DROPS,
    DELAY_NS,
    DUPLICATE,
    DUPLICATED,
    FRAMES_IN,
    FRAMES_OUT,
    JITTER_NS,
    LATE,
    LATE_MAX_NS,
    LATE_SUM_NS,
    LOSS,
    LOSS_AFTER_LOSS,
    LOSS_AFTER_PASS,
    LOST,
    NO_ROOM,
    PS_PER_BYTE,
    QUEUE_BYTES,
    QUEUE_DROPS,
    REORDER,
    REORDERED,
    SEED,
    WRITE_FAILED,
)

Longs = NDArray[np.int64]
Table = NDArray[np.int64]
Frames = NDArray[np.uint8]
Descriptors = NDArray[np.int32]

SLOT_BYTES = 2048  # of a kept frame; the largest is 1514
_READS_AT_ONCE = 64
_LATE_NS = 300_000
_IDLE_NS = 200_000_000
_SHORT_NS = 300_000
_POLLIN, _POLLGONE = 1, 0x38  # POLLERR, POLLHUP, POLLNVAL
_MONOTONIC = 1

# The C library's own functions; pointers are passed as the numbers that they are.
_read: Any = types.ExternalFunction("read", types.intp(types.intc, types.uintp, types.uintp))
_write: Any = types.ExternalFunction("write", types.intp(types.intc, types.uintp, types.uintp))
_ppoll: Any = types.ExternalFunction("ppoll", types.intc(types.uintp, types.uintp, types.uintp, types.uintp))
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.uintp))

# Places in the counts of the loop.
_WAITING, _FREE, _ORDER = range(3)
# What a frame's number is hashed for.
_FOR_LOSS, _FOR_DUPLICATE, _FOR_REORDER, _FOR_JITTER = range(1, 5)


@njit("u8(i8, i8, i8)", cache=True, nogil=True)
def _hash(seed: int, number: int, purpose: int) -> int:
    """64 bits that look random: the finalizer of splitmix64."""
    mixed = (
        np.uint64(seed)
        + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
        + np.uint64(purpose) * np.uint64(0xD1B54A32D192ED03)
    )
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit("b1(i8, i8, i8, i8)", cache=True, nogil=True)
def _happens(seed: int, number: int, purpose: int, share: int) -> bool:
    return np.int64(_hash(seed, number, purpose) >> np.uint64(32)) < share


@njit("i8(i8[::1])", cache=True, nogil=True)
def _now_ns(timespec: Longs) -> int:
    _clock_gettime(_MONOTONIC, timespec.ctypes.data)
    return timespec[0] * 1_000_000_000 + timespec[1]


@njit("b1(i8[:, ::1], i8, i8)", cache=True, nogil=True)
def _is_before(waiting: Table, first: int, second: int) -> bool:
    if waiting[first, 0] != waiting[second, 0]:
        return waiting[first, 0] < waiting[second, 0]
    return waiting[first, 1] < waiting[second, 1]


@njit("void(i8[:, ::1], i8, i8)", cache=True, nogil=True)
def _swap(waiting: Table, first: int, second: int) -> None:
    for column in range(3):
        kept = waiting[first, column]
        waiting[first, column] = waiting[second, column]
        waiting[second, column] = kept


@njit("void(i8[:, ::1], i8[::1], i8, i8)", cache=True, nogil=True)
def _push(waiting: Table, counts: Longs, due_ns: int, slot: int) -> None:
    """Into the heap of frames by when they are due; of two at one time the earlier goes first."""
    place = counts[_WAITING]
    counts[_WAITING] += 1
    counts[_ORDER] += 1
    waiting[place, 0], waiting[place, 1], waiting[place, 2] = due_ns, counts[_ORDER], slot
    while place > 0 and _is_before(waiting, place, (place - 1) // 2):
        _swap(waiting, place, (place - 1) // 2)
        place = (place - 1) // 2


@njit("i8(i8[:, ::1], i8[::1])", cache=True, nogil=True)
def _pop(waiting: Table, counts: Longs) -> int:
    """The slot of the frame that is due first."""
    slot = waiting[0, 2]
    counts[_WAITING] -= 1
    last = counts[_WAITING]
    _swap(waiting, 0, last)
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        if child + 1 < last and _is_before(waiting, child + 1, child):
            child += 1
        if not _is_before(waiting, child, place):
            break
        _swap(waiting, child, place)
        place = child
    return slot


@njit("i8(i8[::1], i8[::1], i8[::1], i8, i8)", cache=True, nogil=True)
def _due_ns(claim: Longs, done: Longs, busy_ps: Longs, now_ns: int, length: int) -> int:
    """When a frame is due at the other end, on the loop's clock; -1 where the queue is full."""
    sent_ns = now_ns
    if claim[PS_PER_BYTE] > 0:
        start_ps = max(busy_ps[0], now_ns * 1000)
        if (start_ps - now_ns * 1000) // claim[PS_PER_BYTE] + length > claim[QUEUE_BYTES]:
            done[QUEUE_DROPS] += 1
            return -1
        busy_ps[0] = start_ps + length * claim[PS_PER_BYTE]
        sent_ns = busy_ps[0] // 1000
    number = done[FRAMES_IN]
    if claim[REORDER] > 0 and _happens(claim[SEED], number, _FOR_REORDER, claim[REORDER]):
        done[REORDERED] += 1
        return sent_ns
    jitter_ns = 0
    if claim[JITTER_NS] > 0:
        span = np.uint64(2 * claim[JITTER_NS] + 1)
        jitter_ns = np.int64(_hash(claim[SEED], number, _FOR_JITTER) % span) - claim[JITTER_NS]
    return sent_ns + claim[DELAY_NS] + jitter_ns


@njit("b1(i8[::1], i8[::1], i8[::1])", cache=True, nogil=True)
def _is_lost(claim: Longs, done: Longs, last_lost: Longs) -> bool:
    if claim[LOSS] == 0:
        return False
    share = claim[LOSS_AFTER_LOSS] if last_lost[0] else claim[LOSS_AFTER_PASS]
    last_lost[0] = _happens(claim[SEED], done[FRAMES_IN], _FOR_LOSS, share)
    return last_lost[0] == 1


@njit(
    "void(i4, i8, i8[:, ::1], i8[:, ::1], u1[:, ::1], i8[:, ::1],"
    "     i8[:, ::1], i8[::1], i8[::1], i8[:, ::1], i8, i8[::1])",
    cache=True, nogil=True,
)  # fmt: skip
def _take(
    descriptor: int,
    direction: int,
    claims: Table,
    done: Table,
    store: Frames,
    frames: Table,
    waiting: Table,
    free: Longs,
    counts: Longs,
    states: Table,
    came_after_ns: int,
    timespec: Longs,
) -> None:
    """Reads what has come in at one end, and keeps it until it is due.

    `came_after_ns` is the beginning of the loop's clock, and how long a frame waits before we are awake to read it.
    """
    claim, did = claims[direction], done[direction]
    for _ in range(_READS_AT_ONCE):
        if counts[_FREE] < 2:
            did[NO_ROOM] += 1  # the kernel holds what is not read, and drops what is too much
            return
        slot = free[counts[_FREE] - 1]
        length = _read(descriptor, store[slot].ctypes.data, SLOT_BYTES)
        if length <= 0:
            return
        did[FRAMES_IN] += 1
        did[BYTES_IN] += length
        if claim[CUT] != 0:
            did[CUT_DROPS] += 1
            continue
        if _is_lost(claim, did, states[direction, 1:]):
            did[LOST] += 1
            continue
        copies = 1
        if claim[DUPLICATE] > 0 and _happens(claim[SEED], did[FRAMES_IN], _FOR_DUPLICATE, claim[DUPLICATE]):
            copies = 2
        for copy in range(copies):
            due_ns = _due_ns(claim, did, states[direction], _now_ns(timespec) - came_after_ns, length)
            if due_ns < 0:
                break
            place = free[counts[_FREE] - 1]
            counts[_FREE] -= 1
            if copy == 1:
                did[DUPLICATED] += 1
                store[place, :length] = store[slot, :length]
            frames[place, 0], frames[place, 1] = direction, length
            _push(waiting, counts, due_ns, place)


@njit(
    "void(i4[::1], i8[:, ::1], u1[:, ::1], i8[:, ::1], i8[:, ::1], i8[::1], i8[::1], i8, i8[::1])",
    cache=True, nogil=True,
)  # fmt: skip
def _give(
    descriptors: Descriptors,
    done: Table,
    store: Frames,
    frames: Table,
    waiting: Table,
    free: Longs,
    counts: Longs,
    base_ns: int,
    timespec: Longs,
) -> None:
    """Writes what is due to the other end."""
    for _ in range(_READS_AT_ONCE):
        if counts[_WAITING] == 0:
            return
        late_ns = _now_ns(timespec) - base_ns - waiting[0, 0]
        if late_ns < 0:
            return
        slot = _pop(waiting, counts)
        direction, length = frames[slot, 0], frames[slot, 1]
        did = done[direction]
        if _write(descriptors[direction ^ 1], store[slot].ctypes.data, length) == length:
            did[FRAMES_OUT] += 1
            did[BYTES_OUT] += length
        else:
            did[WRITE_FAILED] += 1
        did[LATE_SUM_NS] += late_ns
        did[LATE_MAX_NS] = max(did[LATE_MAX_NS], late_ns)
        did[LATE] += late_ns > _LATE_NS
        free[counts[_FREE]] = slot
        counts[_FREE] += 1


@njit("i8(i8)", cache=True, nogil=True)
def waking_ns(times: int) -> int:
    """How late the kernel wakes this process, the median of so many times."""
    timespec, polled = np.zeros(2, dtype=np.int64), np.zeros((1, 2), dtype=np.int32)
    late_ns = np.zeros(times, dtype=np.int64)
    for number in range(times):
        due_ns = _now_ns(timespec) + _SHORT_NS
        timespec[0], timespec[1] = 0, _SHORT_NS
        _ppoll(polled.ctypes.data, 0, timespec.ctypes.data, 0)
        late_ns[number] = _now_ns(timespec) - due_ns
    late_ns.sort()
    return late_ns[times // 2]


@njit("void(i4[::1], i4, i8[:, ::1], i8[:, ::1], u1[:, ::1], i8)", cache=True, nogil=True)
def carry(descriptors: Descriptors, until: int, claims: Table, done: Table, store: Frames, waking_ns: int) -> None:
    """Carries frames between the ends, two rows of descriptors for each link, until `until` can be read or is closed.

    Row d of the claims is about frames that come in at descriptor d and go out at the other of its pair.
    The kernel wakes us late, when a frame comes in and when one is due: `waking_ns` is taken off both times, and what
    is left to wait when we wake early is spent awake.
    """
    ends, slots = len(descriptors), len(store)
    frames = np.zeros((slots, 2), dtype=np.int64)  # direction and length of what is kept
    waiting = np.zeros((slots, 3), dtype=np.int64)  # a heap: when due, order, slot
    free = np.arange(slots - 1, -1, -1).astype(np.int64)
    counts = np.zeros(3, dtype=np.int64)
    counts[_FREE] = slots
    states = np.zeros((ends, 2), dtype=np.int64)  # when the rate is free again, in ps; whether the last frame was lost
    timespec = np.zeros(2, dtype=np.int64)
    polled = np.zeros((ends + 1, 2), dtype=np.int32)  # struct pollfd: events in the lower half, answers in the upper
    for end in range(ends):
        polled[end, 0], polled[end, 1] = descriptors[end], _POLLIN
    polled[ends, 0], polled[ends, 1] = until, _POLLIN
    base_ns = _now_ns(timespec)
    while True:
        _give(descriptors, done, store, frames, waiting, free, counts, base_ns, timespec)
        wait_ns = _IDLE_NS
        if counts[_WAITING] > 0:
            wait_ns = min(wait_ns, max(0, waiting[0, 0] + base_ns - _now_ns(timespec) - waking_ns))
        timespec[0], timespec[1] = 0, wait_ns
        for end in range(ends + 1):
            polled[end, 1] = _POLLIN
        if _ppoll(polled.ctypes.data, ends + 1, timespec.ctypes.data, 0) <= 0:
            continue
        if polled[ends, 1] >> 16 != 0:
            return
        for end in range(ends):
            answer = polled[end, 1] >> 16
            if answer & _POLLIN:
                _take(
                    descriptors[end],
                    end,
                    claims,
                    done,
                    store,
                    frames,
                    waiting,
                    free,
                    counts,
                    states,
                    base_ns + waking_ns,
                    timespec,
                )
            elif answer & _POLLGONE:
                polled[end, 0] = -1  # its device is gone
