"""Holds a broker's node to its limits: CPU time, cores, memory and swap, by a group of the kernel's (cgroups.py).

The launcher joins the group before it becomes the broker, so no child of the broker's is outside of it.
Cores need no group: without the right to make one they are set as the affinity that children inherit, which a broker
could change, and none does.

What a limit did is read when the broker is stopped, before its group is removed: how often it was out of time
(throttled), the most memory it had, and how many of its processes the kernel killed for memory.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from brokerlab import inventory
from brokerlab.brokers.cgroups import NotHereError, Place, find_places, make_group, remove_group
from brokerlab.errors import UserError
from brokerlab.inventory import Thing
from brokerlab.study.limit_values import Limits
from brokerlab.study.quantity import bytes_text

PREFIX = "brokerlab-"
_PERIOD_US = 100_000  # in which the quota is given; the kernel's own default
_NOT_LIMITED = "not limited here"
_OF_SWAP = ("memory.memsw.limit_in_bytes", "memory.swap.max")  # that the kernel may have been built without


@dataclass(frozen=True, slots=True)
class Effect:
    """What the limits did; None where nobody counts it."""

    periods: int | None = None  # of 100 ms, in which the node ran
    throttled_periods: int | None = None  # in which it was out of time
    throttled_s: float | None = None  # of all its threads together
    memory_peak_bytes: int | None = None
    oom_kills: int | None = None  # processes that the kernel killed for memory


class Cage:
    """The limits of one node as groups of the kernel's: made before its start, removed after its end."""

    def __init__(self, limits: Limits, *, proc: Path = Path("/proc/self")) -> None:
        self.limits = limits
        self.effect = Effect()
        self.settings: dict[str, str] = {}  # file -> what was written to it
        self.cores: tuple[int, ...] = ()  # to be set as an affinity, where no group does it
        self._proc = proc
        self._groups: list[tuple[Place, Path]] = []

    def make(self) -> None:
        """Makes the groups, or refuses with the reason and leaves none."""
        if not self.limits:
            return
        _require_cores(self.limits.cores)
        name = f"{PREFIX}{secrets.token_hex(6)}"
        try:
            for place in self._places():
                self._make_group(place, name)
        except NotHereError as problem:
            self.remove()
            raise _refused(str(problem)) from problem
        except OSError as problem:
            self.remove()
            raise _refused(f"the kernel says of {problem.filename}: {problem.strerror}") from problem
        except BaseException:
            self.remove()
            raise

    @property
    def joins(self) -> list[Path]:
        """The files that the process must write itself into."""
        return [group / "cgroup.procs" for _, group in self._groups]

    def read(self) -> Effect:
        """What the limits did so far."""
        numbers: dict[str, int] = {}
        for place, group in self._groups:
            numbers |= _read_first(group) if place.version == 1 else _read_second(group)
        has_quota, throttled_ns = self.limits.cpus is not None, numbers.get("throttled_ns")
        return Effect(
            periods=numbers.get("nr_periods") if has_quota else None,
            throttled_periods=numbers.get("nr_throttled") if has_quota else None,
            throttled_s=throttled_ns / 1e9 if has_quota and throttled_ns is not None else None,
            memory_peak_bytes=numbers.get("peak"),
            oom_kills=numbers.get("oom_kill"),
        )

    def remove(self) -> None:
        """Kills what is still inside, and removes the groups; what they counted stays in `effect`."""
        if self._groups:
            self.effect = self.read()
        while self._groups:
            _, group = self._groups[-1]
            remove_group(group)
            inventory.cross_out(Thing("cgroup", str(group)))
            self._groups.pop()

    def section(self) -> dict[str, object]:
        """For the manifest: what was asked, how it was set, and what it did."""
        return {
            "asked": asdict(self.limits),
            "set": self.settings,
            "affinity": list(self.cores) or None,
            "effect": asdict(self.effect),
        }

    def obituary(self) -> str:
        """That the kernel killed for memory, in words; empty where it did not."""
        kills = (self.read() if self._groups else self.effect).oom_kills
        if not kills or self.limits.memory_bytes is None:
            return ""
        memory = bytes_text(self.limits.memory_bytes)
        return f"the kernel killed {kills} of the broker's processes at its limit of {memory} of memory"

    def _places(self) -> Iterator[Place]:
        needed = [name for name, is_needed in _needs(self.limits).items() if is_needed]
        if self.limits.cores is not None:
            try:
                yield from find_places([*needed, "cpuset"], proc=self._proc)
            except NotHereError:
                self.cores = self.limits.cores
            else:
                return
        yield from find_places(needed, proc=self._proc) if needed else ()

    def _make_group(self, place: Place, name: str) -> None:
        group = place.parent / name
        inventory.note(Thing("cgroup", str(group)))
        try:
            make_group(place, name)
        except OSError:
            inventory.cross_out(Thing("cgroup", str(group)))
            raise
        self._groups.append((place, group))
        files = _first_version(self.limits, place) if place.version == 1 else _second_version(self.limits, place)
        for file, content in files:
            if file in _OF_SWAP and not (group / file).exists():
                raise NotHereError("the kernel keeps no account of swap (boot it with swapaccount=1)")
            (group / file).write_text(content, encoding="ascii")
            self.settings[str(group / file)] = content


