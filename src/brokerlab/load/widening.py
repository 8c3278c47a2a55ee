"""How wide the window of a saturating load should be: as wide as makes the broker deliver more, and no wider.

The window is doubled at fixed intervals while the delivered rate still grows. When two doublings in a row
brought less than a few per cent, it goes back to the last size that did and stays: a wider window would
lengthen the queue in the broker and nothing else. Two, because on a busy machine one interval may be slow.
Where messages get lost it goes back at once: brokers drop what does not fit into a subscriber's queue, at
QoS 1 and 2 too, and a rate that is bought with losses is not the broker's.
"""

FIRST = 64
FIRST_EXACTLY_ONCE = 16  # brokers allow few messages in the middle of a QoS 2 handshake, Mosquitto 20
MOST = 32_768  # half of a client's packet identifiers
STEP_NS = 100_000_000  # how long a size is tried
SETTLE_NS = 25_000_000  # of that, until what the size before left behind is over
GAIN = 0.03
_FRUITLESS = 2
_LOSS = 0.0001  # of what was delivered at a size; a message that is merely out of order is counted meanwhile


class Widening:
    """Is shown how much was delivered, and says how wide the window is."""

    def __init__(self, first: int = FIRST) -> None:
        self.size = first
        self.steps: list[tuple[int, float]] = []  # every size tried, with the deliveries a second that it brought
        self.settled_ns: int | None = None  # how long after the first look it stays as it is
        self._began_ns: int | None = None
        self._tried_ns = self._from_ns = 0
        self._delivered: int | None = None  # when the size had settled
        self._best = (first, 0.0)
        self._lost = 0
        self._is_over = False

    def stop(self) -> int:
        """Ends the search where it is: the best size so far is kept, and `settled_ns` stays null."""
        self.size, self._is_over = self._best[0], True
        return self.size

    def look(self, now: int, delivered: int, lost: int = 0) -> int:
        """The size of the window from now on."""
        if self._began_ns is None:
            self._began_ns = self._tried_ns = now
        if self._is_over or now - self._tried_ns < SETTLE_NS:
            return self.size
        if self._delivered is None:
            self._delivered, self._from_ns = delivered, now
        elif now - self._tried_ns >= STEP_NS:
            is_lossy = lost - self._lost > _LOSS * (delivered - self._delivered)
            self._lost = lost
            self._judge(now, (delivered - self._delivered) * 1e9 / (now - self._from_ns), is_lossy=is_lossy)
        return self.size

    def _judge(self, now: int, rate_per_s: float, *, is_lossy: bool) -> None:
        self.steps.append((self.size, rate_per_s))
        if rate_per_s > self._best[1] * (1 + GAIN) and not is_lossy:
            self._best = (self.size, rate_per_s)
        sizes = [size for size, _ in self.steps]
        is_fruitless = len(sizes) - 1 - sizes.index(self._best[0]) >= _FRUITLESS
        if is_fruitless or is_lossy or self.size == MOST:
            self.stop()
            self.settled_ns = now - (self._began_ns or 0)
            return
        self.size, self._tried_ns, self._delivered = min(2 * self.size, MOST), now, None
