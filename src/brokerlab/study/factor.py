"""What one factor of a study is, and the readers of plain numbers that factors share."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from brokerlab.study.ensemble_values import Ensemble
from brokerlab.study.limit_values import Limits
from brokerlab.study.problems import RuleError
from brokerlab.study.topology import Topology
from brokerlab.study.values import Level, Qos, Workload


@dataclass(frozen=True, slots=True)
class FactorKind:
    """One factor: its readers and writers, and the key that holds its value where it is not varied."""

    name: str
    home: tuple[str, ...]  # below scenario.workload; empty for what is no part of it: broker, limits, links
    read: Callable[[object], Level]
    written: Callable[[Level], str | int]  # as in a study file
    apply: Callable[[Workload, Level], Workload]
    limit: Callable[[Limits, Level], Limits] | None = None  # of a factor that is a limit on the broker's node
    network: Callable[[Topology, Level], Topology] | None = None  # of a factor that changes links
    ensemble: Callable[[Ensemble, Level], Ensemble] | None = None  # of a factor about the broker's nodes

    def parse(self, text: str) -> Level:
        """The level that a command line means; whole numbers and quantities are told apart."""
        stripped = text.strip()
        return self.read(int(stripped) if re.fullmatch(r"\d{1,18}", stripped, re.ASCII) else stripped)

    def label(self, level: Level) -> str:
        """The level as a part of a path, different for different levels: "64B", "0_5-per-s"."""
        text = str(self.written(level)).replace(" ", "").replace("/", "-per-").replace("+", "")
        return text.replace(".", "_").replace("%", "percent")


def read_whole(written: object, *, least: int, most: int) -> int:
    if isinstance(written, bool) or not isinstance(written, int):
        raise RuleError("must be a whole number, without a unit")
    if not least <= written <= most:
        raise RuleError(f"must be from {least} to {most}")
    return written


def read_qos(written: object) -> int:
    if isinstance(written, bool) or not isinstance(written, int) or written not in list(Qos):
        raise RuleError("must be 0, 1 or 2")
    return written


ON, OFF = "on", "off"


def read_switch(written: object) -> str:
    """Whether something is used; as a level it is a word, which reads better than a truth value."""
    if written is True or written == ON:
        return ON
    if written is False or written == OFF:
        return OFF
    raise RuleError("must be true or false")
