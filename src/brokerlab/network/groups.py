"""One process group for each site: its brokers, bridges and workers are in it, so one signal reaches all of them.

A process can only join a group of its own session. So what is in one stays in the session of the lab, but away from
the terminal's foreground, and a Ctrl-C reaches the lab alone. What measures (the links' process, captures) is of no
site: a site that is stopped must not stop the links of the others.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from brokerlab import inventory
from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.inventory import Thing

_LEADER = Path(__file__).with_name("site_leader.py")
_LONGEST_END_S = 5.0
_POLL_S = 0.005


@contextlib.contextmanager
def site_group(namespace: str) -> Iterator[int]:
    """The number of a new group, whose leader is in the namespace; whatever is left of it at the end is killed."""
    with inside(namespace):
        leader = subprocess.Popen(
            (sys.executable, "-I", "-S", str(_LEADER), namespace),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **inventory.mark()},
            process_group=0,
        )
    with inventory.noted(Thing("process", str(leader.pid), inventory.started_ticks(leader.pid))):
        try:
            yield leader.pid
        finally:
            _end(leader)


def _end(leader: "subprocess.Popen[bytes]") -> None:
    """The leader is collected after it was killed, so that the number cannot be somebody else's before."""
    os.killpg(leader.pid, signal.SIGKILL)
    leader.communicate()
    deadline = time.monotonic() + _LONGEST_END_S
    while _has_members(leader.pid):
        if time.monotonic() > deadline:
            raise RunError(f"processes of the group {leader.pid} are still there {_LONGEST_END_S:g} s after SIGKILL")
        time.sleep(_POLL_S)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
