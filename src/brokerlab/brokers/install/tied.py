"""Runs the tool that it is told, and ends it with all that it started when the process above is killed.

    python -I -S tied.py PARENT_PID PROGRAM ARGUMENT...

It leads a process group of its own, in which the tool and what the tool starts are. The kernel tells it of the
parent's death by SIGHUP; a SIGTERM for the whole group is the tool's to answer.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2); not inherited by a child
NOT_STARTED = 127  # as a shell says it
BY_SIGNAL = 128


def main(parent_pid: int, argv: list[str]) -> int:
    signal.signal(signal.SIGHUP, lambda *_: os.killpg(0, signal.SIGKILL))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)
    if os.getppid() != parent_pid:
        return NOT_STARTED  # it died before we were tied to it
    tool = os.fork()
    if tool == 0:
        os._exit(_become(argv))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _, status = os.waitpid(tool, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else BY_SIGNAL - code


def _become(argv: list[str]) -> int:
    """Does not return unless the tool cannot be started."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is meant
    except OSError as problem:
        print(f"{argv[0]} cannot be started: {problem.strerror}", file=sys.stderr, flush=True)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
