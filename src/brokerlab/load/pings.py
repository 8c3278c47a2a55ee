"""Which clients are due a PINGREQ, spread over a third of the keep-alive: all at once would hold a schedule up."""

from collections.abc import Collection

PINGREQ = b"\xc0\x00"


class Pings:
    """Walks over the connections of a worker, once every third of the keep-alive."""

    def __init__(self, keep_alive_s: int) -> None:
        self._keep_alive_s = keep_alive_s
        self._round: list[int] = []
        self._began_ns = 0
        self._done = 0
        self._next_ns = 0  # nobody's turn comes before: the loop asks at every wake

    def shorten(self, keep_alive_s: int) -> None:
        """A broker asks for a shorter keep-alive, which is then that of all; 0 asks for none."""
        if keep_alive_s:
            self._keep_alive_s = min(self._keep_alive_s, keep_alive_s)
            self._next_ns = 0

    @property
    def every_ns(self) -> int:
        return self._keep_alive_s * 1_000_000_000 // 3

    def due(self, now: int, open_fds: Collection[int]) -> list[int]:
        """The connections whose turn has come, by file descriptor; some may be over."""
        if now < self._next_ns:
            return []
        third_ns = self.every_ns
        if not self._began_ns:
            self._begin(now, open_fds)
            self._next_ns = self._turn_ns()
            return []
        until = min(len(self._round), len(self._round) * (now - self._began_ns) // third_ns)
        turn, self._done = self._round[self._done : until], max(self._done, until)
        if now - self._began_ns >= third_ns:
            self._begin(now, open_fds)
        self._next_ns = self._turn_ns()
        return turn

    def _turn_ns(self) -> int:
        """When the next one is due, or the round is over."""
        return self._began_ns + self.every_ns * min(1 + self._done, len(self._round)) // max(1, len(self._round))

    def _begin(self, now: int, open_fds: Collection[int]) -> None:
        self._round, self._began_ns, self._done = list(open_fds), now, 0
