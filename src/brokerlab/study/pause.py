"""Subscribers that stop reading for a time: the mapping `pause`, which pause_rules.py holds against the rest."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from brokerlab.study import quantity
from brokerlab.study import values as v
from brokerlab.study.factor import FactorKind
from brokerlab.study.part import Part
from brokerlab.study.pause_values import Pause
from brokerlab.study.problems import RuleError

_LONGEST_S = 3600.0


def read_pause_s(written: object) -> float:
    duration_s = quantity.read_seconds(written)
    if not 0 <= duration_s <= _LONGEST_S:
        raise RuleError("must be from 0 s to 1 h")
    return duration_s


PauseDuration = Annotated[float, PlainValidator(read_pause_s)]


class PausePart(Part):
    after: PauseDuration = Pause().after_s
    for_: PauseDuration = Field(alias="for")

    def value(self) -> Pause:
        return Pause(after_s=self.after, for_s=self.for_)


def written(pause: Pause | None) -> dict[str, Any]:
    """The key of a study file; none where subscribers always read."""
    if pause is None:
        return {}
    return {"pause": {"after": quantity.seconds_text(pause.after_s), "for": quantity.seconds_text(pause.for_s)}}


def _apply(workload: v.Workload, level: v.Level) -> v.Workload:
    return replace(workload, pause=replace(workload.pause or Pause(), for_s=float(level)))


KINDS = (
    FactorKind("pause", ("pause", "for"), read_pause_s, lambda level: quantity.seconds_text(float(level)), _apply),
)
