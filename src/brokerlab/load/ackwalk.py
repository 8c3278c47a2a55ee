"""Reads a publisher's socket and walks what came, in one compiled call.

Publishers that are many, or look seldom (gather.py), come to their sockets with cold caches: what Python did for each
read was most of what ten of them took at QoS 2 (docs/design/0004).

Only plain acknowledgements are dealt with: before anything else the call ends, and who called goes on from there.
"""

# mypy: disable-error-code="assignment, no-any-return"
# (NumPy's integers, as in wire.py; what C returns is known to Numba only.)

import numpy as np

from brokerlab.load.readwalk import DONT_WAIT, monotonic_ns, recv
from brokerlab.load.wire import Bytes, Longs, compiled, walk_acknowledgements

# Why a walk stopped, beside what wire.py has: nothing could be read now, or will be ever.
NOTHING, CLOSED = -1, -2


@compiled("UniTuple(i8, 6)(i8, i8[::1], u1[::1], i8, i8, i8, i8, i8[::1], u1[::1], i8[::1])")
def read_acknowledgements(
    fd: int, words: Longs, buffer: Bytes, length: int, level: int, oldest: int, following: int, acked_ns: Longs,
    out: Bytes, seen: Longs,
) -> tuple[int, int, int, int, int, int]:  # fmt: skip
    """Reads once behind the first `length` bytes of the buffer; the rest is as in wire.walk_acknowledgements.

    Returns (position, length: what is left of the buffer lies between; why it stopped, oldest message in flight, bytes
    of PUBRELs, which are to be sent, and when it was read). NOTHING may also be an error, of which epoll tells.
    """
    got = recv(np.int32(fd), np.uintp(buffer[length:].ctypes.data), np.uintp(buffer.size - length), np.int32(DONT_WAIT))
    if got <= 0:
        return 0, length, NOTHING if got else CLOSED, oldest, 0, 0
    now = monotonic_ns(words)
    length += got
    at, oldest, _, used, why = walk_acknowledgements(
        buffer, length, 0, level, oldest, following, acked_ns, now, out, seen
    )
    return at, length, why, oldest, used, now
