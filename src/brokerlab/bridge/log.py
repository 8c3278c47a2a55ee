"""What a route must still know after the bridge was stopped, by whatever: one file of fixed size.

The tables of walks.py lie in it as they are, mapped into memory: what was written before a `kill -9` is there after
it. (The kernel writes it to the disk in its own time, so the machine's own crash may take the last seconds along.)

    header      what the route is, as JSON; a file of another route is not read
    upstream    of each identifier of the source: state, lane, our identifier, digest
    downstream  of each of ours: state, the source's identifier, for every lane
    memory      digests of what was published here by the other direction
"""

import fcntl
import json
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from brokerlab.bridge.values import Bridge, Route
from brokerlab.bridge.walks import DONE, FREE, IDS, ONE, TWO, Downstream, Memory, Upstream
from brokerlab.errors import UserError

FORMAT = 1
_HEADER_BYTES = 4096
_REMEMBERED = 65_536  # digests


class Log:
    """The open file of a route."""

    def __init__(self, path: Path, *, lanes: int, has_memory: bool, route: dict[str, Any]) -> None:
        """Opens the file or makes it; UserError where it is another route's and has unfinished messages."""
        self._path = path
        self._remembered = _REMEMBERED if has_memory else 0
        size = _HEADER_BYTES + IDS * 12 + IDS * 3 * lanes + self._remembered * 16
        self.route = {"format": FORMAT, "lanes": lanes, "memory": self._remembered, **route}
        found = self._found(path)
        if found is not None and (found != self.route or path.stat().st_size != size):
            self._refuse_unfinished(path, found)
            path.unlink()
            found = None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        if found is None:
            text = json.dumps(self.route).encode()
            self._map[: len(text)] = text
        self._at = _HEADER_BYTES
        self.upstream = Upstream(
            state=self._array(np.uint8, IDS),
            lane=self._array(np.uint8, IDS),
            downstream=self._array(np.uint16, IDS),
            digest=self._array(np.int64, IDS),
            place=np.full(IDS, -1, dtype=np.int64),
            order=np.zeros(IDS, dtype=np.int64),
            order_done=np.zeros(IDS, dtype=np.uint8),
            ends=np.zeros(2, dtype=np.int64),
        )
        self.downstream = Downstream(
            state=self._array(np.uint8, lanes * IDS).reshape(lanes, IDS),
            source=self._array(np.uint16, lanes * IDS).reshape(lanes, IDS),
            is_held=np.zeros((lanes, IDS), dtype=np.uint8),
        )
        self.memory = Memory(
            keys=self._array(np.int64, self._remembered),
            counts=self._array(np.int32, self._remembered),
            stamps=self._array(np.int32, self._remembered),
        )
        self.unfinished = self._recover()

    def _array(self, kind: Any, count: int) -> Any:
        array = np.frombuffer(self._map, dtype=kind, count=count, offset=self._at) if count else np.empty(0, kind)
        self._at += array.nbytes
        return array

    def _recover(self) -> int:
        """Takes out what needs no memory, or was half written; how many messages of QoS 2 are unfinished."""
        up, down = self.upstream, self.downstream
        up.state[up.state == ONE] = FREE
        down.state[down.state == ONE] = FREE
        for lane in range(down.state.shape[0]):
            ours = np.flatnonzero(down.state[lane])
            asked = down.source[lane, ours]
            is_its = (up.state[asked] == TWO) & (up.lane[asked] == lane) & (up.downstream[asked] == ours) & (asked > 0)
            down.source[lane, ours[~is_its]] = 0
        return int(np.count_nonzero(up.state == TWO))

    def forget_upstream(self) -> None:
        """The source has lost our session: what it gave us an identifier for, it does not know any more."""
        up = self.upstream
        up.state[:] = FREE
        up.place[:] = -1
        up.order_done[:] = 0
        up.ends[:] = 0
        self.downstream.source[:] = 0

    def close(self) -> None:
        """Also writes it to the disk; the arrays stay valid for as long as somebody has them."""
        self._map.flush()

    @staticmethod
    def _found(path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        try:
            with path.open("rb") as file:
                found: dict[str, Any] = json.loads(file.read(_HEADER_BYTES).rstrip(b"\0"))
        except (ValueError, OSError):
            return {}
        return found

    @staticmethod
    def _refuse_unfinished(path: Path, found: dict[str, Any]) -> None:
        with path.open("rb") as file:
            file.seek(_HEADER_BYTES)
            states = np.frombuffer(file.read(IDS), dtype=np.uint8)
        count = int(np.count_nonzero((states == TWO) | (states == DONE)))
        if count:
            was = {key: value for key, value in found.items() if key not in ("format", "memory")}
            raise UserError(
                f"{path} has {count} unfinished messages of the route as it was: {json.dumps(was)}",
                hint="start the bridge once with the old file, and stop it when its table says that nothing is in"
                " flight; or remove the log, and these messages may come twice",
            )


def open_log(bridge: Bridge, route: Route, *, has_memory: bool) -> Log:
    described = {
        "bridge": bridge.name,
        "route": route.name,
        "from": bridge.brokers[route.source].address,
        "to": bridge.brokers[route.target].address,
    }
    return Log(bridge.state / f"{route.name}.log", lanes=route.workers, has_memory=has_memory, route=described)


class Subscribed:
    """The filters that the source has for us, as it granted them: kept, because a session outlasts us."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, int]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, granted: dict[str, int]) -> None:
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(granted), encoding="utf-8")
        beside.replace(self._path)


@contextmanager
def state_folder(bridge: Bridge) -> Iterator[Path]:
    """The folder of the logs, for this bridge alone as long as it lasts."""
    try:
        bridge.state.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(bridge.state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise UserError(f"the folder of the logs cannot be used: {bridge.state}: {problem.strerror}") from problem
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise UserError(
                f"another bridge works with {bridge.state}",
                hint="stop it first; two bridges with one name would take each other's sessions",
            ) from problem
        yield bridge.state
    finally:
        os.close(descriptor)
