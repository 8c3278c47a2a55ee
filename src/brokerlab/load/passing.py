"""A PUBLISH that is too long to keep: its head is kept, the rest of its payload is counted and let go.

The compiled walk reads whole packets, and a payload may have 256 MB. So the head is made into a short packet with
the same variable header and the beginning of the payload, which holds the identity; it is walked when the last
byte of the long packet has come, and the row is then given its true size.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerlab.load.packets import decode_length, encode_length
from brokerlab.study.template import LONGEST_BYTES

LONG_BYTES = 256 * 1024  # a packet above it is not kept
_KEPT_BYTES = LONGEST_BYTES  # of the payload: every identity lies within
_PUBLISH = 3


@dataclass(slots=True)
class Passing:
    """One long packet that is on its way in."""

    short: NDArray[np.uint8]  # the packet with the beginning of its payload
    cut_bytes: int  # payload bytes that it lacks
    missing_bytes: int  # that have not come yet

    def take(self, available: int) -> int:
        """How many of the bytes that came belong to the packet."""
        taken = min(available, self.missing_bytes)
        self.missing_bytes -= taken
        return taken


def passing_of(data: NDArray[np.uint8], *, level: int) -> Passing | None:
    """The long packet whose beginning this is; None for others, and while too little of it is here."""
    if data.size < 2 * _KEPT_BYTES or data[0] >> 4 != _PUBLISH:
        return None
    found = decode_length(data[:5].tobytes(), 1)
    if found is None or sum(found) <= LONG_BYTES:
        return None
    size, begin = found
    head = data[: 2**20].tobytes()
    payload = _payload_at(head, begin, level=level)
    kept = payload + _KEPT_BYTES
    if kept > data.size or kept > begin + size:
        return None
    short = head[:1] + encode_length(kept - begin) + head[begin:kept]
    whole = begin + size
    return Passing(np.frombuffer(short, dtype=np.uint8).copy(), whole - kept, whole - data.size)


def _payload_at(head: bytes, begin: int, *, level: int) -> int:
    at = begin + 2 + int.from_bytes(head[begin : begin + 2], "big") + (2 if head[0] & 0x06 else 0)
    if level < 5:
        return at
    found = decode_length(head, at)
    return len(head) if found is None else sum(found)
