"""Starts and stops what a driver describes: one process in the foreground, with its files and its log.

Where the study limits it, it is in groups of the kernel's from before its first instruction (limits.py).
A broker is in a session of its own, or in the process group of its site (network/groups.py), so a Ctrl-C at the
terminal does not reach it before we stop it, and whatever it leaves behind can be told by its session, or by a mark
in its environment, never by its name.
It is killed by the kernel when we are killed (launch.py). The kernel means the *thread* that
started it: start a broker from a thread that lives as long as the broker should.

The leader's exit is looked at but not collected before stop(), so its number,
which is also that of the session, cannot pass to a stranger in between.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from brokerlab import inventory
from brokerlab.brokers import port as ports
from brokerlab.brokers.base import Node
from brokerlab.brokers.limits import Cage
from brokerlab.brokers.running import Running
from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.inventory import Thing
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.places import LOOPBACK, Place

STOP_DEADLINE_S = 5.0
_POLL_S = 0.005
_LOG_TAIL_BYTES = 65_536
_LONGEST_LIST_BYTES = 65_536  # of one thread's children: some ten thousand
_MARK = "BROKERLAB_NODE"  # the variable in a node's environment, with a number that no other node has
_HAS_CHILDREN = Path("/proc/thread-self/children").exists()
_LAUNCH = Path(__file__).with_name("launch.py")


class BrokerProcess:
    """One node of a broker; use it as a context manager.

    Its files go to `folder` and its output to `<folder>.log` beside it. `is_alive()` right after the start
    says nothing yet about a broken configuration: the lab's proof of readiness does.
    It lives in the network namespace of its place, where that has one (inside.py).
    """

    def __init__(self, node: Node, *, folder: Path, limits: Limits = UNLIMITED, place: Place = LOOPBACK) -> None:
        self.node = node
        self.namespace, self._group = place.namespace, place.group
        self.cage = Cage(limits)
        self.folder = folder.absolute()
        self.log = self.folder.with_name(self.folder.name + ".log")
        self._popen: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None
        self._things: list[Thing] = []  # in the inventory
        self._mark = secrets.token_hex(16)

    def start(self) -> None:
        """Returns when the process exists; a start that fails in the middle is undone."""
        if self._popen is not None:
            raise ValueError(f"the broker in {self.folder} was started already")
        with inside(self.namespace):
            ports.require_free(self.node.host, self.node.port)
        try:
            self.cage.make()
            self._note(Thing("node", str(self.folder)))
            for name in self.node.scratch:
                self._note(Thing("folder", str(self.folder / name)))
            write_files(self.node, self.folder)
            with self.log.open("ab") as log, inside(self.namespace):
                self._popen = self._spawn(log.fileno())
            self._note(Thing("process", str(self.pid), started_ticks=inventory.started_ticks(self.pid)))
        except OSError as problem:
            self.stop()
            raise RunError(f"{self.node.argv[0]} cannot be started: {problem}") from problem
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the process and all that it started: SIGTERM, and SIGKILL after the node's `stop_s`.

        Only our own: the process by its number, its descendants and the members of its session by theirs.
        A second Ctrl-C while it waits goes straight to SIGKILL.
        """
        try:
            if self._popen is not None and self._popen.returncode is None:
                self._end(self._popen)
        finally:
            self.cage.remove()
            while self._things:
                inventory.cross_out(self._things.pop())

    def revive(self) -> None:
        """Starts it again on what it had on disk; whatever of it still runs is killed first."""
        if self._popen is None:
            raise ValueError(f"the broker in {self.folder} was never started")
        self._kill(self._family())
        self._collect(self._popen)
        for thing in [each for each in self._things if each.kind == "process"]:
            inventory.cross_out(thing)
            self._things.remove(thing)
        self._exit_code = None
        with self.log.open("ab") as log, inside(self.namespace):
            self._popen = self._spawn(log.fileno())
        self._note(Thing("process", str(self.pid), started_ticks=inventory.started_ticks(self.pid)))

    def _end(self, popen: "subprocess.Popen[bytes]") -> None:
        family: list[psutil.Process] = []
        try:
            family = self._family()
            if self.is_alive():
                os.kill(self.pid, signal.SIGTERM)
                self._wait_for_exit(self.node.stop_s)
        finally:
            self._kill(family)
            self._collect(popen)
            self._remove_scratch()

    def is_alive(self) -> bool:
        return self._popen is not None and self.exit_code is None

    @property
    def pid(self) -> int:
        if self._popen is None:
            raise ValueError("the broker was not started")
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """What the process ended with, negative for the signal that ended it; None while it runs."""
        if self._exit_code is None and self._popen is not None and self._popen.returncode is None:
            ended = os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self._exit_code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self._exit_code

    def open_files_limit(self) -> int | None:
        """How many files the process may have open, and so about how many clients; None when it has ended."""
        try:
            return int(psutil.Process(self.pid).rlimit(psutil.RLIMIT_NOFILE)[0])
        except psutil.Error:
            return None

    @property
    def is_ours(self) -> bool:
        return True

    @property
    def whereabouts(self) -> str:
        return f"its files are in {self.folder}, its log is {self.log}"

    def obituary(self) -> str:
        """Why the kernel ended it; empty if it did not."""
        return self.cage.obituary()

    def pids(self) -> list[int]:
        """The process and its descendants that run now, parents before children; cheap enough for sampling."""
        return list(descendants(self.pid)) if self.is_alive() else []

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def require_alive(self, waited_for: str) -> None:
        """Raises RunError with the last lines of the log when the process has ended."""
        code = self.exit_code
        if code is None:
            return
        ended = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        reason = f" ({killed})" if (killed := self.cage.obituary()) else ""
        raise RunError(
            f"{Path(self.node.argv[0]).name} ended with {ended}{reason} while waiting for {waited_for}; "
            f"the end of its log:\n{self.log_tail() or '(nothing was logged)'}",
            hint=self.whereabouts,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn(self, log: int) -> subprocess.Popen[bytes]:
        groups, cores = "\n".join(map(str, self.cage.joins)), ",".join(map(str, self.cage.cores))
        launcher = (sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), groups, cores)
        return subprocess.Popen(
            (*launcher, *self.node.argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env=os.environ | self.node.env | inventory.mark() | {_MARK: self._mark},
            start_new_session=self._group is None,
            process_group=self._group,
        )

    def _note(self, thing: Thing) -> None:
        inventory.note(thing)
        self._things.append(thing)

    def _family(self) -> list[psutil.Process]:
        """Everything of ours that runs now, but the leader; a Process remembers when its process was born."""
        session = _session_members(self.pid) if self._group is None else ()  # a site's group is in the lab's session
        pids = set(descendants(self.pid)) | set(session) | self._marked()
        family = []
        for pid in pids - {self.pid}:
            with contextlib.suppress(psutil.NoSuchProcess):
                family.append(psutil.Process(pid))
        return family

    def _marked(self) -> set[int]:
        """What carries the node's mark: also a daemon, which has left its session and its parent."""
        return {pid for pid in psutil.pids() if inventory.carries(pid, _MARK, self._mark)}

    def _wait_for_exit(self, deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _kill(self, family: list[psutil.Process]) -> None:
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)
        left_behind = {*family, *self._family()}
        for process in left_behind:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        deadline = time.monotonic() + STOP_DEADLINE_S
        while any(map(_runs, left_behind)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _collect(self, popen: "subprocess.Popen[bytes]") -> None:
        try:
            self._exit_code = popen.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired as problem:
            raise RunError(
                f"{self.node.argv[0]} (pid {popen.pid}) is still there {STOP_DEADLINE_S:g} s after SIGKILL",
                hint="the kernel holds it, often because of a disk that does not answer",
            ) from problem

    def _remove_scratch(self) -> None:
        for name in self.node.scratch:
            shutil.rmtree(self.folder / name, ignore_errors=True)


def write_files(node: Node, folder: Path) -> None:
    """What the node reads when it starts, and its empty folders for data."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in node.scratch:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in node.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path, secret in node.secrets.items():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(secret.encode() if isinstance(secret, str) else secret)


def owns_listener(process: Running, host: str, port: int) -> bool:
    """Whether host:port is listened on by this process or its descendants, and by nobody else."""
    with inside(process.namespace):
        return ports.all_listeners_in(process.pids(), host, port)


def descendants(pid: int) -> Iterator[int]:
    """`pid` and all below it."""
    yield pid
    for child in _children(pid):
        yield from descendants(child)


def _children(pid: int) -> list[int]:
    """Read from a few small files instead of the whole of /proc, where the kernel has them (CONFIG_PROC_CHILDREN)."""
    try:
        if not _HAS_CHILDREN:
            return [child.pid for child in psutil.Process(pid).children()]
        # Bare calls: a broker may have hundreds of threads, and pathlib takes five times as long for each.
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        return [int(child) for thread in threads for child in _words(f"/proc/{pid}/task/{thread}/children")]
    except (OSError, psutil.NoSuchProcess):
        return []  # it ended meanwhile, and what it had started is found by its session


def _words(path: str) -> list[bytes]:
    """Of a small file; none where it is gone with its thread."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        return os.read(descriptor, _LONGEST_LIST_BYTES).split()
    finally:
        os.close(descriptor)


def _runs(process: psutil.Process) -> bool:
    """Whether it still runs; one that ended but that its new parent has not collected yet does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _session_members(session: int) -> Iterator[int]:
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session:
                yield pid
