"""Where one broker is made: a folder beside its final one, the log of the tools, and somebody who is told.

A tool is in a session of its own, so a Ctrl-C at the terminal reaches us first and we end the tool with all that it
started; when we are killed, tied.py does. It writes straight to the log, not to a pipe of ours: what it leaves running
cannot hold us up. It inherits the lock of its broker (place.py), which so lasts as long as the last of its processes.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from brokerlab.errors import RunError

DEADLINE_S = 3600.0  # of one tool; the slowest takes some 40 minutes on two cores
_STOP_S = 5.0
_POLL_S = 0.2
_TAIL_BYTES = 16_384
_TAIL_LINES = 15
_COMMAND = "$ "  # begins the line of the log that says what was called
_TIED = Path(__file__).with_name("tied.py")


class Teller(Protocol):
    """Is told how far an install is."""

    def step(self, doing: str) -> None:
        """Something new begins."""
        ...

    def line(self, text: str) -> None:
        """The last line that the tool of this step wrote."""
        ...


@dataclass(frozen=True, slots=True)
class Workshop:
    folder: Path  # where the broker is made; it is renamed when complete
    place: Path  # what it will be called then
    log: Path
    teller: Teller
    locks: tuple[int, ...]  # file descriptors that every tool inherits
    env: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, argv: Sequence[str | Path], *, doing: str, env: Mapping[str, str] | None = None, is_patient: bool = False
    ) -> None:
        """Runs a tool in the folder; one that fails is a RunError with the last lines of its output.

        `is_patient` is for what must not be stopped in the middle, as dpkg: a Ctrl-C then takes effect at its end.
        """
        self.teller.step(doing)
        begin = self.log.stat().st_size if self.log.exists() else 0
        code = self._run([str(part) for part in argv], env or {}, is_patient=is_patient)
        if code != 0:
            raise RunError(
                f"{doing}: {argv[0]} failed ({_ended(code)}); the last lines that it wrote:\n{self._tail(begin)}",
                hint=f"all of them are in {self.log}",
            )

    def _run(self, argv: Sequence[str], env: Mapping[str, str], *, is_patient: bool) -> int:
        tied = [] if is_patient else [sys.executable, "-I", "-S", str(_TIED), str(os.getpid())]
        with self.log.open("ab") as log:
            log.write(f"{_COMMAND}{' '.join(argv)}\n".encode())
            log.flush()
            tool = subprocess.Popen(
                [*tied, *argv],
                cwd=self.folder,
                env={**os.environ, **self.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=self.locks,
            )
        try:
            return self._wait(tool)
        except KeyboardInterrupt:
            if is_patient:
                self.teller.step("waiting for the end of what must not be interrupted")
                self._wait(tool)
            raise
        finally:
            _end(tool)

    def _wait(self, tool: "subprocess.Popen[bytes]") -> int:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return tool.wait(_POLL_S)
            if last := self._last_line():
                self.teller.line(last)
        raise RunError(f"gave up after {DEADLINE_S:.0f} s", hint=f"what the tool wrote is in {self.log}")

    def _last_line(self) -> str:
        said = (line for line in reversed(self._lines(0)) if line and not line.startswith(_COMMAND))
        return next(said, "")

    def _tail(self, begin: int) -> str:
        return "\n".join([line for line in self._lines(begin) if line][-_TAIL_LINES:])

    def _lines(self, begin: int) -> list[str]:
        """The end of the log, after `begin`; a progress bar that is drawn over itself is as many lines."""
        with self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(begin, size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return ["".join(filter(str.isprintable, line)).rstrip() for line in text.splitlines()]


def output_of(argv: Sequence[str | Path], *, deadline_s: float = 30.0) -> str | None:
    """What a quick tool says on standard output; None when it fails or is not here."""
    try:
        done = subprocess.run(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _end(tool: "subprocess.Popen[bytes]") -> None:
    """Ends a tool that still runs, and its process group; its number is its own until it is collected."""
    if tool.returncode is not None:
        return
    for number, wait_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tool.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            tool.wait(wait_s)
            return


def _ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
