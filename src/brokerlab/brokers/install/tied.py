"""Becomes the tool that it is told; the kernel ends the tool when the process that started it is killed.

    python -I -S tied.py PARENT_PID PROGRAM ARGUMENT...

As brokers/launch.py, but with the limits that the user has: some tools close every file that they might have open.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)
NOT_STARTED = 127  # as a shell says it


def main(parent_pid: int, argv: list[str]) -> int:
    """Does not return unless the tool cannot be started."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:
        return NOT_STARTED  # it died before we were tied to it
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is meant
    except OSError as problem:
        print(f"{argv[0]} cannot be started: {problem.strerror}", file=sys.stderr)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
