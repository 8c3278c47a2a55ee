"""Bytes of messages on their way to an outbox."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of consecutive packets: all of one length, or each with its end."""

    data: memoryview
    stride: int = 0  # bytes of each packet; 0 where `ends` says more, or where no packet ends here
    ends: NDArray[np.int64] | None = None


Block = tuple[Piece, ...]  # consecutive packets; a large one is several pieces, and ends with the last of them
