"""What starts a node that a driver describes: a process of ours, or a container of the user's engine."""

from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from brokerlab.brokers.base import Node
from brokerlab.brokers.container import ContainerProcess
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.running import Running
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.places import LOOPBACK, Place


class Limited(Protocol):
    """Who holds a node to its limits."""

    def section(self) -> dict[str, object]:
        """For the manifest: what was asked, how it was set, and what it did."""
        ...


class Started(Running, Protocol):
    """A node of ours; a context manager."""

    folder: Path
    log: Path

    @property
    def cage(self) -> Limited: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def revive(self) -> None:
        """Starts it again on what it had on disk; whatever of it still runs is killed first."""
        ...

    def is_alive(self) -> bool: ...

    @property
    def exit_code(self) -> int | None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def process_of(
    node: Node, *, folder: Path, limits: Limits = UNLIMITED, place: Place = LOOPBACK
) -> Started:  # fmt: skip
    """To be used as a context manager."""
    kind: type[BrokerProcess | ContainerProcess] = BrokerProcess if node.image is None else ContainerProcess
    return kind(node, folder=folder, limits=limits, place=place)
