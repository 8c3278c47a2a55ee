"""What a running brokerlab has made on this machine, written down so that `brokerlab clean` can remove it.

Every brokerlab that makes something has one file below the user's state folder: BROKERLAB_STATE, or brokerlab below
XDG_STATE_HOME or ~/.local/state, or a folder of the user's below the one for temporary files where none of these can
be written. A thing is written down before it is made and crossed out when it is gone; a file without things is
removed. So a normal end leaves nothing, and what a killed one leaves is known by name.

The file is locked as long as its owner lives: the kernel lets go of the lock, whatever ends the owner.
What its processes are is told by a mark in their environment, which all that they start inherit: a number of 128 bits
that nobody else has. lab/leftovers.py reads these files.
"""

import atexit
import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from brokerlab.errors import UserError

FORMAT = 1
MARK = "BROKERLAB_MARK"  # the variable in the environment of what we start
SUFFIX = ".jsonl"
UNFINISHED = ".new"  # instead of it, before the file is locked
Kind = Literal["folder", "cgroup", "container", "mount", "namespace", "node", "process"]


@dataclass(frozen=True, slots=True)
class Thing:
    """Something of ours: a folder, a group of the kernel's, a container (engine#name), a broker's node, or its process.

    A node is written down before it has a process, whose number nobody knows before it is there.
    """

    kind: Kind
    name: str  # its path, or its number
    started_ticks: int | None = None  # of a process: with its number it is that one, and no later one


@dataclass(slots=True)
class _Book:
    """The open file of this process."""

    path: Path
    descriptor: int
    owner_pid: int
    things: dict[Thing, None] = field(default_factory=dict)
    is_torn: bool = False  # whether the last line has no end, because the disk was full

    def write(self, **content: object) -> None:
        """A whole line, or OSError; what a full disk took of one is ended by the next."""
        line = (("\n" if self.is_torn else "") + json.dumps(content) + "\n").encode()
        written = os.write(self.descriptor, line)
        self.is_torn = written < len(line)
        if self.is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_lock = threading.RLock()
_books: list[_Book] = []  # the one of this process, if it has made anything
_marks: dict[int, str] = {}  # of this process, by its number, which a forked child has not


def places() -> list[Path]:
    """The folders where inventories may be, best first; they need not exist."""
    if own := os.environ.get("BROKERLAB_STATE"):
        return [Path(own)]
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return [Path(state) / "brokerlab" / "running", Path(tempfile.gettempdir()) / f"brokerlab-{os.geteuid()}"]


def own_path() -> Path | None:
    """The file of this process; None while it has made nothing. Nobody may open it here: closing drops its lock."""
    with _lock:
        return _books[0].path if _books and _books[0].owner_pid == os.getpid() else None


def own_things() -> list[Thing]:
    """What this process has written down and not crossed out."""
    with _lock:
        return [] if own_path() is None else list(_books[0].things)


def mark() -> dict[str, str]:
    """For the environment of what is started: whatever has it is ours."""
    with _lock:
        return {MARK: _marks.setdefault(os.getpid(), secrets.token_hex(16))}


def note(thing: Thing) -> None:
    """Writes down what is about to be made."""
    with _lock:
        book = _book()
        book.write(made=_as_json(thing))
        book.things[thing] = None


def cross_out(thing: Thing) -> None:
    """Writes down that it is gone; twice does no harm."""
    with _lock:
        if not _books or thing not in _books[0].things:
            return
        book = _books[0]
        del book.things[thing]
        if not book.things:
            _close()
            return
        with contextlib.suppress(OSError):  # of a full disk: who looks for the thing sees that it is gone
            book.write(gone=_as_json(thing))


@contextlib.contextmanager
def noted(thing: Thing) -> Iterator[None]:
    """Is written down for as long as the block lasts, which makes it and removes it."""
    note(thing)
    try:
        yield
    finally:
        cross_out(thing)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder that only we can enter, removed with all that is in it."""
    path = _new_name(prefix)
    with noted(Thing("folder", str(path))):
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def folder_until_exit(prefix: str) -> Path:
    """A folder that only we can enter, for what lasts as long as this process."""
    path = _new_name(prefix)
    thing = Thing("folder", str(path))
    note(thing)
    atexit.register(_remove_at_exit, thing, os.getpid())
    path.mkdir(mode=0o700)
    return path


def is_noted(thing: Thing) -> bool:
    """Whether this process has written it down and not crossed it out."""
    return thing in own_things()


def carries(pid: int, variable: str, value: str) -> bool:
    """Whether the process was started with that in its environment; no for one that we may not look at."""
    with contextlib.suppress(OSError):
        return f"{variable}={value}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def started_ticks(pid: int) -> int | None:
    """When a process was born, in ticks since the machine was started; None when there is none of that number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[19])  # field 22 of proc(5), counted from the state


def _remove_at_exit(thing: Thing, owner_pid: int) -> None:
    if os.getpid() == owner_pid:  # and not a child that was forked from it
        shutil.rmtree(thing.name, ignore_errors=True)
        cross_out(thing)


def _new_name(prefix: str) -> Path:
    return Path(tempfile.gettempdir()).absolute() / f"{prefix}{secrets.token_hex(8)}"


def _book() -> _Book:
    """The file of this process; one that was forked from another has none yet."""
    if _books and _books[0].owner_pid != os.getpid():
        _books.clear()
    if not _books:
        _books.append(_open())
    return _books[0]


def _open() -> _Book:
    pid = os.getpid()
    path = _writable_folder() / f"{pid}-{secrets.token_hex(4)}{SUFFIX}"
    # It gets its name when it is locked, so that nobody takes it for a dead one's meanwhile.
    unfinished = path.with_suffix(UNFINISHED)
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    # POSIX locks are not handed to forked children, so an orphan cannot keep one.
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    book = _Book(path, descriptor, pid)
    book.write(
        format=FORMAT,
        pid=pid,
        started_ticks=started_ticks(pid),
        boot=boot_id(),
        pid_namespace=pid_namespace(),
        mark=mark()[MARK],
        command=sys.argv[:3],
    )
    unfinished.rename(path)
    return book


def boot_id() -> str:
    """Which start of the machine this is: numbers of processes mean nothing after the next one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pid_namespace() -> str:
    """Within which processes are numbered: a container has its own."""
    return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - what it reads is no path


def _writable_folder() -> Path:
    problems = []
    for folder in places():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or not os.access(folder, os.W_OK):
                problems.append(f"{folder} is not ours to write")
            else:
                return folder
        except OSError as problem:
            problems.append(str(problem))
    raise UserError(
        f"nowhere to write down what is started: {'; '.join(problems)}",
        hint="set BROKERLAB_STATE to a folder of yours",
    )


def _close() -> None:
    book = _books.pop()
    book.path.unlink(missing_ok=True)
    os.close(book.descriptor)


def _as_json(thing: Thing) -> dict[str, object]:
    return {"kind": thing.kind, "name": thing.name, "started_ticks": thing.started_ticks}
