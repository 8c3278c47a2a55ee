"""Workers as processes of this machine.

They are forked from a server process that has everything imported and compiled already (multiprocessing's
forkserver), so a worker starts in milliseconds and inherits no thread or socket of the lab.
"""

import multiprocessing
import multiprocessing.util
import sys
from collections.abc import Mapping, MutableSequence, Sequence
from importlib.abc import MetaPathFinder
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from brokerlab import inventory
from brokerlab.inventory import Thing
from brokerlab.load import worker
from brokerlab.load.spec import Progress, WorkerSpec

_context = multiprocessing.get_context("forkserver")
# The main module goes first: a worker whose server has it need not import it again.
_context.set_forkserver_preload(["__main__", "brokerlab.load.worker"])

_AFTER_REMOVAL = -200  # multiprocessing removes its folder with priority -100, and larger ones go first


class NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002 - the protocol's
        if fullname == "pandas":
            raise ModuleNotFoundError("a worker does without pandas", name=fullname)


def work_without_pandas(
    spec: WorkerSpec, pipe: Connection, counts: MutableSequence[int], progress: Progress
) -> None:  # fmt: skip
    """A worker's life, without what Arrow imports at its first array and a worker never uses.

    Arrow looks whether it was given something of pandas: importing that takes 29 MiB of each worker and half a second
    of its loop, at the first rows.
    """
    sys.meta_path.insert(0, NoPandas())
    worker.main(spec, pipe, counts, progress)


class LocalProcesses:
    """The runner of this machine."""

    def __init__(self) -> None:
        self._pipes: dict[str, Connection] = {}
        self._processes: dict[str, BaseProcess] = {}
        self.counts: MutableSequence[int] = []

    def start(self, specs: Sequence[WorkerSpec], progress: Progress) -> Mapping[str, Connection]:
        self.counts = _context.RawArray("q", 3 * len(specs) + 1)
        _note_sockets()
        try:
            for spec in specs:
                ours, theirs = _context.Pipe()
                process = _context.Process(
                    target=work_without_pandas,
                    args=(spec, theirs, self.counts, progress),
                    name=spec.node,
                    daemon=True,
                )
                process.start()
                theirs.close()
                self._pipes[spec.node], self._processes[spec.node] = ours, process
        except BaseException:
            self.end()
            raise
        return self._pipes

    def pids(self) -> dict[str, int]:
        return {node: process.pid for node, process in self._processes.items() if process.pid is not None}

    def obituary(self, node: str) -> str:
        return f"exit code {self._processes[node].exitcode}"

    def facts(self) -> dict[str, object]:
        return {}

    def end(self) -> None:
        """By its process, each."""
        for pipe in self._pipes.values():
            pipe.close()
        for process in self._processes.values():
            process.join(timeout=1)
            if process.is_alive():
                process.kill()
                process.join()


def _note_sockets() -> None:
    """The folder of the server's sockets, which multiprocessing removes at a normal end and no other."""
    folder = Thing("folder", multiprocessing.util.get_temp_dir())
    if not inventory.is_noted(folder):
        inventory.note(folder)
        multiprocessing.util.Finalize(None, inventory.cross_out, args=(folder,), exitpriority=_AFTER_REMOVAL)
