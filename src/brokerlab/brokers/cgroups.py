"""Where groups of processes can be made here, and by which version of the kernel's cgroups.

A group of ours is made as near to our own as the kernel lets us, so that what limits us limits the broker too:

    version 1   a hierarchy for each controller; the group is below our own (cgroups(7))
    version 2   one hierarchy; a group that has processes cannot hand controllers on, except the root, so the group is
                beside our own, below the nearest ancestor that is ours to write and hands on what is needed. A user's
                session has such a one where systemd delegates it: systemd-run --user --scope brokerlab run …

Everything is read from two files below /proc, whose text the tests make up.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from brokerlab.controlgroups import V1, V2, Mount, groups_in, mounts_in, own_folder

CONTROLLERS = ("cpu", "cpuset", "memory")
_POLL_S = 0.01
_LONGEST_REMOVAL_S = 5.0


class NotHereError(Exception):
    """The kernel or our rights do not allow it; the text says which."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group can be made."""

    version: int
    parent: Path
    controllers: tuple[str, ...]
    to_enable: tuple[str, ...] = ()  # version 2: what the parent must hand on first


def find_places(needed: Collection[str], *, proc: Path = Path("/proc/self")) -> list[Place]:
    """Where groups with these controllers can be made: one place of version 2, or one of version 1 for each."""
    mounts = mounts_in((proc / "mountinfo").read_text(encoding="utf-8"))
    own = groups_in((proc / "cgroup").read_text(encoding="utf-8"))
    first = {name: mount for mount in mounts if mount.kind == V1 for name in mount.options if name in needed}
    places = [_first_version(name, first[name], own) for name in sorted(first)]
    if rest := sorted(set(needed) - set(first)):
        places.append(_second_version(rest, mounts, own))
    return places


def _first_version(name: str, mount: Mount, own: dict[str, str]) -> Place:
    parent = own_folder(mount, own.get(name, "/"))
    _require_writable(parent)
    return Place(1, parent, (name,))


def _second_version(needed: list[str], mounts: list[Mount], own: dict[str, str]) -> Place:
    mount = next((mount for mount in mounts if mount.kind == V2), None)
    if mount is None:
        raise NotHereError(f"the kernel has no cgroup controller {' and '.join(needed)} mounted")
    folder = own_folder(mount, own.get("", "/"))
    problems = []
    while True:
        try:
            return _place_below(folder, needed)
        except NotHereError as problem:
            problems.append(str(problem))
        if folder == mount.point:
            raise NotHereError(problems[0] if len(set(problems)) == 1 else "; ".join(dict.fromkeys(problems)))
        folder = folder.parent


def _place_below(folder: Path, needed: list[str]) -> Place:
    has = _words(folder / "cgroup.controllers")
    if absent := [name for name in needed if name not in has]:
        raise NotHereError(f"{folder} of cgroup version 2 has no controller {' and '.join(absent)}")
    _require_writable(folder)
    _require_writable(folder / "cgroup.procs")
    to_enable = tuple(name for name in needed if name not in _words(folder / "cgroup.subtree_control"))
    is_root = not (folder / "cgroup.type").exists()
    if to_enable and not is_root and _words(folder / "cgroup.procs"):
        raise NotHereError(f"{folder} has processes of its own, and such a group hands on no controllers")
    return Place(2, folder, tuple(needed), to_enable)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []


def _require_writable(path: Path) -> None:
    if not os.access(path, os.W_OK):
        who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
        raise NotHereError(f"{path} is not for {who} to write")


# -- groups ---------------------------------------------------------------------------------------------------------


def make_group(place: Place, name: str) -> Path:
    """A new and empty group; OSError where the kernel refuses."""
    if place.to_enable:
        control = place.parent / "cgroup.subtree_control"
        control.write_text(" ".join(f"+{controller}" for controller in place.to_enable), encoding="ascii")
    group = place.parent / name
    group.mkdir()
    return group


def remove_group(group: Path) -> None:
    """Kills what is in the group, and removes it; OSError where something stays."""
    deadline = time.monotonic() + _LONGEST_REMOVAL_S
    while group.exists():
        for pid in members(group):
            _kill_member(pid, group)
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # a process that was killed is a member until it is gone
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def members(group: Path) -> list[int]:
    """The processes of a group, not of those below it; none where it is gone."""
    return [int(pid) for pid in _words(group / "cgroup.procs")]


def _kill_member(pid: int, group: Path) -> None:
    """Kills the process if it still is a member when nobody else can get its number any more."""
    with _held(pid) as descriptor:
        if descriptor is not None and pid in members(group):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)


@contextlib.contextmanager
def _held(pid: int) -> Iterator[int | None]:
    """A descriptor that means this process and no later one of its number; None when it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
