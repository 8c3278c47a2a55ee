"""How long a worker's control group was out of CPU time, by the kernel's own count (cgroups of version 1 and 2).

A quota lets a group run for so many milliseconds of each period (mostly 100), and then holds all its threads back.
A closed loop takes no harm that it could see: its messages are due when they are sent. So the kernel is asked.
Groups above ours may have a quota too, and each counts its own: all that can be seen are read. `cpu.stat.local`, where
the kernel has it, also counts what groups do that a container hides.
"""

import contextlib
from pathlib import Path

from brokerlab.controlgroups import V1, V2, groups_in, mounts_in, own_folder

_FILES = ("cpu.stat", "cpu.stat.local")
_NS = {"throttled_time": 1, "throttled_usec": 1_000}  # version 1, version 2


class Quota:
    """The counters of the groups that this process is in when it is made."""

    def __init__(self, *, proc: Path = Path("/proc/self")) -> None:
        self._files = list(_counters(proc))

    def read_ns(self) -> tuple[int, ...]:
        """So far, of each counter; the times of all cores add up."""
        return tuple(_throttled_ns(file) for file in self._files)


def most_ns(before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """The most that a counter has grown by; None where there is none."""
    return max((late - early for early, late in zip(before, after, strict=True)), default=None)


def _counters(proc: Path) -> list[Path]:
    """None where the kernel tells nothing, as in some containers."""
    try:
        mounts = mounts_in((proc / "mountinfo").read_text(encoding="utf-8"))
        own = groups_in((proc / "cgroup").read_text(encoding="utf-8"))
    except OSError:
        return []
    found = []
    for mount in mounts:
        if mount.kind == V2 or (mount.kind == V1 and "cpu" in mount.options):
            folder = own_folder(mount, own.get("" if mount.kind == V2 else "cpu", "/"))
            above = [folder, *folder.parents]
            found += [each / name for each in above[: above.index(mount.point) + 1] for name in _FILES]
    return [file for file in found if file.exists()]


def _throttled_ns(file: Path) -> int:
    """0 where the file does not say, or the group is gone."""
    with contextlib.suppress(OSError):
        for line in file.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name in _NS:
                return int(value) * _NS[name]
    return 0
