"""Starts and stops a node that a driver describes as a container; to the lab it is like a process of ours.

Its files lie in `folder` as those of any other node and are mounted into it; its output goes to the log beside them.
Limits are the engine's. Its processes are seen in /proc, where the engine is on this machine.

The network is that of this machine, or, where a namespace of ours is named, that one: the engine can only join the
network of another container, so a small one goes first (its image holds nsenter and sleep of this machine), whose
process enters our namespace and stays there.
"""

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from brokerlab import inventory
from brokerlab.brokers import engine
from brokerlab.brokers import port as ports
from brokerlab.brokers.base import Node
from brokerlab.brokers.container_limits import EngineLimits
from brokerlab.brokers.pause import pause_image, program
from brokerlab.brokers.process import descendants, write_files
from brokerlab.errors import RunError
from brokerlab.inside import FOLDER, inside
from brokerlab.inventory import Thing
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.places import LOOPBACK, Place
from brokerlab.study.quantity import bytes_text

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_HELD = "/netns"  # our namespace inside its container
_HOLD_S, _POLL_S = 10.0, 0.02


class ContainerProcess:
    """One node of a broker in a container; use it as a context manager."""

    def __init__(self, node: Node, *, folder: Path, limits: Limits = UNLIMITED, place: Place = LOOPBACK) -> None:
        """Its processes are the engine's children, so they join no group of ours."""
        if node.image is None:
            raise ValueError("the node has no image")
        self.node, self.namespace = node, place.namespace
        self.folder = folder.absolute()
        self.log = self.folder.with_name(self.folder.name + ".log")
        self.cage = EngineLimits(limits)
        self._image = node.image
        self._engine: engine.Engine | None = None
        self._container: Container | None = None
        self._things: list[Thing] = []
        self._state: dict[str, Any] = {}  # as the engine told it last

    def start(self) -> None:
        """Returns when the container runs; a start that fails in the middle is undone."""
        with inside(self.namespace):
            ports.require_free(self.node.host, self.node.port)
        try:
            self._engine = engine.connect()
            self._note(Thing("node", str(self.folder)))
            for name in self.node.scratch:
                self._note(Thing("folder", str(self.folder / name)))
            write_files(self.node, self.folder)
            with engine.told(f"image {self._image.name}"):
                self._run(self._engine.client)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends it as its engine does: SIGTERM, and SIGKILL after the node's `stop_s`; its log stays."""
        try:
            if self._container is not None:
                with engine.told("the container's end"):
                    if self.cage.limits and self._look().get("Running"):
                        self.cage.watch(self._container)
                    self._container.stop(timeout=max(1, round(self.node.stop_s)))
                    self._state = self._look()
                    self.log.write_bytes(self._container.logs())
        finally:
            self._remove()

    def revive(self) -> None:
        """Starts it again; whatever of it still runs is killed first."""
        if self._container is None:
            raise ValueError(f"the broker in {self.folder} was never started")
        with engine.told("the container's next start"):
            self._container.restart(timeout=0)
        self._state = self._look()

    def _remove(self) -> None:
        if self._engine is not None:
            for thing in reversed(self._things):
                if thing.kind == "container":
                    engine.remove(*thing.name.split("#", 1))
            self._engine.client.close()
            self._engine = self._container = None
        for name in self.node.scratch:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        while self._things:
            inventory.cross_out(self._things.pop())

    # -- what the lab asks of any broker that runs ----------------------------------------------------------------

    @property
    def is_ours(self) -> bool:
        """Whether its processes can be seen, and so be compared with the owner of the listener."""
        return bool(self.pids())

    @property
    def whereabouts(self) -> str:
        return f"its files are in {self.folder}, and `docker logs` shows its log while it runs"

    def pids(self) -> list[int]:
        """Of the container, where the engine is on this machine."""
        pid = int(self._state.get("Pid") or 0)
        return list(descendants(pid)) if pid and _is_of(pid, self._container) else []

    def is_alive(self) -> bool:
        self._state = self._look() or self._state
        return bool(self._state.get("Running"))

    @property
    def exit_code(self) -> int | None:
        return None if self.is_alive() else self._state.get("ExitCode")

    def require_alive(self, waited_for: str) -> None:
        if self.is_alive():
            return
        killed = f" ({reason})" if (reason := self.obituary()) else ""
        raise RunError(
            f"the container of {self._image.name} ended with exit code {self._state.get('ExitCode')}{killed} "
            f"while waiting for {waited_for}; the end of its log:\n{self.log_tail() or '(nothing was logged)'}",
            hint=self.whereabouts,
        )

    def open_files_limit(self) -> int | None:
        for pid in self.pids()[:1]:
            with contextlib.suppress(OSError):
                limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii").splitlines()
                words = next(line for line in limits if line.startswith("Max open files")).split()
                return int(words[3])
        return None

    def log_tail(self, lines: int = 20) -> str:
        if self._container is None:
            return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        with engine.told("the container's log"):
            return str(self._container.logs(tail=lines).decode(errors="replace")).rstrip()

    def obituary(self) -> str:
        if not self._state.get("OOMKilled") or self.cage.limits.memory_bytes is None:
            return ""
        return f"the kernel killed it at its limit of {bytes_text(self.cage.limits.memory_bytes)} of memory"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- the engine -----------------------------------------------------------------------------------------------

    def _run(self, client: "DockerClient") -> None:
        network = "host" if self.namespace is None else f"container:{self._hold_namespace(client)}"
        mounts = {str(self.folder / file): {"bind": path, "mode": "ro"} for file, path in self._image.mounts.items()}
        self._container = client.containers.create(
            self._image.name,
            command=list(self.node.argv) or None,
            name=self._new_name(),
            environment=dict(self.node.env),
            volumes=mounts,
            tmpfs=dict.fromkeys(self._image.data, ""),
            network_mode=network,
            labels=inventory.mark(),
            **self.cage.arguments(),
        )
        self._container.start()
        self._state = self._look()

    def _hold_namespace(self, client: "DockerClient") -> str:
        """A container whose process is in our namespace; its name."""
        nsenter, sleep = program("nsenter"), program("sleep")
        name = self._new_name()
        holder = client.containers.create(
            pause_image(client, nsenter, sleep),
            command=[nsenter, f"--net={_HELD}", sleep, "infinity"],
            name=name,
            volumes={str(FOLDER / str(self.namespace)): {"bind": _HELD, "mode": "ro"}},
            network_mode="none",
            cap_add=["SYS_ADMIN"],
            security_opt=["seccomp=unconfined"],  # the usual profile forbids setns(2)
            labels=inventory.mark(),
        )
        holder.start()
        self._require_held(holder)
        return name

    def _require_held(self, holder: "Container") -> None:
        """Waits until it has entered our namespace."""
        wanted = (FOLDER / str(self.namespace)).stat().st_ino
        deadline = time.monotonic() + _HOLD_S
        while time.monotonic() < deadline:
            holder.reload()
            pid = int(holder.attrs["State"]["Pid"])
            with contextlib.suppress(OSError):
                if pid and os.stat(f"/proc/{pid}/ns/net").st_ino == wanted:  # noqa: PTH116 - the link's target
                    return
            time.sleep(_POLL_S)
        raise RunError(
            f"the container that was to hold the namespace {self.namespace} did not: {holder.logs().decode()}",
            hint="the engine must be on this machine, and let a container have SYS_ADMIN",
        )

    def _new_name(self) -> str:
        """Noted before there is a container of that name."""
        name = f"{engine.PREFIX}{secrets.token_hex(6)}"
        address = self._engine.address if self._engine else ""
        self._note(Thing("container", f"{address}#{name}"))
        return name

    def _look(self) -> dict[str, Any]:
        if self._container is None:
            return {}
        with engine.told("the container"):
            self._container.reload()
            return dict(self._container.attrs["State"])

    def _note(self, thing: Thing) -> None:
        inventory.note(thing)
        self._things.append(thing)


def _is_of(pid: int, container: "Container | None") -> bool:
    """Whether the number is that of a process of this container here, and not on the engine's own machine."""
    with contextlib.suppress(OSError):
        return container is not None and str(container.id) in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii")
    return False
