"""Paper 000 as answers: what it prints of its twelve brokers, and no more.

It lists brokers by name in four groups; its five Likert features are printed only as shares of brokers, so a single
broker's level is known no closer than the range of levels that occur. Two are named in the text (section 5.6.1).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from brokerlab.published.library import published
from brokerlab.quality.answers import Answer
from brokerlab.quality.model import Model

NAME = "paper 000"
_RATER = "the authors"
_FEATURES = {"functionality_correctness": "correct_functioning"}  # where the paper's table calls it otherwise
_NAMED = {("Emqttd", "configuration_versatility"): 5, ("HBMQTT", "configuration_versatility"): 5}
# Feature by table: the column of its outcomes, and the level of each outcome.
_TECHNICAL: dict[str, tuple[str, str, dict[str, int]]] = {
    "qos_levels": ("table5", "implemented_levels", {"Only 0": 1, "Level 0-1": 2, "Level 0-1-2": 3}),
    "operating_systems": (
        "table6",
        "operating_systems",
        {"Linux": 1, "Windows / Linux": 2, "Windows / Linux / macOS": 3},
    ),
    "programming_languages": ("table7", "languages", {"Single Language": 1, "Two or More": 2}),
    "protocols": ("table8", "protocols", {"MQTT": 1, "Two or More": 2}),
}


@dataclass(frozen=True, slots=True)
class Tally:
    """So many brokers had this outcome, without their names."""

    sheets: str
    feature: str
    level: int | None
    label: str
    brokers: int
    printed_percent: float | None
    by_name: int | None
    table: str

    def row(self) -> dict[str, Any]:
        return asdict(self)


def paper_answers(model: Model) -> list[Answer]:
    """What is known of each of the twelve brokers; a feature that only the shares tell is a range, or unknown."""
    groups = published("000/classification").rows
    brokers = list(dict.fromkeys(row["broker"] for row in groups))
    members = {(row["broker"], row["group"]) for row in groups if row["member"] == "1"}
    ranges = _ranges()
    answers = []
    for broker in brokers:
        for feature in model.features:
            source = f"paper 000, {_where(feature.id)}"
            low, high = ranges.get(feature.id, (None, None))
            if (broker, feature.id) in _NAMED:
                low = high = _NAMED[broker, feature.id]
                source = "paper 000, section 5.6.1"
            elif feature.member_group and (broker, feature.member_group) in members:
                low = high = feature.roof
            elif feature.id == "protocols":
                low = high = 1  # whoever is not listed with several has MQTT alone
            answers.append(Answer(NAME, broker, "", _RATER, 1, feature.id, low, high, None, source))
    return answers


def paper_tallies(model: Model) -> list[Tally]:
    """The printed distributions of Tables 4 to 8."""
    found = [*_satisfaction(), *_technical(model)]
    return [tally for tally in found if tally.feature in model.ids]


def _satisfaction() -> Iterator[Tally]:
    for row in published("000/table4").rows:
        feature = _FEATURES.get(row["feature"], row["feature"])
        printed = float(row["value"]) if row["value"] else None
        count = int(row["implied_broker_count"] or 0)
        yield Tally(NAME, feature, int(row["likert"]), row["satisfaction_level"], count, printed, None, "000/table4")


def _technical(model: Model) -> Iterator[Tally]:
    groups = published("000/classification").rows
    for feature, (table, column, levels) in _TECHNICAL.items():
        if feature not in model.ids:
            continue
        group = model.feature(feature).member_group
        listed = sum(row["member"] == "1" for row in groups if row["group"] == group)
        total = sum(row["group"] == group for row in groups)
        for row in published(f"000/{table}").rows:
            label = row[column]
            level = levels.get(label)
            is_top = level == max(levels.values())
            by_name = listed if is_top else total - listed if feature == "protocols" else None
            count = int(row["implied_broker_count"] or 0)
            yield Tally(NAME, feature, level, label, count, float(row["value"]), by_name, f"000/{table}")


def _ranges() -> dict[str, tuple[int, int]]:
    """The least and the largest level that any broker got, for each feature of Table 4."""
    levels: dict[str, list[int]] = {}
    for tally in _satisfaction():
        if tally.brokers and tally.level is not None:
            levels.setdefault(tally.feature, []).append(tally.level)
    return {feature: (min(found), max(found)) for feature, found in levels.items()}


def _where(feature: str) -> str:
    return (
        f"Table {_TECHNICAL[feature][0].removeprefix('table')} and section 5.7" if feature in _TECHNICAL else "Table 4"
    )
