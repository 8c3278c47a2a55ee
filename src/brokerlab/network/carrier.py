"""The carrier: the process between the TAP devices of all userspace links of a network, seen from the lab."""

import fcntl
import mmap
import os
import select
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

import psutil

from brokerlab import inventory
from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.inventory import Thing
from brokerlab.network import columns
from brokerlab.network.tables import Done, read_done, table_bytes, tables_in, write_claim
from brokerlab.study.seeds import derived_seed
from brokerlab.study.topology import Link

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
LATE_MS, LATE_SHARE = 0.3, 0.05  # what a link may be off its claim, or of its delay if that is more: proof.py
_LONGEST_START_S = 120.0  # the loop is compiled once, by the first that starts it
_LONGEST_STOP_S = 5.0


def open_tap(namespace: str, interface: str) -> int:
    """The descriptor of a new TAP device in the namespace; the device is gone when nobody has it open."""
    with inside(namespace):
        try:
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            hint = "load the kernel's module tun, or use a machine that has it"
            raise RunError(f"no TAP device can be made: {problem.strerror}", hint=hint) from problem
        try:
            fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", interface.encode(), _IFF_TAP | _IFF_NO_PI))
        except OSError as problem:
            os.close(descriptor)
            raise RunError(f"no TAP device {interface} can be made: {problem.strerror}") from problem
    return descriptor


@dataclass(frozen=True, slots=True)
class Carried:
    """A link of the carrier's: its name, its two ends, and what it claims."""

    name: str
    first: int
    second: int
    link: Link


class Carrier:
    """A context manager: carries as long as it is open, and closes the ends with it."""

    def __init__(self, links: Sequence[Carried], *, seed: int) -> None:
        self._links, self._seed = list(links), seed
        self._names = {each.name: number for number, each in enumerate(links)}
        self.priority = ""
        self.waking_ns = 0  # how late the kernel wakes the process, which it corrects for

    def __enter__(self) -> Self:
        ends = [end for each in self._links for end in (each.first, each.second)]
        shared = os.memfd_create("brokerlab-links")
        try:
            os.ftruncate(shared, table_bytes(len(ends)))
            self._claims, self._done = tables_in(memoryview(mmap.mmap(shared, table_bytes(len(ends)))), len(ends))
            for each in self._links:
                self.change(each.name, each.link)
            self._start(shared, ends)
        finally:
            for descriptor in (shared, *ends):
                os.close(descriptor)
        return self

    def _start(self, shared: int, ends: Sequence[int]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "brokerlab.network.carrier_process", *map(str, (shared, *ends))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(shared, *ends),
            env={**os.environ, **inventory.mark()},
            start_new_session=True,
        )
        self._thing = Thing("process", str(self.pid), inventory.started_ticks(self.pid))
        inventory.note(self._thing)

    def wait_until_up(self) -> None:
        """Waits until it carries; it is started early, because it takes a second to load."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _LONGEST_START_S)
        words = self._process.stdout.readline().decode().split(maxsplit=2) if ready else []
        if words[:1] == ["up"]:
            self.waking_ns, self.priority = int(words[1]), words[2].strip()
        else:
            self._stop()
            said = self._process.stderr.read().decode(errors="replace")[-500:] if self._process.stderr else ""
            raise RunError(f"the links' process did not begin to carry: {said or 'no answer'}")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _stop(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(_LONGEST_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        inventory.cross_out(self._thing)

    @property
    def pid(self) -> int:
        return self._process.pid

    def require_alive(self) -> None:
        if self._process.poll() is not None:
            raise RunError(f"the links' process ended with code {self._process.returncode}")

    def change(self, name: str, link: Link) -> None:
        """Makes the link what is claimed now, also while it carries."""
        row = 2 * self._names[name]
        for offset, direction in enumerate((link.there, link.back)):
            write_claim(self._claims[row + offset], direction, seed=derived_seed(self._seed, "link", name, offset))

    def cut(self, name: str, *, is_cut: bool = True) -> None:
        row = 2 * self._names[name]
        self._claims[row : row + 2, columns.CUT] = is_cut

    def done(self, name: str) -> tuple[Done, Done]:
        """What the link did so far, there and back."""
        row = 2 * self._names[name]
        return read_done(self._done[row]), read_done(self._done[row + 1])

    def was_limit(self) -> list[str]:
        """Why the carrier itself, and no claim, delayed or dropped what it carried; empty where it did not."""
        reasons = []
        for number, each in enumerate(self._links):
            for row, way, done in zip(
                (2 * number, 2 * number + 1), ("there", "back"), self.done(each.name), strict=True
            ):
                delay_ms = float(self._claims[row, columns.DELAY_NS]) / 1e6
                if (done.late_mean_ms or 0.0) > max(LATE_MS, LATE_SHARE * delay_ms):
                    reasons.append(f"{each.name} {way}: frames left {done.late_mean_ms:.2f} ms late on average")
                if done.no_room:
                    reasons.append(f"{each.name} {way}: no memory was left for frames {done.no_room} times")
        return reasons

    def _cpu_s(self) -> float | None:
        """None when it is gone."""
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.NoSuchProcess:
            return None
        return float(times.user + times.system)

    def section(self) -> dict[str, object]:
        """For the manifest: who carried, at which cost, and what became of the frames."""
        return {
            "pid": self.pid,
            "priority": self.priority,
            "waking_us": self.waking_ns / 1000,
            "cpu_s": self._cpu_s(),
            "links": {each.name: [asdict(done) for done in self.done(each.name)] for each in self._links},
        }
