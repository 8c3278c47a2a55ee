"""What brokerlabs that were killed have left on this machine, and its removal.

A brokerlab is dead when the kernel has let go of the lock on its inventory (inventory.py). Of a dead one's things

    processes   are those that carry its mark, and the first ones of its nodes by number and time of birth;
                those in a group of its own are killed with the group
    groups      of the kernel's, containers, network namespaces and folders are those that it had written down

Nothing is ever found by the name of a program, and nothing of a living brokerlab's is touched.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from brokerlab import inside, inventory
from brokerlab.brokers import engine
from brokerlab.brokers.cgroups import members, remove_group
from brokerlab.errors import LabError
from brokerlab.inventory import MARK, Thing
from brokerlab.lab.disk import unmount
from brokerlab.network.removal import remove_namespace

_POLL_S = 0.01
_LONGEST_END_S = 5.0
_LONGEST_OPENING_S = 60.0
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Process:
    """One that runs now."""

    pid: int
    born_ticks: int
    name: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """What one dead brokerlab left that is still there."""

    inventory: Path
    pid: int | None  # of the dead one; None where its inventory was never finished
    command: str
    mark: str
    processes: tuple[Process, ...]
    groups: tuple[Path, ...]
    folders: tuple[Path, ...]
    containers: tuple[str, ...] = ()  # engine#name
    namespaces: tuple[Path, ...] = ()
    mounts: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """All inventories of this user."""

    leftovers: tuple[Leftover, ...]
    living: int  # brokerlabs that are at work


def find_leftovers() -> Found:
    """What there is now; nothing is changed."""
    leftovers, living, held = [], 0, _held_by_the_living()
    for path in _inventories():
        with _opened_if_dead(path) as file:
            if file is None:
                living += path.exists()
            else:
                leftovers.append(_read(path, file, held))
    return Found(tuple(leftovers), living)


def remove_leftovers() -> tuple[list[Leftover], list[str]]:
    """What was removed, and what could not be, in words; the inventory of the latter stays."""
    removed, problems, held = [], [], _held_by_the_living()
    for path in _inventories():
        with _opened_if_dead(path) as file:
            if file is None:
                continue
            leftover = _read(path, file, held)
            failed = _remove(leftover)
            removed.append(leftover)
            problems += failed
            if not failed:
                path.unlink(missing_ok=True)
    return removed, problems


def _inventories() -> list[Path]:
    """All but our own, whose lock we would lose by closing it."""
    found = [path for folder in inventory.places() if folder.is_dir() for path in sorted(folder.iterdir())]
    return [path for path in found if _is_finished(path) and path != inventory.own_path()]


def _is_finished(path: Path) -> bool:
    """Whether it has its last name, or will never get it."""
    with contextlib.suppress(FileNotFoundError):
        is_old = time.time() - path.stat().st_mtime > _LONGEST_OPENING_S
        return path.suffix == inventory.SUFFIX or (path.suffix == inventory.UNFINISHED and is_old)
    return False


@contextlib.contextmanager
def _opened_if_dead(path: Path) -> Iterator[IO[str] | None]:
    """The inventory, locked by us, so that no second `clean` works on it; None where its owner lives or it is gone."""
    try:
        file = path.open("r+", encoding="utf-8")
    except (FileNotFoundError, PermissionError):
        yield None
        return
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        yield file if path.exists() else None  # its owner may have ended well while we opened it


def _held_by_the_living() -> set[str]:
    """Names that somebody uses again: the scratch folder of a run that is made anew, for one."""
    held = {thing.name for thing in inventory.own_things()}
    for path in _inventories():
        with _opened_if_dead(path) as dead:
            if dead is None:
                with contextlib.suppress(OSError), path.open(encoding="utf-8") as file:
                    held |= {thing.name for thing in _things(file)[1]}
    return held


def _things(file: IO[str]) -> tuple[Json, list[Thing]]:
    """Who wrote the inventory, and what of it is not crossed out."""
    lines = [line for line in map(_parsed, file) if line is not None]
    things: dict[Thing, None] = {}
    for line in lines[1:]:
        if "made" in line:
            things[Thing(**line["made"])] = None
        elif "gone" in line:
            things.pop(Thing(**line["gone"]), None)
    return lines[0] if lines else {}, list(things)


def _read(path: Path, file: IO[str], held: Collection[str]) -> Leftover:
    head, noted_things = _things(file)
    things = [thing for thing in noted_things if thing.name not in held]
    has_same_numbers = (head.get("boot"), head.get("pid_namespace")) == (
        inventory.boot_id(),
        inventory.pid_namespace(),
    )
    noted = [thing for thing in things if thing.kind == "process"] if has_same_numbers else []
    groups = [Path(thing.name) for thing in things if thing.kind == "cgroup"] if has_same_numbers else []
    folders = [Path(thing.name) for thing in things if thing.kind == "folder"]
    mounts = [thing.name for thing in things if thing.kind == "mount"]
    spaces = [inside.FOLDER / thing.name for thing in things if thing.kind == "namespace"]
    mark = str(head.get("mark", ""))
    return Leftover(
        inventory=path,
        pid=head.get("pid"),
        command=" ".join(map(str, head.get("command", ()))),
        mark=mark,
        processes=tuple(_processes(mark, noted, groups)),
        groups=tuple(group for group in groups if group.is_dir()),
        folders=tuple(folder for folder in folders if _is_ours(folder)),
        containers=tuple(thing.name for thing in things if thing.kind == "container"),
        namespaces=tuple(space for space in spaces if space.exists()),
        mounts=tuple(path for path in map(Path, mounts) if path.is_mount()),
    )


def _parsed(line: str) -> Json | None:
    """A line; None for the last one of a brokerlab that was killed while it wrote."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder, and not one that somebody else has made under the same name since."""
    try:
        return folder.is_dir() and not folder.is_symlink() and folder.lstat().st_uid == os.geteuid()
    except OSError:
        return False


