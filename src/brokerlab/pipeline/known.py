"""Partial results that are known already: a finished run is not read a second time.

    <out>/.partials/index.json      by batch: run ids, each with the key of what its partials were made of
    <out>/.partials/<batch>/        partials of some runs, as Spark wrote them

A key is made of the manifest and of names, sizes and times of all other files of the run. Another version of the
pipeline, or other families of partials, make everything anew. A run whose raw files were left behind (a bundle of
histograms) is known by its manifest alone.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerlab.errors import UserError
from brokerlab.pipeline import reduce as reducing
from brokerlab.pipeline.manifests import RunFacts
from brokerlab.pipeline.schemas import PIPELINE_VERSION
from brokerlab.pipeline.schemas.families import PARTIALS
from brokerlab.pipeline.sources import read_back, write
from brokerlab.record.bundle import ABOUT, HISTOGRAMS, bundled
from brokerlab.record.directory import RunDirectory, StudyDirectory
from brokerlab.record.manifest import replace_json
from brokerlab.record.schemas import RAW_SCHEMAS

FOLDER = ".partials"
_MOST_BATCHES = 12  # more are put together, so that reading them stays one step


@dataclass(frozen=True, slots=True)
class Key:
    """What the partials of a run were made of."""

    manifest: str
    files: str | None  # None: there are no raw files

    def matches(self, kept: Mapping[str, Any]) -> bool:
        return self.manifest == kept.get("manifest") and self.files in (None, kept.get("files"))


class KnownPartials:
    """The partials of one study directory; used by one analysis at a time."""

    def __init__(self, results: StudyDirectory) -> None:
        self._folder = results.path / FOLDER
        self._index = self._folder / "index.json"
        self.note = ""  # what is to be said of partials that are of no use
        self._batches = self._read_index()
        if self.note and bundled(results) == HISTOGRAMS:
            raise UserError(
                f"{results.path}: {self.note}, and its raw files were not packed",
                hint=f"analyze it with the brokerlab that {results.path / ABOUT} names",
            )

    def missing(self, facts: Sequence[RunFacts]) -> list[RunFacts]:
        """The runs that must be read; what is kept of others than these is dropped."""
        keys = {run.run_id: key_of(run.directory) for run in facts}
        for batch, kept in list(self._batches.items()):
            is_there = (self._folder / batch).is_dir()
            valid = {run: key for run, key in kept.items() if is_there and run in keys and keys[run].matches(key)}
            self._batches[batch] = valid
        found = {run for kept in self._batches.values() for run in kept}
        return [run for run in facts if run.run_id not in found]

    def add(self, written: Path, facts: Sequence[RunFacts]) -> None:
        """Takes a folder of partials over: those of the runs given."""
        self._folder.mkdir(exist_ok=True)
        batch = f"{max((int(name) for name in self._batches), default=0) + 1:05d}"
        shutil.rmtree(self._folder / batch, ignore_errors=True)
        written.rename(self._folder / batch)
        keys = {run.run_id: key_of(run.directory) for run in facts}
        self._batches[batch] = {run: {"manifest": key.manifest, "files": key.files} for run, key in keys.items()}
        self._write_index()

    def read(self, spark: SparkSession, workshop: Path) -> DataFrame:
        """The partials of all runs that are known."""
        self._tidy()
        if len(self._batches) > _MOST_BATCHES:
            self._put_together(spark, workshop / "together")
        return reduce(DataFrame.unionByName, self._frames(spark))

    def _frames(self, spark: SparkSession) -> Iterator[DataFrame]:
        for batch, kept in sorted(self._batches.items()):
            yield read_back(spark, self._folder / batch, PARTIALS).where(F.col("run_id").isin(sorted(kept)))

    def _put_together(self, spark: SparkSession, path: Path) -> None:
        write(reduce(DataFrame.unionByName, self._frames(spark)).coalesce(8), path)
        kept = {run: key for runs in self._batches.values() for run, key in runs.items()}
        batch = f"{max(int(name) for name in self._batches) + 1:05d}"
        path.rename(self._folder / batch)
        self._batches = {batch: kept}
        self._tidy()

    def _tidy(self) -> None:
        """Removes batches without a run that counts, and what a killed analysis left."""
        self._batches = {batch: kept for batch, kept in self._batches.items() if kept}
        self._write_index()
        for entry in self._folder.iterdir():
            if entry.is_dir() and entry.name not in self._batches:
                shutil.rmtree(entry, ignore_errors=True)

    def _read_index(self) -> dict[str, dict[str, Any]]:
        try:
            content = json.loads(self._index.read_text(encoding="utf-8"))
            batches: dict[str, dict[str, Any]] = content["batches"]
            made_by, families = content["pipeline"], content["families"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        if made_by != PIPELINE_VERSION:
            self.note = f"partial results of pipeline version {made_by}, this is {PIPELINE_VERSION}: all runs anew"
        elif families != _families():
            self.note = "partial results that another pipeline made: all runs anew"
        return {} if self.note else batches

    def _write_index(self) -> None:
        self._folder.mkdir(exist_ok=True)
        replace_json(self._index, {"pipeline": PIPELINE_VERSION, "families": _families(), "batches": self._batches})


def key_of(run: RunDirectory) -> Key:
    """The key of a run as it lies there now."""
    manifest = hashlib.sha256(run.manifest_path.read_bytes()).hexdigest()
    files = sorted(path for path in run.path.rglob("*") if path.is_file() and path != run.manifest_path)
    if not any(path.relative_to(run.path).parts[0] in (*RAW_SCHEMAS, "traffic") for path in files):
        return Key(manifest, None)
    listed = "".join(f"{path.relative_to(run.path)}\0{_about(path)}\n" for path in files)
    return Key(manifest, hashlib.sha256(listed.encode()).hexdigest())


def _about(path: Path) -> str:
    about = path.stat()
    return f"{about.st_size}\0{about.st_mtime_ns}"


def _families() -> str:
    """What partials look like and what makes them: a change that nobody numbered makes them anew as well."""
    made_of = hashlib.sha256(PARTIALS.json().encode())
    for module in sorted(Path(reducing.__file__).parent.glob("*.py")):
        made_of.update(module.read_bytes())
    return made_of.hexdigest()[:16]
