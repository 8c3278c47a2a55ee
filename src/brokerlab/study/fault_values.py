"""Faults of a run as frozen values: what is done to the system while it is measured, and when."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from brokerlab.study.topology import Link


class FaultKind(StrEnum):
    KILL = "kill"  # the processes of a node, by SIGKILL; what it had on disk stays
    RESTART = "restart"  # a node, dead or alive: killed if it runs, then started again on what it had on disk
    STOP = "stop"  # the processes of a node, by SIGSTOP; at its end they go on
    FILES = "files"  # a node may open no more files and sockets
    DISK = "disk"  # what a node writes to finds no room
    CUT = "cut"  # a link carries nothing
    PARTITION = "partition"  # all links between some sites and the others are cut
    SLOW = "slow"  # a link becomes another one
    STORM = "storm"  # all clients lose their connections at once, and come again


OF_NODES = (FaultKind.KILL, FaultKind.RESTART, FaultKind.STOP, FaultKind.FILES, FaultKind.DISK)
DEADLY = (FaultKind.KILL, FaultKind.RESTART, FaultKind.FILES, FaultKind.DISK)  # what a node may not survive
OF_LINKS = (FaultKind.CUT, FaultKind.SLOW)
LASTING = (FaultKind.STOP, FaultKind.FILES, FaultKind.DISK, FaultKind.CUT, FaultKind.PARTITION, FaultKind.SLOW)


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    at_s: float = 0.0  # since the start of the measure phase
    delivered: int | None = None  # instead: when so many messages have been delivered
    for_s: float | None = None  # None: until the end of the run
    node: int | None = None
    link: str | None = None  # as the network calls it, such as router1-router2
    sites: tuple[int, ...] = ()
    claim: Link | None = None  # of SLOW

    @property
    def target(self) -> str:
        """For people: what it is done to."""
        if self.node is not None:
            return f"node {self.node}"
        if self.sites:
            return f"sites {', '.join(map(str, self.sites))}"
        return self.link or "all clients"


@dataclass(frozen=True, slots=True)
class Nemesis:
    """A seeded random schedule of faults, another one in each repetition."""

    faults: int
    kinds: tuple[FaultKind, ...]
    for_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Faults:
    """All of a run; none by default."""

    planned: tuple[Fault, ...] = ()
    nemesis: Nemesis | None = None

    def __bool__(self) -> bool:
        return bool(self.planned) or self.nemesis is not None


NO_FAULTS = Faults()


def nodes_of(schedule: Sequence[Fault], *kinds: FaultKind) -> set[int]:
    """The nodes that faults of these kinds are done to."""
    return {each.node for each in schedule if each.kind in kinds and each.node is not None}