def require_possible(limits: Limits) -> None:
    """Refuses limits that cannot be set here, by setting them on a group without processes."""
    cage = Cage(limits)
    cage.make()
    cage.remove()


def what_is_possible() -> dict[str, str | None]:
    """For each limit why it cannot be set here; None where it can."""
    own = sorted(os.sched_getaffinity(0))
    probes = {
        "cpus": Limits(cpus=0.5),
        "cores": Limits(cores=tuple(own[:1])),
        "memory": Limits(memory_bytes=1 << 30),
        "swap": Limits(memory_bytes=1 << 30, swap_bytes=0),
    }
    return {name: _problem(probe) for name, probe in probes.items()}


def _problem(limits: Limits) -> str | None:
    try:
        require_possible(limits)
    except UserError as problem:
        return problem.message.removeprefix(f"{_NOT_LIMITED}: ")
    return None


def _refused(reason: str) -> UserError:
    return UserError(
        f"{_NOT_LIMITED}: {reason}",
        hint="`brokerlab doctor` says which limits are possible; leave system.limits out, or run as root",
    )


def _needs(limits: Limits) -> Mapping[str, bool]:
    return {"cpu": limits.cpus is not None, "memory": limits.memory_bytes is not None}


def _require_cores(cores: tuple[int, ...] | None) -> None:
    usable = os.sched_getaffinity(0)
    if absent := sorted(set(cores or ()) - usable):
        has = ", ".join(map(str, sorted(usable)))
        raise UserError(
            f"{_NOT_LIMITED}: core {', '.join(map(str, absent))} is not for us to use", hint=f"there is {has}"
        )


def _first_version(limits: Limits, place: Place) -> Iterator[tuple[str, str]]:
    """Files and their content, in the order in which the kernel takes them."""
    if "cpu" in place.controllers and limits.cpus is not None:
        yield "cpu.cfs_period_us", str(_PERIOD_US)
        yield "cpu.cfs_quota_us", str(round(limits.cpus * _PERIOD_US))
    if "cpuset" in place.controllers and limits.cores is not None:
        yield "cpuset.mems", (place.parent / "cpuset.mems").read_text(encoding="ascii").strip()
        yield "cpuset.cpus", ",".join(map(str, limits.cores))
    if "memory" in place.controllers and limits.memory_bytes is not None:
        yield "memory.limit_in_bytes", str(limits.memory_bytes)
        if limits.swap_bytes is not None:
            yield "memory.memsw.limit_in_bytes", str(limits.memory_bytes + limits.swap_bytes)


def _second_version(limits: Limits, place: Place) -> Iterator[tuple[str, str]]:
    if "cpu" in place.controllers and limits.cpus is not None:
        yield "cpu.max", f"{round(limits.cpus * _PERIOD_US)} {_PERIOD_US}"
    if "cpuset" in place.controllers and limits.cores is not None:
        yield "cpuset.cpus", ",".join(map(str, limits.cores))
    if "memory" in place.controllers and limits.memory_bytes is not None:
        yield "memory.max", str(limits.memory_bytes)
        if limits.swap_bytes is not None:
            yield "memory.swap.max", str(limits.swap_bytes)


def _read_first(group: Path) -> dict[str, int]:
    cpu = _pairs(group / "cpu.stat")
    return {
        **cpu,
        **({"throttled_ns": cpu["throttled_time"]} if cpu else {}),
        **_pairs(group / "memory.oom_control"),
        **_single("peak", group / "memory.max_usage_in_bytes"),
    }


def _read_second(group: Path) -> dict[str, int]:
    """The peak is counted since Linux 5.19."""
    cpu = _pairs(group / "cpu.stat")  # of groups without the controller too, but with less in it
    return {
        **cpu,
        **({"throttled_ns": 1000 * cpu["throttled_usec"]} if "throttled_usec" in cpu else {}),
        **_pairs(group / "memory.events"),
        **_single("peak", group / "memory.peak"),
    }


def _pairs(file: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}  # a group without this controller
    return {name: int(value) for name, value in (line.split() for line in lines)}


def _single(name: str, file: Path) -> dict[str, int]:
    with contextlib.suppress(OSError):
        return {name: int(file.read_text(encoding="ascii"))}
    return {}
