"""What was measured of a broker takes the place of what was judged, feature by feature."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brokerlab.quality.answers import MEASURED, Answer
from brokerlab.quality.model import Model

_VERSATILITY, _QOS, _CORRECT = "configuration_versatility", "qos_levels", "correct_functioning"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a broker was seen to do; None: it was not tried."""

    source: str
    qos: tuple[int, ...]
    protocols: tuple[str, ...]
    has_tls: bool = False  # False: not seen, which proves nothing
    joins_others: bool = False  # the same
    departures: int | None = None  # points in which it does not keep MQTT


def measured_answers(judged: Sequence[Answer], facts: Mapping[str, Facts], *, model: Model) -> list[Answer]:
    """An answer of the rater `measured` for every broker and feature that facts decide."""
    brokers = {(answer.sheets, answer.broker, answer.version) for answer in judged}
    return [
        Answer(sheets, broker, version, MEASURED, 1, feature, level, level, listed, facts[broker].source)
        for sheets, broker, version in sorted(brokers)
        if broker in facts
        for feature, level, listed in _decided(facts[broker], _listed(judged, sheets, broker), model)
    ]


def _decided(facts: Facts, listed: Sequence[str] | None, model: Model) -> list[tuple[str, int, tuple[str, ...] | None]]:
    found: list[tuple[str, int, tuple[str, ...] | None]] = []
    if _QOS in model.ids:
        levels = tuple(str(qos) for qos in facts.qos)
        found.append((_QOS, model.feature(_QOS).level_of(levels), levels))
    if _VERSATILITY in model.ids and listed is not None:
        corrected = _corrected(facts, listed)
        found.append((_VERSATILITY, model.feature(_VERSATILITY).level_of(corrected), corrected))
    if _CORRECT in model.ids and facts.departures is not None:
        feature = model.feature(_CORRECT)
        found.append((_CORRECT, max(1, feature.roof - facts.departures), None))
    return found


def _corrected(facts: Facts, listed: Sequence[str]) -> tuple[str, ...]:
    """The rater's list with what was seen: MQTT 5 either way, the others only where they were seen."""
    seen = {"mqtt5"} if "5.0" in facts.protocols else set()
    seen |= {"tls"} if facts.has_tls else set()
    seen |= {"clustering"} if facts.joins_others else set()
    kept = {item for item in listed if item != "mqtt5"}
    return tuple(sorted(kept | seen))


def _listed(judged: Sequence[Answer], sheets: str, broker: str) -> Sequence[str] | None:
    """What raters listed of its versatility; None where all gave a level instead."""
    lists = [
        answer.facts
        for answer in judged
        if (answer.sheets, answer.broker, answer.feature) == (sheets, broker, _VERSATILITY) and answer.facts is not None
    ]
    return sorted({item for facts in lists for item in facts}) if lists else None
