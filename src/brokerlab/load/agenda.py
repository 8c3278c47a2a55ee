"""Who has something due next, and when."""

import heapq


class Agenda:
    """File descriptors by the time at which they are due, each once; one that leaves takes its entry along."""

    __slots__ = ("_entered", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._entered: dict[int, int] = {}  # by file descriptor; what the heap holds beside that is of no account

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
