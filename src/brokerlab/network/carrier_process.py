"""The process that carries the frames of userspace links: `python -m brokerlab.network.carrier_process`.

It gets the ends of the links and the shared tables as open descriptors, says «up» and carries until its standard
input is closed, which the end of whoever started it does too.
"""

import ctypes
import mmap
import os
import sys

import numpy as np

from brokerlab.network.carrying import SLOT_BYTES, carry, waking_ns
from brokerlab.network.tables import table_bytes, tables_in

SLOTS = 1 << 16  # frames on their way; memory is used only as far as it is needed
_PR_SET_TIMERSLACK = 29
_PRIORITY = 10
_NICE = -15
_WAKINGS = 101
_LONGEST_WAKING_NS = 100_000  # a machine that wakes us later is too busy to be corrected for


def main() -> None:
    table, *ends = map(int, sys.argv[1:])
    with mmap.mmap(table, table_bytes(len(ends))) as memory:
        claims, done = tables_in(memoryview(memory), len(ends))
        store = np.empty((SLOTS, SLOT_BYTES), dtype=np.uint8)
        # Otherwise the kernel may wake us 50 µs late to save power.
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        priority, late_ns = _hurry(), min(waking_ns(_WAKINGS), _LONGEST_WAKING_NS)
        print(f"up {late_ns} {priority}", flush=True)
        carry(np.array(ends, dtype=np.int32), sys.stdin.fileno(), claims, done, store, late_ns)
        os._exit(0)  # the tables still point into the shared memory


def _hurry() -> str:
    """Goes before everything else that wants a core, as far as we may; says how."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except OSError:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        except OSError:
            return "usual"
        return f"nice {_NICE}"
    return "realtime"


if __name__ == "__main__":
    main()
