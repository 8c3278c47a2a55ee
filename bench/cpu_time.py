"""CPU time of a benchmark with all that it starts, counted by the kernel in a control group of its own.

Times of children would not do: PySpark's daemon ignores SIGCHLD, so that the kernel adds what a worker used that has
ended to nobody's (getrusage(2), RUSAGE_CHILDREN), and a tree of living processes forgets it.

    counting_group() ──► environment of a process ──► join_group() in it ──► cpu_s() before and after
"""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from brokerlab import inventory
from brokerlab.brokers.cgroups import NotHereError, Place, find_places, make_group, remove_group
from brokerlab.inventory import Thing

_GROUP = "BROKERLAB_BENCH_GROUP"


@contextmanager
def counting_group() -> Iterator[Mapping[str, str]]:
    """The environment of a process that shall be counted; whatever is left of it at the end is killed with the group.

    Where no group can be made the reason is printed, and `cpu_s` is not a number.
    """
    try:
        group = make_group(_place(), f"brokerlab-bench-{os.getpid()}")
    except (NotHereError, OSError) as problem:
        print(f"CPU time is not counted: {problem}", flush=True)
        yield os.environ
        return
    with inventory.noted(Thing("cgroup", str(group))):
        try:
            yield {**os.environ, _GROUP: str(group)}
        finally:
            remove_group(group)


def join_group() -> None:
    """Puts this process, and so all that it starts from now on, into the group of its environment."""
    if _GROUP in os.environ:
        (Path(os.environ[_GROUP]) / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def cpu_s() -> float:
    """Of all that ever was in the group; only differences mean something."""
    if _GROUP not in os.environ:
        return math.nan
    group = Path(os.environ[_GROUP])
    if (group / "cpuacct.usage").exists():  # version 1
        return int((group / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
    counts = dict(line.split() for line in (group / "cpu.stat").read_text(encoding="ascii").splitlines())
    return int(counts["usage_usec"]) / 1e6


def _place() -> Place:
    try:
        return find_places(["cpuacct"])[0]
    except NotHereError:
        return find_places(["cpu"])[0]
