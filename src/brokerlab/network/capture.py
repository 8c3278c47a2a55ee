"""Captures at taps of a run: one pcap file each, only the ports of the study, bounded in size (M-24).

publisher    what clients send to brokers, where they are connected
broker       both directions, at the broker's own interface
subscriber   what brokers send to clients, where these are connected
router       what comes in at a router from other routers
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from brokerlab import inventory
from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.inventory import Thing
from brokerlab.network.layout import BROKER, CLIENTS, ROUTER, Layout
from brokerlab.network.packet_filter import Taken, attach

MOST_BYTES = 512 << 20  # of each file
_ETH_P_ALL = 0x0003
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_BUFFER_BYTES = 32 << 20
_LONGEST_START_S, _LONGEST_STOP_S = 30.0, 60.0


@dataclass(frozen=True, slots=True)
class Tap:
    """Where frames are taken, and which."""

    name: str
    place: str  # host and interface, such as "broker0 eth0"
    namespace: str | None
    interface: str
    taken: Taken

    @property
    def file(self) -> str:
        """Below the run directory."""
        return f"traffic/{self.name}-{self.place.replace(' ', '-')}.pcap"


def taps_of(
    layout: Layout | None, names: Sequence[str], *, ports: Sequence[int], homes: Sequence[int] = ()
) -> list[Tap]:
    """The taps of these names, of clients on the sites `homes`; without a layout all are on the machine's loopback."""
    if layout is None:
        return [
            Tap(name, "this-machine lo", None, "lo", _taken(name, ports, is_loopback=True))
            for name in names
            if name != ROUTER
        ]
    hosts = {"publisher": CLIENTS, "subscriber": CLIENTS, "broker": BROKER}
    taps = [
        Tap(name, f"{host.name} eth0", host.namespace, "eth0", _taken(name, ports))
        for name in names
        for host in layout.of_kind(hosts.get(name, ""))
        if host.kind == BROKER or host.site in homes
    ]
    if ROUTER in names:
        ends = [end for cable in layout.cables for end in (cable.first, cable.second)]
        taps += [
            Tap(ROUTER, f"{end.host} {end.interface}", layout.host(end.host).namespace, end.interface, _taken(ROUTER))
            for end in ends
            if end.interface.startswith("site")
        ]
    return taps


def _taken(name: str, ports: Sequence[int] = (), *, is_loopback: bool = False) -> Taken:
    """On loopback every frame is seen twice, going out and coming in; a router's tap is of what comes in."""
    return Taken(
        ports=() if name == ROUTER else tuple(ports),
        by_source=name != "publisher",
        by_destination=name != "subscriber",
        with_outgoing=not is_loopback and name != ROUTER,
    )


class Captures:
    """A context manager: captures as long as it is open; afterwards `section` says what was taken."""

    def __init__(self, taps: Sequence[Tap], folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._taps, self._folder, self._most_bytes = list(taps), folder, most_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self.section: list[dict[str, object]] = []

    def __enter__(self) -> Self:
        if not self._taps:
            return self
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(_open(tap)) for tap in self._taps]
            self._start([each.fileno() for each in sockets])
        self._require_up()
        return self

    def _start(self, descriptors: Sequence[int]) -> None:
        words = []
        for descriptor, tap in zip(descriptors, self._taps, strict=True):
            path = self._folder / tap.file
            path.parent.mkdir(parents=True, exist_ok=True)
            words += [str(descriptor), str(path)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "brokerlab.network.capture_process", str(self._most_bytes), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            env={**os.environ, **inventory.mark()},
            start_new_session=True,
        )
        self._thing = Thing("process", str(self._process.pid), inventory.started_ticks(self._process.pid))
        inventory.note(self._thing)

    def _require_up(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _LONGEST_START_S)
        if not ready or self._process.stdout.readline() != b"up\n":
            self._end()
            raise RunError("the process that writes captures did not begin")

    def pids(self) -> dict[str, list[int]]:
        return {"captures": [self._process.pid]} if self._process else {}

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        said = json.loads(self._end() or b"[]")
        by_file = {each["file"]: each for each in said}
        for tap in self._taps:
            counts = by_file.get(str(self._folder / tap.file), {})
            self.section.append(
                {
                    "tap": tap.name,
                    "file": tap.file,
                    "place": tap.place,
                    "ports": list(tap.taken.ports),
                    "frames": counts.get("frames"),
                    "dropped": counts.get("dropped"),
                    "beyond_limit": counts.get("beyond_limit"),
                }
            )

    def _end(self) -> bytes:
        """What the process said last; nothing where it was killed."""
        assert self._process is not None
        try:
            said, _ = self._process.communicate(b"", timeout=_LONGEST_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, _ = self._process.communicate()
        inventory.cross_out(self._thing)
        return said if self._process.returncode == 0 else b""


@contextlib.contextmanager
def _open(tap: Tap) -> Iterator[socket.socket]:
    """A packet socket at the tap; its filter stands before it is bound, so that nothing else gets in."""
    try:
        with inside(tap.namespace):
            way = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError as problem:
        raise RunError("captures need root, or CAP_NET_RAW", hint="leave out deploy.captures") from problem
    with way:
        attach(way, tap.taken)
        way.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        way.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        way.bind((tap.interface, _ETH_P_ALL))
        yield way
