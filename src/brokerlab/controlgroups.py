"""Which of the kernel's control groups we are in, and where they can be seen: from the text of two files of proc(5)."""

import contextlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

V1, V2 = "cgroup", "cgroup2"


@dataclass(frozen=True, slots=True)
class Mount:
    """A cgroup file system; of version 1 its options name its controllers."""

    kind: str
    root: str  # of the hierarchy, as far as it is mounted
    point: Path
    options: frozenset[str]


def mounts_in(mountinfo: str) -> list[Mount]:
    """The cgroup file systems of /proc/PID/mountinfo."""
    mounts = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(kind) >= 3 and kind[0] in (V1, V2):
            mounts.append(Mount(kind[0], fields[3], Path(fields[4]), frozenset(kind[2].split(","))))
    return mounts


def groups_in(cgroup: str) -> dict[str, str]:
    """The group in each hierarchy of cgroups(7), /proc/PID/cgroup, by controller; "" is version 2."""
    groups = {}
    for line in cgroup.splitlines():
        _, names, path = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), path))
    return groups


def own_folder(mount: Mount, path: str) -> Path:
    """The folder of a group; the top of what is mounted where a container hides the rest."""
    with contextlib.suppress(ValueError):
        folder = mount.point / PurePosixPath(path).relative_to(mount.root)
        if folder.is_dir():
            return folder
    return mount.point