# -- processes ------------------------------------------------------------------------------------------------------


def _processes(mark: str, noted: Sequence[Thing], groups: Sequence[Path]) -> Iterator[Process]:
    born = {int(thing.name): thing.started_ticks for thing in noted}
    inside = {pid for group in groups for pid in members(group)}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        pid = int(entry.name)
        ticks = inventory.started_ticks(pid)
        if ticks is None or not _runs(pid):
            continue
        if pid in inside or born.get(pid) == ticks or (mark and inventory.carries(pid, MARK, mark)):
            yield Process(pid, ticks, _name(pid))


def _runs(pid: int) -> bool:
    """Whether it does more than wait to be collected by its parent."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][0] != "Z"
    return False


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return "?"


# -- removal --------------------------------------------------------------------------------------------------------


def _remove(leftover: Leftover) -> list[str]:
    """Processes first, because they use the rest; what could not be removed, in words."""
    problems = _remove_containers(leftover) + _end_processes(leftover)
    for group in leftover.groups:
        try:
            remove_group(group)
        except OSError as problem:
            problems.append(f"the group {group} stays: {problem.strerror}")
    for mount in leftover.mounts:
        try:
            unmount(mount)
        except LabError as problem:
            problems.append(problem.message)
    for space in leftover.namespaces:
        try:
            remove_namespace(space.name)
        except OSError as problem:
            problems.append(f"the network namespace {space.name} stays: {problem.strerror}")
    for folder in leftover.folders:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            problems.append(f"the folder {folder} could not be removed")
    return problems


def _remove_containers(leftover: Leftover) -> list[str]:
    """The last one first: others may live in the network of the first."""
    problems = []
    for container in reversed(leftover.containers):
        try:
            engine.remove(*container.split("#", 1))
        except LabError as problem:
            problems.append(f"the container {container.partition('#')[2]} stays: {problem.message}")
    return problems


def _end_processes(leftover: Leftover) -> list[str]:
    """Kills until none is left: one that is killed may just have started another."""
    deadline = time.monotonic() + _LONGEST_END_S
    left = list(leftover.processes)
    while left and time.monotonic() < deadline:
        for process in left:
            _kill(process)
        time.sleep(_POLL_S)
        noted = [Thing("process", str(each.pid), each.born_ticks) for each in left]
        left = list(_processes(leftover.mark, noted, leftover.groups))
    return [f"{each.name} (pid {each.pid}) does not end" for each in left]


def _kill(process: Process) -> None:
    """By a descriptor that means this one, looked at again once nobody can get its number any more."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if inventory.started_ticks(process.pid) == process.born_ticks:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)
