"""Sheets on Spark: answers in, the tables of the qualitative evaluation out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from brokerlab.pipeline.placing import place
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.quality import TABLE as QUALITY
from brokerlab.pipeline.schemas.quality_agreement import TABLE as AGREEMENT
from brokerlab.pipeline.schemas.sheets import ANSWERS, LEVELS_OF_MODEL, MEMBERSHIPS, TALLIES
from brokerlab.pipeline.sources import read_back, small_frame
from brokerlab.pipeline.transforms.quality import groups_table, judgements, levels_table, quality_table, scores_table
from brokerlab.quality.answers import Answer, answer_rows
from brokerlab.quality.model import Model
from brokerlab.quality.paper import Tally
from brokerlab.record.directory import StudyDirectory
from brokerlab.stats.raters import ordinal_agreement

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Judging:
    """How the answers are judged."""

    select: int = 3  # so many go on to the quantitative step
    confidence_percent: float = 95.0
    seed: int = 7


def write_quality(
    spark: SparkSession,
    answers: Sequence[Answer],
    results: StudyDirectory,
    *,
    model: Model,
    tallies: Sequence[Tally] = (),
    judging: Judging = Judging(),  # noqa: B008 - frozen
    notify: Say | None = None,
) -> None:
    """Writes the five tables of these answers."""
    say = notify or (lambda _: None)
    frames = Frames(spark, model)
    given = frames.answers(answers)

    def made() -> DataFrame:
        return read_back(spark, results.table("quality"), QUALITY.columns).coalesce(1)

    steps: dict[str, Callable[[], DataFrame]] = {
        "quality": lambda: quality_table(given),
        "quality_scores": lambda: scores_table(made(), select=judging.select),
        "quality_groups": lambda: groups_table(made(), memberships=frames.memberships()),
        "quality_levels": lambda: levels_table(made(), levels=frames.levels(), tallies=frames.tallies(tallies)),
        "quality_agreement": lambda: agreement_table(judgements(given), judging=judging),
    }
    for name, make in steps.items():
        say(f"table {name}")
        place(make(), results, name)


@dataclass(frozen=True, slots=True)
class Frames:
    """What Spark is given of a model and of the answers about it."""

    spark: SparkSession
    model: Model

    def answers(self, answers: Sequence[Answer]) -> DataFrame:
        return self._frame(answer_rows(answers, self.model), ANSWERS)

    def levels(self) -> DataFrame:
        rows = [
            {"feature": feature.id, "position": position, "level": level, "label": label.split(":", maxsplit=1)[0]}
            for position, feature in enumerate(self.model.features)
            for level, label in enumerate(feature.anchors, start=1)
        ]
        return self._frame(rows, LEVELS_OF_MODEL)

    def memberships(self) -> DataFrame:
        rows = [
            {"feature": feature.id, "group": feature.member_group, "member_from": feature.member_from}
            for feature in self.model.features
            if feature.member_group
        ]
        return self._frame(rows, MEMBERSHIPS)

    def tallies(self, tallies: Sequence[Tally]) -> DataFrame:
        return self._frame([tally.row() for tally in tallies if tally.feature in self.model.ids], TALLIES)

    def _frame(self, rows: Sequence[Mapping[str, Any]], schema: T.StructType) -> DataFrame:
        return small_frame(self.spark, rows, schema)


def agreement_table(gathered: DataFrame, *, judging: Judging) -> DataFrame:
    """One row per set and feature; the statistic itself is stats/raters.py, inside Spark's tasks."""
    worker: Any = F.arrow_udtf(agreement_worker(judging), returnType=AGREEMENT.columns)
    table: DataFrame = worker(gathered.repartition(1).asTable())
    return table.coalesce(1).sortWithinPartitions("sheets", "feature").to(AGREEMENT.columns)


def agreement_worker(judging: Judging) -> type:
    """The table function for these settings, which travel with it as a frozen value."""

    class Agreements:
        def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
            found = [agreement_row(row, judging) for row in rows.to_pylist()]
            yield pa.Table.from_pylist(found, schema=arrow_schema(AGREEMENT.columns))

    return Agreements


def agreement_row(row: Mapping[str, Any], judging: Judging) -> dict[str, Any]:
    """The row of the table for a row of JUDGEMENTS."""
    units: dict[str, dict[str, float]] = {}
    for unit, rater, level in zip(row["units"], row["raters"], row["levels"], strict=True):
        units.setdefault(unit, {})[rater] = float(level)
    found = ordinal_agreement(list(units.values()), confidence_percent=judging.confidence_percent, seed=judging.seed)
    return {
        "sheets": row["sheets"],
        "feature": row["feature"],
        "raters": found.raters,
        "units": found.units,
        "alpha": found.alpha,
        "low": found.low,
        "high": found.high,
        "confidence_percent": judging.confidence_percent,
        "why_not": found.why_not or None,
    }
