"""How wide the window of a saturating load should be: as wide as makes the broker deliver more, and no wider.

The window is doubled at fixed intervals until messages take long through it or get lost; then the sizes that came
somewhere near the best are tried twice more, because on a busy machine any one interval may be slow, or fast: what
counts is the second best of three. Messages that have a long way take long through any window: there it is doubled for
as long as that brings more, at intervals of several such times. It stays at the smallest size that came near the best
of all and through which messages take 50 ms: a wider one would lengthen the queue in the broker and nothing else, and
through a shorter one the generator wakes so often that it takes CPU from the broker. Where there is none, it is the
widest that came about as far as the best.
Sizes at which messages got lost are out: brokers drop what does not fit into a subscriber's queue, at QoS 1 and 2 too,
and a rate that is bought with losses is not the broker's. It must happen in two intervals of a size, one after the
other: a single message that comes late would otherwise end the search at a window of sixteen.
"""

FIRST = 64
FIRST_EXACTLY_ONCE = 16  # brokers allow few messages in the middle of a QoS 2 handshake, Mosquitto 20
MOST = 32_768  # half of a client's packet identifiers
STEP_NS = 100_000_000  # how long a size is tried, at least
_TRANSITS = 3  # and at least so many times what a message takes through it: workers look at it in portions
_WAYS = 5  # and so many times what the first message took: before that nothing of a new size is seen
_SETTLING = 1 / 4  # of that time, until what the size before left behind is over
_GROWING = 1.5  # times what half the size brought: the way is the limit, not the broker
_QUEUED = 1.5  # times the way: a message that takes less through the window hardly waits in the broker
TRANSIT_S = 0.1  # through a window this long every broker has enough to do
# A worker finds a share of the window at a look, which costs as much as thirty messages, and more where the kernel
# sends every packet on its own (with cubic; BBR holds them together): at 13 ms QoS 1 took twice the CPU of 100 ms.
LONG_S = 0.05
NEAR = 0.95  # of the best rate
ALIKE = 0.9  # of it: two intervals of one size differ as much
_HOPEFUL = 0.5  # of it, in the first pass: sizes that may come near it in another, on a host that others use too
_SHORT = 1 / 4  # of LONG_S: through anything shorter a size must have been the best to be tried again
_MOST_NOISE = 0.15
_MORE_PASSES = 2
_LOSS = 0.0001  # of what was delivered at a size; a message that is merely out of order is counted meanwhile


