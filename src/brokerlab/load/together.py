"""Workers as tasks of one job that starts all of them at once: a barrier stage of the user's cluster.

    lab                                   task, on some machine
    submits the job               ->      sees the run directory; waits at the barrier for all the others
                                  <-      Hello(node, machine), from the worker's own process
    Tick, some times              <->     its time: how far the clocks are apart (clocks.py)
    Begin(clocks)                 ->      worker.main, as everywhere: the words of spec.py, in its own time
                                          its raw files go to the run directory in the lab's time

The cluster gives places and starts; what is said is said to the lab alone, so phases are as exact as on one machine.
A task that finds the mark of an earlier start refuses: no load is sent twice.
"""

import hmac
import json
import multiprocessing
import os
import pickle
import secrets
import socket
import threading
import time
from array import array
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any, cast

from brokerlab.errors import RunError
from brokerlab.inventory import boot_id
from brokerlab.load import worker
from brokerlab.load.clocks import SAME, Clock, compare, publish_files, to_lab, to_worker
from brokerlab.load.spec import Progress, Stopped, WorkerSpec

Gather = Callable[[str], Sequence[str]]  # tells all tasks of the job something; what they all told, when all have
Task = Callable[[bytes, Gather], str]
Submit = Callable[[Task, Sequence[bytes]], Sequence[str]]  # makes a job of one task for each value, all at once

_START_S = 180.0
_LOOK_S = 0.2
_END_S = 30.0


@dataclass(frozen=True, slots=True)
class Hello:
    node: str
    host: str
    boot: str
    pid: int


@dataclass(frozen=True, slots=True)
class Tick:
    pass


@dataclass(frozen=True, slots=True)
class Begin:
    own: Clock
    publishers: Mapping[int, Clock]


@dataclass(frozen=True, slots=True)
class Part:
    """What a task is told."""

    spec: WorkerSpec
    progress: Progress
    workers: int
    address: tuple[str, int]
    key: bytes


class Together:
    """The runner of a cluster."""

    def __init__(self, submit: Submit, *, host: str) -> None:
        """`host` is an address of this machine at which the cluster's machines reach it."""
        self._submit, self._host = submit, host
        self._pipes: dict[str, Connection] = {}
        self._hellos: dict[str, Hello] = {}
        self._clocks: dict[str, Clock] = {}
        self._problem: BaseException | None = None
        self._job: threading.Thread | None = None
        self.counts: MutableSequence[int] = []

    def start(self, specs: Sequence[WorkerSpec], progress: Progress) -> Mapping[str, Connection]:
        self.counts = [0] * (3 * len(specs) + 1)
        key = secrets.token_bytes(32)
        try:
            with socket.create_server((self._host, 0), backlog=len(specs)) as server:
                address = (self._host, int(server.getsockname()[1]))
                placed = [replace(spec, run=spec.run.resolve()) for spec in specs]
                parts = [pickle.dumps(Part(spec, progress, len(specs), address, key)) for spec in placed]
                self._job = threading.Thread(target=self._make_job, args=(parts,), name="load-job", daemon=True)
                self._job.start()
                self._welcome(server, key, [spec.node for spec in specs])
            self._begin(specs)
        except BaseException:
            self.end()
            raise
        return self._pipes

    def pids(self) -> dict[str, int]:
        return {node: hello.pid for node, hello in self._hellos.items() if hello.boot == boot_id()}

    def obituary(self, node: str) -> str:
        return str(self._problem or f"a task on {self._hellos[node].host}")

    def facts(self) -> dict[str, object]:
        return {
            node: {
                "host": hello.host,
                "boot": hello.boot,
                "offset_ns": self._clocks[node].offset_ns,
                "bound_ns": self._clocks[node].bound_ns,
            }
            for node, hello in self._hellos.items()
        }

    def end(self) -> None:
        """Who is told nothing any more ends by itself, and the job with the last of its tasks."""
        for pipe in self._pipes.values():
            pipe.close()
        if self._job is not None:
            self._job.join(_END_S)

    def _make_job(self, parts: Sequence[bytes]) -> None:
        try:
            self._submit(take_part, parts)
        except Exception as problem:  # noqa: BLE001 - raised by the thread that waits for the workers
            self._problem = problem

    def _welcome(self, server: socket.socket, key: bytes, nodes: Sequence[str]) -> None:
        """Waits until every worker has said who it is."""
        server.settimeout(_LOOK_S)
        until_s = time.monotonic() + _START_S
        while set(self._hellos) != set(nodes):
            if self._problem is not None:
                raise RunError(f"the load's job failed: {self._problem}") from self._problem
            if time.monotonic() > until_s:
                missing = sorted(set(nodes) - set(self._hellos))
                raise RunError(f"waited {_START_S:g} s in vain for the cluster to start {', '.join(missing)}")
            try:
                accepted, _ = server.accept()
            except TimeoutError:
                continue
            pipe = Connection(os.dup(accepted.fileno()))
            accepted.close()
            deliver_challenge(pipe, key)
            answer_challenge(pipe, key)
            hello = pipe.recv()
            self._hellos[hello.node], self._pipes[hello.node] = hello, pipe

    def _begin(self, specs: Sequence[WorkerSpec]) -> None:
        self._clocks = {node: self._clock(node) for node in self._pipes}
        publishers = {
            client.number: self._clocks[spec.node]
            for spec in specs
            if spec.publishes and not spec.files
            for client in spec.clients
        }
        for spec in specs:
            if self._hellos[spec.node].boot != boot_id() and spec.host.startswith("127."):
                raise RunError(f"{spec.node} runs on {self._hellos[spec.node].host}, which cannot reach {spec.host}")
            self._pipes[spec.node].send(Begin(self._clocks[spec.node], publishers))

    def _clock(self, node: str) -> Clock:
        if self._hellos[node].boot == boot_id():
            return SAME
        return compare(lambda: self._ask(node), time.monotonic_ns)

    def _ask(self, node: str) -> int:
        self._pipes[node].send(Tick())
        return int(self._pipes[node].recv())


