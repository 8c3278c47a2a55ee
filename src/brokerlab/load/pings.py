"""Which clients are due a PINGREQ, spread over a third of the keep-alive: all at once would hold a schedule up.

A third has so many slots on the clock. A file descriptor says in which of them its client has its turn, so that each
has one every third, and a byte is all that is to be kept of each. Who has just connected has been heard of: its first
turn, which comes within a third, is passed over.
"""

from collections.abc import Container

PINGREQ = b"\xc0\x00"

_SLOTS = 1024
# The file descriptors of slot s have the rest s * _STEP by _SLOTS. So the next file descriptor has its turn 633 slots
# later, which is the golden section: few or many, they are spread evenly.
_STEP = pow(633, -1, _SLOTS)
_LOOKS = 8  # of a loop in a third, at the least: by an eighth of it a ping may be late


class Pings:
    """Walks over the connections of a worker, once every third of the keep-alive."""

    def __init__(self, keep_alive_s: int) -> None:
        self._keep_alive_s = keep_alive_s
        self._is_new = bytearray()  # by file descriptor: whether its client had no turn yet
        self._slot: int | None = None  # the last one that was walked over, since the clock began
        self._next_ns = 0  # nobody's turn comes before: the loop asks at every wake
        self.look_ns: int | None = None  # when the loop is to ask again at the latest; None while nobody is connected

    def add(self, fd: int, *, keep_alive_s: int) -> None:
        """A broker may ask for a shorter keep-alive, which is then that of all; 0 asks for none."""
        self._is_new.extend(bytes(max(0, fd + 1 - len(self._is_new))))
        self._is_new[fd] = True
        if 0 < keep_alive_s < self._keep_alive_s:
            self._keep_alive_s = keep_alive_s
            self._slot, self._next_ns = None, 0

    @property
    def every_ns(self) -> int:
        return self._keep_alive_s * 1_000_000_000 // 3

    def due(self, now: int, open_fds: Container[int]) -> list[int]:
        """The connections whose turn has come, by file descriptor."""
        if now < self._next_ns:
            return []
        slot_ns = self.every_ns // _SLOTS
        slot = now // slot_ns
        walked = slot if self._slot is None else max(self._slot, slot - _SLOTS)
        self._slot, self._next_ns = slot, (slot + 1) * slot_ns
        each = _SLOTS // _LOOKS
        self.look_ns = (slot // each + 1) * each * slot_ns if self._is_new else None
        turn = [
            fd
            for number in range(walked + 1, slot + 1)
            for fd in range(number * _STEP % _SLOTS, len(self._is_new), _SLOTS)
            if fd in open_fds
        ]
        due = [fd for fd in turn if not self._is_new[fd]]
        for fd in turn:
            self._is_new[fd] = False
        return due
