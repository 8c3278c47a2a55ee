"""What the report of a classification reads: its tables, its study and its record."""

import json
from dataclasses import dataclass
from typing import Any

from brokerlab.errors import UserError
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.report.results import Row, StudyText, read_study_text

PAPER = "paper 000"


@dataclass(frozen=True, slots=True)
class QualityResults:
    """Rows are as in the table of the same name, in its order."""

    study: StudyText
    quality: tuple[Row, ...]
    scores: tuple[Row, ...]
    groups: tuple[Row, ...]
    levels: tuple[Row, ...]
    agreement: tuple[Row, ...]
    claims: tuple[Row, ...]  # of paper 000, where it is among the sets
    passes: tuple[dict[str, Any], ...]  # of record.json

    @property
    def sets(self) -> list[str]:
        """Those of today first: the paper's own is told beside them."""
        names = list(dict.fromkeys(row["sheets"] for row in self.scores))
        return sorted(names, key=lambda name: (name == PAPER, names.index(name)))

    @property
    def features(self) -> list[str]:
        return list(dict.fromkeys(row["feature"] for row in self.quality))

    def steps(self) -> list[dict[str, Any]]:
        return list(self.passes[-1]["steps"]) if self.passes else []


def read_quality(results: StudyDirectory) -> QualityResults:
    def rows(name: str) -> tuple[Row, ...]:
        return tuple(read_table(results, name).to_pylist()) if results.table(name).is_dir() else ()

    return QualityResults(
        study=read_study_text(results),
        quality=tuple(read_table(results, "quality").to_pylist()),
        scores=tuple(read_table(results, "quality_scores").to_pylist()),
        groups=rows("quality_groups"),
        levels=rows("quality_levels"),
        agreement=rows("quality_agreement"),
        claims=rows("claims"),
        passes=_passes(results),
    )


def _passes(results: StudyDirectory) -> tuple[dict[str, Any], ...]:
    path = results.path / "record.json"
    if not path.exists():
        return ()
    try:
        return tuple(json.loads(path.read_text(encoding="utf-8"))["passes"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{path}: the record cannot be read: {problem}") from problem