class Widening:
    """Is shown how much was delivered, and says how wide the window is."""

    def __init__(self, first: int = FIRST, *, most: int = MOST, fan_out: float = 1.0) -> None:
        self.size = self._first = first
        self._fan_out = fan_out
        self._most = self._widest = most
        self.steps: list[tuple[int, float]] = []  # every size tried, with the deliveries a second that it brought
        self.settled_ns: int | None = None  # how long after the first look it stays as it is
        self._began_ns: int | None = None
        self._at_first = 0  # delivered at the first look
        self._way_ns: int | None = None  # of a message: from the first look to the first delivery, or less
        self._settles_ns = 0  # when the size that is tried has settled
        self._from_ns = 0
        self._delivered: int | None = None  # when it had
        self._lost = 0
        self._is_doubted = False  # whether messages got lost in the interval before, at this size
        self._next: list[int] | None = None  # sizes that are still to be tried again, after the first pass
        self._is_over = False
        self.is_cut_short = self.is_widest_narrow = False

    def allow(self, most: int) -> None:
        """The widest that may be tried, from the beginning on."""
        self._most = self._widest = most

    def stop(self) -> int:
        """Ends the search where it is: the best size so far is kept, and `settled_ns` stays null.

        If wider ones would have brought more, it says so: then the window is the limit, not the broker. That may be so
        of the widest that is tried, too: where the way is most of what a message takes through it.
        """
        if not self._is_over:
            self.is_cut_short = self._next is None and (not self.steps or self._is_growing())
            self.size, self._is_over = self._best(), True
            self.is_widest_narrow = self.size == self._widest and self._is_hardly_queued()
        return self.size

    def next_ns(self) -> int | None:
        """Before when no look changes the size; None after the search."""
        if self._is_over:
            return None
        if self._way_ns is None:
            return 0
        return self._settles_ns if self._delivered is None else self._from_ns + int((1 - _SETTLING) * self._step_ns())

    def look(self, now: int, delivered: int, lost: int = 0) -> int:
        """The size of the window from now on."""
        if self._began_ns is None:
            self._began_ns, self._at_first = now, delivered
        if self._way_ns is None and delivered > self._at_first:
            self._way_ns = now - self._began_ns
            self._settles_ns = now + int(_SETTLING * self._step_ns())
        if self._is_over or self._way_ns is None or now < self._settles_ns:
            return self.size
        if self._delivered is None:
            self._delivered, self._from_ns = delivered, now
        elif now - self._from_ns >= (1 - _SETTLING) * self._step_ns():
            count = delivered - self._delivered
            is_lossy, self._lost = lost - self._lost > _LOSS * count, lost
            self._judge(now, count * 1e9 / (now - self._from_ns), is_lossy=is_lossy)
        return self.size

    def _judge(self, now: int, rate_per_s: float, *, is_lossy: bool) -> None:
        self._is_doubted = is_lossy and not self._is_doubted
        if self._is_doubted:
            self._delivered, self._settles_ns = None, now
            return
        self.steps.append((self.size, rate_per_s))
        if rate_per_s and self._way_ns is not None:  # the first message may have met a broker that was not awake yet
            self._way_ns = min(self._way_ns, int(self.size * self._fan_out / rate_per_s * 1e9))
        if is_lossy:
            self._most = max(self._first, self.size // 2)
        self._delivered = None
        if self._next is None and not is_lossy and self._is_wider_worth_trying():
            self._try(min(2 * self.size, self._most), now)
            return
        if self._next is None:
            self._next = _MORE_PASSES * self._hopeful()
        while self._next and self._next[0] > self._most:
            self._next.pop(0)
        if self._next:
            self._try(self._next.pop(0), now)
            return
        self.stop()
        self.settled_ns = now - (self._began_ns or 0)

    def _try(self, size: int, now: int) -> None:
        # What a wider one left behind takes as long as a message through it.
        left_ns = TRANSIT_S * 1e9 if size < self.size else 0.0
        self.size = size
        self._settles_ns = now + int(_SETTLING * self._step_ns() + left_ns)

    def _is_wider_worth_trying(self) -> bool:
        is_wide = self.size * self._fan_out >= TRANSIT_S * self._best_per_s()
        return (not is_wide or self._is_growing()) and self.size < self._most

    def _is_growing(self) -> bool:
        """Whether the last size brought much more than half of it, or there was none before it to tell."""
        size, rate_per_s = self.steps[-1]
        return size == self._first or rate_per_s >= _GROWING * self.steps[-2][1]

    def _is_hardly_queued(self) -> bool:
        """Whether messages take little longer through the window than through an empty broker (Little's law).

        Then twice the size brought nearly twice as much.
        """
        rates = self._rates()
        rate_per_s, half_per_s = rates.get(self.size, 0.0), rates.get(self.size // 2, 0.0)
        is_short = self.size * self._fan_out * 1e9 < _QUEUED * (self._way_ns or 0) * rate_per_s
        return is_short and rate_per_s >= _GROWING * half_per_s

    def _step_ns(self) -> float:
        """How long the size is tried: longer if messages take long through it."""
        best_per_s = self._best_per_s()
        transit_s = min(TRANSIT_S, self.size * self._fan_out / best_per_s) if best_per_s else 0.0
        return max(STEP_NS, _TRANSITS * transit_s * 1e9, _WAYS * (self._way_ns or 0))

    def _hopeful(self) -> list[int]:
        """Sizes that the search may end with, after all were tried once."""
        rates = self._rates()
        best_per_s = max(rates.values(), default=0.0)
        return [
            size
            for size, rate_per_s in rates.items()
            if rate_per_s == best_per_s
            or (rate_per_s >= _HOPEFUL * best_per_s and size * self._fan_out >= _SHORT * LONG_S * rate_per_s)
        ]

    def _best(self) -> int:
        rates = self._rates()
        best_per_s = max(rates.values(), default=0.0)
        enough_per_s = min(NEAR, 1 - self._noise()) * best_per_s
        near = (size for size, rate_per_s in rates.items() if rate_per_s >= enough_per_s)
        if long := [size for size in near if size * self._fan_out >= LONG_S * rates[size]]:
            return min(long)
        alike = (size for size, rate_per_s in rates.items() if rate_per_s >= ALIKE * best_per_s)
        return max(alike, default=self._first)

    def _best_per_s(self) -> float:
        return max((rate for _, rate in self.steps), default=0.0)

    def _rates(self) -> dict[int, float]:
        """What each size brought that is not out: the second best of three intervals, the better of two."""
        return {size: sorted(rates)[len(rates) // 2] for size, rates in self._tried().items()}

    def _noise(self) -> float:
        """By what part intervals of one size differ here from the middle of them: sizes that differ less are alike."""
        spreads = sorted((max(r) - min(r)) / (max(r) + min(r)) for r in self._tried().values() if len(r) > 1 and max(r))
        return min(_MOST_NOISE, spreads[len(spreads) // 2]) if spreads else 0.0

    def _tried(self) -> dict[int, list[float]]:
        tried: dict[int, list[float]] = {}
        for size, rate_per_s in self.steps:
            if size <= self._most:
                tried.setdefault(size, []).append(rate_per_s)
        return tried
