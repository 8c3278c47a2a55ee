"""Who follows a campaign while it goes on; the command line shows it to people."""

from collections.abc import Sequence
from typing import Protocol

from brokerlab.study.plan import PlannedRun


class Watcher(Protocol):
    def run_started(self, run: PlannedRun, number: int, total: int) -> None: ...

    def phase_started(self, name: str, seconds: float) -> None:
        """A phase began; `seconds` is how long it may last, 0 where nobody knows."""
        ...

    def run_ended(self, run: PlannedRun, verdict: str, reasons: Sequence[str], seconds: float) -> None: ...