# -- on the cluster's machines ------------------------------------------------------------------------------------


def take_part(payload: bytes, gather: Gather) -> str:
    """One task: waits for the others, then is one worker until the lab lets it go; says where that was."""
    part: Part = pickle.loads(payload)  # noqa: S301 - from our own lab, over the cluster's own way
    _require_storage(part.spec.run)
    _mark_start(part.spec)
    me = json.dumps({"node": part.spec.node, "host": socket.gethostname(), "boot": boot_id()})
    gather(me)
    process = multiprocessing.get_context("spawn").Process(target=_be_worker, args=(payload,), name=part.spec.node)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{part.spec.node} ended with exit code {process.exitcode}")
    return me


def see_token(payload: bytes, gather: Gather) -> str:
    """One task of the look at the storage: the name of its machine if it does not see the token, else nothing."""
    gather("")
    path, token = payload.decode().split("\0")
    try:
        is_seen = hmac.compare_digest(Path(path).read_text(encoding="ascii"), token)
    except OSError:
        is_seen = False
    return "" if is_seen else socket.gethostname()


def _require_storage(run: Path) -> None:
    if not (run / "manifest.json").exists():
        raise RuntimeError(f"{socket.gethostname()} does not see {run}")


def _mark_start(spec: WorkerSpec) -> None:
    """A task that is made again must not send again."""
    mark = spec.run / f".started-{spec.node.replace('/', '-')}"
    os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def _be_worker(payload: bytes) -> None:
    part: Part = pickle.loads(payload)  # noqa: S301 - as above
    spec = part.spec
    with socket.create_connection(part.address, timeout=_START_S) as connected:
        connected.settimeout(None)
        pipe = Connection(os.dup(connected.fileno()))
    answer_challenge(pipe, part.key)
    deliver_challenge(pipe, part.key)
    pipe.send(Hello(spec.node, socket.gethostname(), boot_id(), os.getpid()))
    while isinstance(begin := pipe.recv(), Tick):
        pipe.send(time.monotonic_ns())
    counts = array("q", [0] * (3 * part.workers + 1))
    if begin.own == SAME and set(begin.publishers.values()) <= {SAME}:
        worker.main(spec, pipe, counts, part.progress)
        return
    staged = replace(spec, run=spec.run / f".staged-{spec.node.replace('/', '-')}")
    worker.main(staged, cast(Connection, Translating(pipe, begin, staged.run, spec.run)), counts, part.progress)


class Translating:
    """The way to the lab, from a machine with another clock: what goes over it is in the time of who hears it."""

    def __init__(self, pipe: Connection, begin: Begin, staged: Path, run: Path) -> None:
        self._pipe, self._begin, self._staged, self._run = pipe, begin, staged, run

    def fileno(self) -> int:
        return self._pipe.fileno()

    def recv(self) -> Any:
        return to_worker(self._pipe.recv(), self._begin.own)

    def send(self, answer: Any) -> None:
        if isinstance(answer, Stopped):  # its files are closed
            publish_files(self._staged, self._run, self._begin.own, self._begin.publishers)
        self._pipe.send(to_lab(answer, self._begin.own))
