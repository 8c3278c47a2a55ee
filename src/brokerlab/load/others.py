"""What a publisher needs of who hears for it."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Others(Protocol):
    """What is done with packets that are no acknowledgements, by a publisher that also hears."""

    def take(self, view: NDArray[np.uint8], length: int, at: int, arrived_ns: int) -> int:
        """Takes in whole packets from `at` on, one at least; the place after the last of them."""
        ...

    def leave(self) -> None:
        """The publisher's connection is over, and it will have another."""
        ...

    def come_back(self, *, is_resumed: bool) -> None:
        """The publisher has its next connection; what is to go first over it may be queued now."""
        ...

    def done(self, arrived_ns: int, *, is_empty: bool) -> None:
        """All of a read is taken in, and perhaps all that the socket held."""
        ...
