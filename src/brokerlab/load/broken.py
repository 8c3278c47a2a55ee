"""What is wrong with a packet that a compiled walk stopped at, in words.

The walks are fast and say no more than that; the parser, which is their reference, knows the rule that is broken.
"""

import numpy as np
from numpy.typing import NDArray

from brokerlab.load.packets import MalformedPacketError, decode_length
from brokerlab.load.parser import Parser


class BrokenStreamError(ConnectionAbortedError):
    """The broker sent what has no place; what comes behind it is not read any more."""


def broken(stream: NDArray[np.uint8], *, level: int, otherwise: str = "a malformed packet") -> BrokenStreamError:
    """What ends a connection whose stream goes on with this packet; `otherwise` names one that is well formed."""
    try:
        Parser(level).feed(_first_packet(stream))
    except MalformedPacketError as problem:
        return BrokenStreamError(f"the broker sent a malformed packet: {problem}")
    return BrokenStreamError(f"the broker sent {otherwise}")


def _first_packet(stream: NDArray[np.uint8]) -> bytes:
    decoded = decode_length(stream[:5].tobytes(), 1)
    return stream[: None if decoded is None else sum(decoded)].tobytes()
