"""How wide the window of a saturating load should be: as wide as makes the broker deliver more, and no wider.

The window is doubled at fixed intervals while the delivered rate still grows. When two doublings in a row
brought less than a few per cent, it goes back to the last size that did and stays: a wider window would
lengthen the queue in the broker and nothing else. Two, because on a busy machine one interval may be slow.
"""

FIRST = 32
# Brokers drop what does not fit into a subscriber's queue, also at QoS 1 and 2, and what is dropped stays outstanding
# until the window writes it off. So it grows no wider than the default window; who wants more gives a number.
MOST = 500
STEP_NS = 100_000_000  # how long a size is tried
SETTLE_NS = 25_000_000  # of that, until what the size before left behind is over
GAIN = 0.03
_FRUITLESS = 2


class Widening:
    """Is shown how much was delivered, and says how wide the window is."""

    def __init__(self) -> None:
        self.size = FIRST
        self.steps: list[tuple[int, float]] = []  # every size tried, with the deliveries a second that it brought
        self.settled_ns: int | None = None  # how long after the first look it stays as it is
        self._began_ns: int | None = None
        self._tried_ns = self._from_ns = 0
        self._delivered: int | None = None  # when the size had settled
        self._best = (FIRST, 0.0)

    def look(self, now: int, delivered: int) -> int:
        """The size of the window from now on."""
        if self._began_ns is None:
            self._began_ns = self._tried_ns = now
        if self.settled_ns is not None or now - self._tried_ns < SETTLE_NS:
            return self.size
        if self._delivered is None:
            self._delivered, self._from_ns = delivered, now
        elif now - self._tried_ns >= STEP_NS:
            self._judge(now, (delivered - self._delivered) * 1e9 / (now - self._from_ns))
        return self.size

    def _judge(self, now: int, rate_per_s: float) -> None:
        self.steps.append((self.size, rate_per_s))
        if rate_per_s > self._best[1] * (1 + GAIN):
            self._best = (self.size, rate_per_s)
        sizes = [size for size, _ in self.steps]
        is_fruitless = len(sizes) - 1 - sizes.index(self._best[0]) >= _FRUITLESS
        if is_fruitless or self.size == MOST:
            self.size, self.settled_ns = self._best[0], now - (self._began_ns or 0)
            return
        self.size, self._tried_ns, self._delivered = min(2 * self.size, MOST), now, None
