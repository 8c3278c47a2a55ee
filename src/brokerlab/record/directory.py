"""Where everything of a study and of a run lies on disk.

    <out>/study.yaml, plan.json, probes/, tables/<name>/, report.html
    <out>/runs/<cell>/<repetition>/manifest.json, publications/, deliveries/, ...

A raw file is written under a name that ends in `.part` and renamed when it is complete,
so every `*.parquet` in a run directory is whole, also after a crash.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from brokerlab.errors import UserError
from brokerlab.record.manifest import Json, read_manifest
from brokerlab.record.schemas import RAW_SCHEMAS

_CUT_OFF = re.compile(r"^(\d+)\.cut-(\d+)$")


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One run on disk."""

    path: Path

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def broker(self) -> Path:
        """Configuration and logs of the broker's nodes."""
        return self.path / "broker"

    def raw(self, kind: str) -> Path:
        """The folder of a kind of raw file, such as "deliveries"."""
        if kind not in RAW_SCHEMAS:
            raise ValueError(f"no raw files are called {kind!r}")
        return self.path / kind

    def files(self, kind: str) -> list[Path]:
        """The complete raw files of a kind, by name: a worker's files are in order of time."""
        return sorted(self.raw(kind).glob("*.parquet"))

    def manifest(self) -> Json:
        return read_manifest(self.manifest_path)

    def is_finished(self) -> bool:
        """Whether the run came to a verdict, of whatever kind."""
        return self.manifest_path.exists() and "verdict" in self.manifest()


@dataclass(frozen=True, slots=True)
class StudyDirectory:
    """The results of one study on disk."""

    path: Path

    @property
    def study(self) -> Path:
        return self.path / "study.yaml"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def tables(self) -> Path:
        return self.path / "tables"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def probes(self) -> Path:
        """What was found of brokers besides the runs (record/probes.py)."""
        return self.path / "probes"

    def table(self, name: str) -> Path:
        return self.tables / name

    def run(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.path / "runs" / run_id)

    def runs(self) -> Iterator[RunDirectory]:
        """Every run directory with a manifest, cut-off ones included, in order of their names."""
        for manifest in sorted(self.path.glob("runs/*/*/manifest.json")):
            yield RunDirectory(manifest.parent)

    def set_aside_cut_off(self, run_id: str) -> Path | None:
        """Renames an unfinished run to `<repetition>.cut-<k>`, so that it can be made again; its new path."""
        run = self.run(run_id)
        if not run.path.exists() or run.is_finished():
            return None
        taken = [
            int(match.group(2))
            for sibling in run.path.parent.iterdir()
            if (match := _CUT_OFF.match(sibling.name)) and match.group(1) == run.path.name
        ]
        aside = run.path.with_name(f"{run.path.name}.cut-{max(taken, default=0) + 1}")
        run.path.rename(aside)
        return aside


def open_results(path: Path) -> StudyDirectory:
    """The study directory at `path`, if there is one."""
    if not path.is_dir():
        raise UserError(f"{path}: no such directory of results", hint="give the directory that `brokerlab run` wrote")
    if not (path / "runs").is_dir() and not (path / "tables").is_dir():
        raise UserError(
            f"{path}: holds neither runs/ nor tables/",
            hint="give the directory that `brokerlab run` wrote, such as results/first-light",
        )
    return StudyDirectory(path)
