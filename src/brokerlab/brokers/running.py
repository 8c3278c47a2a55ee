"""A broker that runs, whoever started it: what the lab asks of it while a run goes on."""

from types import TracebackType
from typing import Protocol, Self

from brokerlab.brokers.base import Node
from brokerlab.study.address import written_address


class Running(Protocol):
    """BrokerProcess is one that we started; Reached is somebody else's."""

    node: Node
    namespace: str | None  # the network namespace that it is in; None: ours

    @property
    def is_ours(self) -> bool:
        """Whether its listener must be that of a process of ours."""
        ...

    @property
    def whereabouts(self) -> str:
        """For people: where to look when it does not answer."""
        ...

    def pids(self) -> list[int]: ...

    def require_alive(self, waited_for: str) -> None: ...

    def open_files_limit(self) -> int | None: ...

    def log_tail(self, lines: int = 20) -> str: ...

    def obituary(self) -> str:
        """Why the kernel ended it; empty if it did not."""
        ...


class Reached:
    """Somebody's broker: nothing of it is ours to start, stop or sample. Our clients notice when it is gone."""

    is_ours = False
    namespace: str | None = None

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def whereabouts(self) -> str:
        return f"is {written_address(self.node.host, self.node.port)} right, and may this machine reach it?"

    def pids(self) -> list[int]:
        return []

    def require_alive(self, waited_for: str) -> None:
        """Nobody can tell from here but by connecting."""

    def open_files_limit(self) -> int | None:
        return None

    def log_tail(self, lines: int = 20) -> str:
        del lines
        return "(its log is somebody else's)"

    def obituary(self) -> str:
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It stays as it is."""
