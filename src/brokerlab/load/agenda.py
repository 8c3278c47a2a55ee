"""Who has something due next, and when."""

import heapq

from brokerlab.load.alarm import now_ns

# Waking for every message costs some 20 µs of CPU; beyond 10,000 wakes a second messages leave in small groups,
# and the delay is part of the schedule lag that is measured.
_SHORTEST_SLEEP_NS = 100_000
CROWD_SLEEP_NS = 500_000  # of thousands of publishers, some of which are due all the time
# A sleeping process is woken some 0.1 ms late. Where there is time between messages the worker wakes earlier by
# this much and watches the clock instead, so that a message leaves within microseconds of its intended time.
WATCH_NS = 150_000
ROOM_TO_WATCH_NS = 1_000_000


class Agenda:
    """File descriptors by the time at which they are due, each once; one that leaves takes its entry along."""

    __slots__ = ("_entered", "_heap", "_watched_ns")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._entered: dict[int, int] = {}  # by file descriptor; what the heap holds beside that is of no account
        self._watched_ns = 0  # what is due then is woken for earlier

    def __len__(self) -> int:
        return len(self._entered)

    def __contains__(self, fd: int) -> bool:
        return fd in self._entered

    def enter(self, fd: int, due_ns: int) -> None:
        self._entered[fd] = due_ns
        heapq.heappush(self._heap, (due_ns, fd))

    def leave(self, fd: int) -> None:
        self._entered.pop(fd, None)

    def first_ns(self) -> int | None:
        """When somebody is due next; None if nobody is."""
        while self._heap and self._entered.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> list[int]:
        """All who are due now, the earliest first; they are on the agenda no more."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            due_ns, fd = heapq.heappop(self._heap)
            if self._entered.get(fd) == due_ns:
                del self._entered[fd]
                due.append(fd)
        return due

    def wake_ns(self, now: int, *, is_crowd: bool) -> int | None:
        """When to wake for what is due next; None if nothing is."""
        if (due_ns := self.first_ns()) is None:
            return None
        if due_ns - now > ROOM_TO_WATCH_NS:
            self._watched_ns = due_ns
            return due_ns - WATCH_NS
        return max(due_ns, now + (CROWD_SLEEP_NS if is_crowd else _SHORTEST_SLEEP_NS))

    def watched(self, now: int) -> int:
        """The time now, or when the next message is due if it was woken for earlier and is a moment away."""
        due_ns = self.first_ns()
        if due_ns is not None and due_ns == self._watched_ns and now < due_ns <= now + WATCH_NS:
            while (now := now_ns()) < due_ns:
                pass
        return now
