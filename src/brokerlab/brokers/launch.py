"""Becomes the program that it is told, tied to the life of the process that started it.

    python -I -S launch.py PARENT_PID GROUPS CORES PROGRAM ARGUMENT...

GROUPS are the cgroup.procs files of the groups that limit it, a line each, and CORES the numbers of the
cores that it may run on, with "," between them; both may be empty. It is held to them before it is the program, so
whatever that starts is, too.
It is a program of its own, because code between fork and exec is not safe where threads run
(and the lab has some), and imports nothing of brokerlab, because it must be quick.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2); kept across execve unless the program is set-user-ID or changes its user
NOT_STARTED = 127  # as a shell says it


def main(parent_pid: int, groups: list[str], cores: list[str], argv: list[str]) -> int:
    """Does not return unless the program cannot be started."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        print(f"cannot be tied to process {parent_pid}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return NOT_STARTED
    if os.getppid() != parent_pid:
        return NOT_STARTED  # it died before we were tied to it, and nobody would stop us
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # each client is a file of the broker's
    try:
        for group in groups:
            with open(group, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib is slow to import
                file.write("0")  # the one who writes
        if cores:
            os.sched_setaffinity(0, map(int, cores))
    except OSError as problem:
        print(f"{argv[0]} cannot be limited: {problem}", file=sys.stderr)
        return NOT_STARTED
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is meant
    except OSError as problem:
        print(f"{argv[0]} cannot be started: {problem.strerror}", file=sys.stderr)
    return NOT_STARTED


if __name__ == "__main__":
    parent, groups, cores, *command = sys.argv[1:]
    sys.exit(
        main(int(parent), [each for each in groups.split("\n") if each], cores.split(",") if cores else [], command)
    )
