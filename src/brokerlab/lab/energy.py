"""Energy of the machine's processors from RAPL counters, where the kernel shows them; never an estimate (F-16).

/sys/class/powercap/intel-rapl:N is a package; its energy_uj counts micro-joules and starts anew at
max_energy_range_uj (Documentation/power/powercap). Since Linux 5.10 only root may read it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_PACKAGE = re.compile(r"intel-rapl:\d+$")  # AMD's processors have the same name; parts of a package have two numbers


@dataclass(frozen=True, slots=True)
class Package:
    """One counter."""

    name: str
    counter: Path
    range_uj: int

    def read_uj(self) -> int:
        return int(self.counter.read_text(encoding="ascii"))


def packages(folder: Path = POWERCAP) -> tuple[Package, ...]:
    """The counters that can be read here; none where there are none, or without the right."""
    return tuple(one for zone in _zones(folder) if (one := _package(zone)) is not None)


def reason_unmeasurable(folder: Path = POWERCAP) -> str | None:
    """Why energy cannot be measured here; None: it can."""
    if packages(folder):
        return None
    if _zones(folder):
        return "not measurable here: only root may read the RAPL counters"
    return "not measurable here: the machine shows no RAPL counters"


def joules(readings_uj: Sequence[tuple[int, ...]], ranges_uj: Sequence[int]) -> float | None:
    """Energy of all packages from the first reading to the last; None with less than two readings or no counter.

    A counter may start anew once between two readings.
    """
    if len(readings_uj) < 2 or not ranges_uj:
        return None
    steps = (
        (later - earlier) % full
        for before, after in pairwise(readings_uj)
        for earlier, later, full in zip(before, after, ranges_uj, strict=True)
    )
    return sum(steps) / 1e6


def _zones(folder: Path) -> list[Path]:
    return sorted(zone for zone in folder.glob("intel-rapl:*") if _PACKAGE.match(zone.name))


def _package(zone: Path) -> Package | None:
    try:
        name = (zone / "name").read_text(encoding="ascii").strip()
        full = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
        package = Package(name, zone / "energy_uj", full)
        package.read_uj()
    except (OSError, ValueError):
        return None  # shown, but not to be read
    return package
