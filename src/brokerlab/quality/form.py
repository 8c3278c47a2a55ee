"""A sheet to fill in, with what every level means beside it."""

import csv
import io
from collections.abc import Mapping, Sequence

from brokerlab.quality.model import Feature, Model
from brokerlab.quality.sheet import COLUMNS, UNKNOWN


def yaml_form(
    model: Model, *, broker: str, version: str, rater: str, number: int, known: Mapping[str, Sequence[str]]
) -> str:
    """A sheet about one broker in which everything is unknown but what was measured."""
    lines = [
        f"# {model.title}: {len(model.features)} features. Give each a level, a range (2..4), or leave it unknown;",
        "# `has: [...]` lists facts where the feature counts them. A source makes an answer worth believing.",
        "brokerlab: 1",
        f"sheet: {_quoted(broker)}",
        f"version: {_quoted(version)}",
        f"rater: {_quoted(rater)}",
        f"round: {number}",
        "answers:",
    ]
    for feature in model.features:
        lines += [f"  # {feature.title} ({feature.characteristic}: {feature.subcharacteristic})", *_anchors(feature)]
        lines += _entry(feature, known.get(feature.id))
    return "\n".join(lines) + "\n"


def csv_form(
    model: Model,
    *,
    brokers: Mapping[str, str],
    rater: str,
    number: int,
    known: Mapping[str, Mapping[str, Sequence[str]]],
) -> str:
    """Sheets about several brokers (name and version), one answer a line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for broker, version in brokers.items():
        for feature in model.features:
            facts = known.get(broker, {}).get(feature.id)
            answer = ("", ";".join(facts), "measured") if facts else (UNKNOWN, "", "")
            writer.writerow((broker, version, rater, number, feature.id, *answer, ""))
    return out.getvalue()


def _anchors(feature: Feature) -> list[str]:
    lines = [f"  #   {level}: {meaning}" for level, meaning in enumerate(feature.anchors, start=1)]
    if feature.items:
        lines.append(f"  #   facts: {', '.join(feature.items)}")
    return lines


def _entry(feature: Feature, facts: Sequence[str] | None) -> list[str]:
    if facts:
        listed = ", ".join(_quoted(fact) for fact in facts)
        return [f"  {feature.id}: {{has: [{listed}], source: measured}}"]
    return [f'  {feature.id}: {{level: {UNKNOWN}, source: "", because: ""}}']


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
