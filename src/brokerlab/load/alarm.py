"""A timer that epoll can wait for, to the microsecond.

epoll_wait(2) counts whole milliseconds, too coarse for a schedule; Python has no timerfd before 3.13.
"""

import ctypes
import os
import time
from types import TracebackType

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Itimerspec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Alarm:
    """A file descriptor that becomes readable at a given monotonic time (timerfd_create(2))."""

    def __init__(self) -> None:
        self.fd = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._spec = _Itimerspec(0, 0, 0, 0)
        self._set_ns = 0

    def set(self, at_ns: int) -> None:
        """Rings at `at_ns`, at once if that has passed."""
        if at_ns == self._set_ns:
            return
        self._spec.value_s, self._spec.value_ns = divmod(max(1, at_ns), 1_000_000_000)
        if _libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")
        self._set_ns = at_ns

    def clear(self) -> None:
        """Makes the descriptor quiet again after it rang."""
        self._set_ns = 0
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return  # set anew between ringing and this call: it will ring later

    def __enter__(self) -> "Alarm":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)


def now_ns() -> int:
    """CLOCK_MONOTONIC, the clock of every time that the load records."""
    return time.monotonic_ns()
