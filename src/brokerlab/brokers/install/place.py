"""The folders of one broker in the cache, and who may touch them.

    NAME             the broker, with its receipt
    .NAME.partial    one that is being made
    .NAME.old        the one before, until the new one is proved
    .NAME.gone       one that is being removed
    .NAME.lock       held by who makes or removes it, and by the tools that it started

A dotted folder whose lock is free was left by somebody who was killed.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from brokerlab.brokers.cache import RECEIPT, cache_folder, place_of
from brokerlab.brokers.install.workshop import Teller
from brokerlab.errors import UserError

_PARTIAL, _OLD, _GONE, _LOCK = "partial", "old", "gone", "lock"
_WAIT_S = 3600.0
_POLL_S = 0.5
_ELSEWHERE = "BROKERLAB_CACHE names another folder"


def partial(name: str) -> Path:
    return _beside(name, _PARTIAL)


@contextlib.contextmanager
def locked(name: str, teller: Teller) -> Iterator[int]:
    """Holds the lock of a broker, as a file descriptor; waits for who has it, and says so."""
    _require_writable()
    deadline = time.monotonic() + _WAIT_S
    while (lock := _try_lock(name)) is None:
        if time.monotonic() > deadline:
            raise UserError(f"{name} is being installed or removed by process {_holder(name)}", hint="wait for its end")
        teller.step(f"waiting for process {_holder(name)}, which installs or removes it")
        time.sleep(_POLL_S)
    try:
        yield lock
    finally:
        _unlock(name, lock)


def is_locked(name: str) -> bool:
    """Whether somebody makes or removes this broker now."""
    if not _beside(name, _LOCK).exists():
        return False
    if (lock := _try_lock(name)) is None:
        return True
    _unlock(name, lock)
    return False


def clear_leftovers() -> None:
    """Removes what installs that were killed left behind, of all brokers."""
    if not os.access(cache_folder(), os.W_OK):
        return  # not there, or not ours
    for name in sorted({_name_of(path) for path in cache_folder().glob(".*.*") if _name_of(path)}):
        if (lock := _try_lock(name)) is not None:
            try:
                clear(name)
            finally:
                _unlock(name, lock)


def clear(name: str) -> None:
    """Removes what a killed install of this broker left; its lock must be held."""
    old = _beside(name, _OLD)
    if old.is_dir() and not place_of(name).exists():
        old.rename(place_of(name))  # killed between two renames: the one before is complete
    for kind in (_PARTIAL, _OLD, _GONE):
        erase(_beside(name, kind))


def put_in_place(name: str) -> None:
    """The partial folder becomes the broker's; the one before is kept until `settle` or `put_back`."""
    if place_of(name).exists():
        place_of(name).rename(_beside(name, _OLD))
    partial(name).rename(place_of(name))


def settle(name: str) -> None:
    erase(_beside(name, _OLD))


def put_back(name: str) -> None:
    """Undoes `put_in_place`."""
    take_away(name)
    if _beside(name, _OLD).exists():
        _beside(name, _OLD).rename(place_of(name))


def take_away(name: str) -> None:
    """Removes the broker: at once as far as anybody can see, its files after that."""
    require_unmounted(place_of(name))
    place_of(name).rename(_beside(name, _GONE))
    erase(_beside(name, _GONE))


def erase(folder: Path) -> None:
    """Removes a folder of ours with all that is in it; one that is not there is gone already."""
    if not folder.is_dir():
        return
    require_unmounted(folder)
    (folder / RECEIPT).unlink(missing_ok=True)
    shutil.rmtree(folder)


def require_unmounted(folder: Path) -> None:
    """Refuses a folder with a mount in it, behind which lie the files of the machine itself."""
    within = str(folder.resolve()).rstrip("/") + "/"
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    points = [line.split(" ")[4].replace("\\040", " ") for line in lines]  # proc_pid_mountinfo(5)
    if mounted := [point for point in points if point.startswith(within)]:
        raise UserError(
            f"{folder} cannot be removed while something is mounted in it: {', '.join(mounted)}",
            hint="stop the broker that runs there, or " + "; ".join(f"umount {point}" for point in mounted),
        )


def _require_writable() -> None:
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"{cache_folder()} cannot be made: {problem.strerror}", hint=_ELSEWHERE) from problem
    if not os.access(cache_folder(), os.W_OK):
        raise UserError(f"{cache_folder()} cannot be written to", hint=_ELSEWHERE)


def _beside(name: str, kind: str) -> Path:
    return cache_folder() / f".{name}.{kind}"


def _name_of(path: Path) -> str:
    """The broker that a dotted name belongs to; empty when it is none of ours."""
    name, _, kind = path.name[1:].rpartition(".")
    return name if kind in {_PARTIAL, _OLD, _GONE, _LOCK} else ""


def _try_lock(name: str) -> int | None:
    path = _beside(name, _LOCK)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists() and path.stat().st_ino == os.fstat(lock).st_ino:  # not one that was just taken away
            os.truncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())
            return lock
    except BlockingIOError:
        pass  # somebody else has it; who cannot have it closes it below
    os.close(lock)
    return None


def _unlock(name: str, lock: int) -> None:
    _beside(name, _LOCK).unlink(missing_ok=True)
    os.close(lock)


def _holder(name: str) -> str:
    with contextlib.suppress(OSError):
        return _beside(name, _LOCK).read_text(encoding="utf-8") or "?"
    return "?"
