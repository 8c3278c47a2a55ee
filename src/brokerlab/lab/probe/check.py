"""A check as a value, and what it found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import Result
from brokerlab.load.packets import LEVELS

Sections = Mapping[int, str]  # protocol level -> the section that the check rests on there

PROTOCOL_OF = {level: name for name, level in LEVELS.items()}


@dataclass(frozen=True, slots=True)
class Check:
    id: str  # group.name
    title: str  # what must be so
    sections: Sections
    run: Callable[[Room], str]
    is_alone: bool = False  # nothing else runs beside it: it may end the broker, or needs much memory

    @property
    def group(self) -> str:
        return self.id.split(".")[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found with one version of the protocol."""

    check: Check
    protocol: str
    result: Result
    reason: str  # one sentence
    evidence: str  # the packets as seen, on one line
    seconds: float = 0.0

    @property
    def section(self) -> str:
        """The section that the check rests on, with the standard it stands in."""
        return self.check.sections[LEVELS[self.protocol]]


def both(section: str, section_5: str = "") -> Sections:
    """A rule of 3.1.1 and 5.0, which have mostly the same numbers."""
    return {4: section, 5: section_5 or section}


def every(section_3: str, section: str, section_5: str = "") -> Sections:
    """A rule of all three versions."""
    return {3: section_3, 4: section, 5: section_5 or section}
