"""Who runs the workers of a run: the seam between the crew, which speaks with them, and what they run on.

local.py      processes of this machine
together.py   tasks of one job, all at once, on machines of a cluster
"""

from collections.abc import Mapping, MutableSequence, Sequence
from multiprocessing.connection import Connection
from typing import Protocol

from brokerlab.load.spec import Progress, WorkerSpec


class Runner(Protocol):
    """One run's workers, from their start to their end."""

    @property
    def counts(self) -> MutableSequence[int]:
        """The array that workers of one machine share (spec.Progress)."""
        ...

    def start(self, specs: Sequence[WorkerSpec], progress: Progress) -> Mapping[str, Connection]:
        """Starts every worker; the way to each, by its node. A start that fails leaves none behind."""
        ...

    def pids(self) -> dict[str, int]:
        """The process of each node that is one of this machine."""
        ...

    def obituary(self, node: str) -> str:
        """What is known of a worker that does not answer any more."""
        ...

    def facts(self) -> dict[str, object]:
        """For the manifest: where the workers are, and how well their clocks agree."""
        ...

    def end(self) -> None:
        """Ends every worker that still lives."""
        ...
