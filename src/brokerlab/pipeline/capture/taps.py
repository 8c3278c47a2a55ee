"""Which captures a run has, and the times of its phases on the clock of captures."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from brokerlab.pipeline.capture.compiled import Longs
from brokerlab.pipeline.manifests import RunFacts
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import Json

OUTSIDE, WHOLE = "outside", "capture"


@dataclass(frozen=True, slots=True)
class Tap:
    """An entry of the manifest's section `captures`."""

    run_id: str
    run_directory: str
    tap: str  # with its place, where the run has several of that name
    path: str
    ports: tuple[int, ...]
    about: Json

    def row(self) -> dict[str, Any]:
        """Of schemas.captured.TAPS."""
        return {
            "path": self.path,
            "run_directory": self.run_directory,
            "run_id": self.run_id,
            "tap": self.tap,
            "file": str(Path(self.path).relative_to(self.run_directory)),
            "place": self.about.get("place"),
            "dropped": self.about.get("dropped"),
            "beyond_limit": self.about.get("beyond_limit"),
        }


def taps_of_runs(runs: Sequence[RunFacts]) -> list[Tap]:
    return [tap for run in runs for tap in taps_of(run)]


def taps_of(run: RunFacts) -> list[Tap]:
    """The taps of a run; a manifest without captures has none."""
    manifest, folder = run.directory.manifest(), run.directory.path.resolve()
    entries = list(manifest.get("captures") or ())
    names = Counter(entry["tap"] for entry in entries)
    return [
        Tap(
            run.run_id,
            str(folder),
            entry["tap"] if names[entry["tap"]] == 1 else f"{entry['tap']} {entry.get('place')}",
            str(folder / entry["file"]),
            tuple(entry.get("ports") or _ports(entries, manifest)),
            entry,
        )
        for entry in entries
    ]


def _ports(entries: Sequence[Json], manifest: Json) -> list[int]:
    """Of a tap that takes everything: those of the other taps, or the broker's."""
    told = {int(port) for entry in entries for port in entry.get("ports") or ()}
    _, _, own = str(manifest.get("broker", {}).get("address", "")).rpartition(":")
    return sorted(told) or ([int(own)] if own.isdecimal() else [])


@dataclass(frozen=True, slots=True)
class Phases:
    """Names and times, in nanoseconds since 1970; the last two names are for what is in none of them."""

    names: tuple[str, ...]
    starts: Longs
    ends: Longs

    def of(self, at_ns: Longs) -> Longs:
        """The number of the phase of each time, of OUTSIDE between phases."""
        if not self.starts.size:
            return np.zeros(at_ns.size, dtype=np.int64)
        number = np.searchsorted(self.starts, at_ns, side="right") - 1
        return np.where((number >= 0) & (at_ns < self.ends[number]), number, self.starts.size)

    def window(self, first: str, last: str) -> tuple[int, int] | None:
        """From the start of one phase to the end of another; None where one is not there."""
        if first not in self.names or last not in self.names:
            return None
        return int(self.starts[self.names.index(first)]), int(self.ends[self.names.index(last)])


def phases_of(run_directory: str) -> Phases:
    """Captures have the wall clock: the phases' times are carried over by the manifest's reading of both."""
    return phases_in(RunDirectory(Path(run_directory)).manifest())


def phases_in(manifest: Json) -> Phases:
    clock, noted = manifest.get("clock"), manifest.get("phases") or []
    if not clock or not noted:
        return Phases((WHOLE,), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    ahead_ns = clock["wall_ns"] - clock["mono_ns"]
    ordered = sorted(noted, key=lambda phase: phase["start_ns"])
    starts = np.array([phase["start_ns"] + ahead_ns for phase in ordered], dtype=np.int64)
    ends = np.array([phase["end_ns"] + ahead_ns for phase in ordered], dtype=np.int64)
    return Phases((*(str(phase["name"]) for phase in ordered), OUTSIDE), starts, ends)
