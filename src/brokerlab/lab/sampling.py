"""Samples CPU time, memory, threads, open files and storage of the broker and of the generator while a run goes on.

Reads a clock and a few files below /proc per process and sample, once a second and at every phase boundary,
so that the difference over a phase is exact. CPU time comes from the process's own CPU clock (clock_getcpuclockid(3)),
in nanoseconds and with its threads, ended ones too; /proc/PID/stat counts the same in ticks of 10 ms,
which is as much as a light broker uses in a short phase.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import pyarrow as pa

from brokerlab.record.directory import RunDirectory
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import RESOURCES

PERIOD_S = 1.0  # bench/sampler.py: below 1 % of a core also for a broker of many processes and threads
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_THREADS, _RSS = 17, 21  # fields of /proc/PID/stat after the name, proc(5)
_LONGEST = 4096  # of the files read here
_WHOLE_PROCESS_CPU = 2  # the kind of clock in the lowest three bits of its number

Row = dict[str, object]
Pids = Callable[[], Mapping[str, list[int]]]  # processes of each node, now


class Sampler:
    """A thread that samples until it is left; `mark()` takes a sample at once."""

    def __init__(self, pids: Pids, run: RunDirectory, *, also: Callable[[int], None] | None = None) -> None:
        self._pids, self._also = pids, also  # what else is to be sampled, at the same time
        self._writer = PartWriter(run.raw("resources"), "samples", RESOURCES)
        self._rows: list[Row] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._rows:
            self._writer.write(pa.RecordBatch.from_pylist(self._rows, schema=RESOURCES))
        self._writer.close()

    def mark(self, at_ns: int | None = None) -> int:
        """Takes a sample; the time that it stands for.

        A boundary of the schedule is given as `at_ns`: the sample, a moment later, belongs to both its phases.
        """
        with self._lock:
            at_ns = at_ns or time.monotonic_ns()
            for node, pids in self._pids().items():
                for pid in pids:
                    row = read_process(node, pid, at_ns)
                    if row is not None:
                        self._rows.append(row)
            if self._also is not None:
                self._also(at_ns)
        return at_ns

    def _watch(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.mark()


def read_process(node: str, pid: int, at_ns: int) -> Row | None:
    """One row of record.schemas.RESOURCES; None when the process is gone."""
    try:
        fields = _content(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        cpu_ns = read_cpu_ns(pid)
    except OSError:
        return None  # it ended meanwhile
    read_bytes, written_bytes = _storage_bytes(pid)
    return {
        "node": node,
        "process": pid,
        "at_ns": at_ns,
        "cpu_ns": cpu_ns,
        "rss_bytes": int(fields[_RSS]) * _PAGE_BYTES,
        "read_bytes": read_bytes,
        "written_bytes": written_bytes,
        "threads": int(fields[_THREADS]),
        "open_files": _open_files(pid),
    }


def read_cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, ended ones too; ProcessLookupError and the like when it is gone."""
    return time.clock_gettime_ns(~pid << 3 | _WHOLE_PROCESS_CPU)


def _storage_bytes(pid: int) -> tuple[int | None, int | None]:
    """Bytes from and to storage; (None, None) without the right to look, or when the process just ended."""
    try:
        lines = _content(f"/proc/{pid}/io").splitlines()
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return None, None
    counts = dict(line.split(b": ") for line in lines)
    return int(counts[b"read_bytes"]), int(counts[b"write_bytes"])


def _open_files(pid: int) -> int | None:
    """How many descriptors it has; None without the right to look, or when the process just ended.

    Since Linux 6.2 the folder's size is their number; before, they must be listed, which takes long for many clients.
    """
    folder = f"/proc/{pid}/fd"
    try:
        return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208 - a path object takes longer
    except OSError:
        return None


def _content(path: str) -> bytes:
    """A small file in one call: pathlib takes three times as long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LONGEST)
    finally:
        os.close(descriptor)
