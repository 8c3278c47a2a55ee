"""The printed tables as one long list of values, each under the names that all papers and our own results share.

    002/table8, EMQ X, QoS 0, average_system_cpu_usage, 98.71   ──►   emqx, 0, average_cpu_usage, 98.71

A printed bound such as >250000 keeps its sign in `bound` and its number in `value`; a dash or a word has no value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML

from brokerlab.published.library import PublishedTable, Row, published, published_names

_BOUNDED = re.compile(r"^([<>~]?)\s*([0-9]+(?:\.[0-9]+)?)$")
_OUTCOMES = ("satisfaction_level", "implemented_levels", "operating_systems", "languages", "protocols")
_GROUPS = "000/classification"


@dataclass(frozen=True, slots=True)
class Value:
    """One printed number with everything that tells it from the others; None where a paper has no such thing."""

    source: str  # PAPER/TABLE, or the name of a study of ours
    broker: str | None
    printed_broker: str | None
    version: str | None
    qos: str | None
    environment: str | None
    kind: str | None  # scalable | non-scalable
    interval_ms: str | None
    statistic: str | None
    variant: str | None  # architecture and topic of 004; levels of our other factors
    feature: str | None  # of 000; gateway of 004
    outcome: str | None
    metric: str
    value: float | None
    bound: str
    printed: str
    unit: str
    note: str


@cache
def published_values() -> tuple[Value, ...]:
    """Every printed value that is a number or a bound of one, and every membership in a group."""
    return tuple(value for name in published_names() for value in _values_of(published(name)))


def values_of(name: str) -> tuple[Value, ...]:
    return tuple(_values_of(published(name)))


def broker_name(printed: str) -> str:
    """Our name of a broker; as printed where there is none."""
    return _aliases()["brokers"].get(printed, printed)


def drivers_of(printed: str) -> tuple[str, ...]:
    """Drivers of ours for a broker of 001's Table I, without their versions; none where we have none."""
    return tuple(_names()["drivers"].get(printed, ()))


def language_of(driver: str) -> str | None:
    """What the broker of a driver is written in; None where nobody wrote it down."""
    language: str | None = _names()["languages"].get(driver)
    return language


def metric_name(printed: str) -> str:
    return _aliases()["metrics"].get(printed, printed)


def lowest_is_best(metric: str) -> bool:
    """Of a printed metric that we have too."""
    return bool(_names()["metrics"][metric]["lowest"])


def metrics_of_ours() -> Iterator[tuple[str, str | None, str]]:
    """(printed metric, statistic, our metric): several may share one of ours; None is any statistic."""
    for metric, about in _names()["metrics"].items():
        for statistic, ours in about.get("each", {None: about["ours"]}).items():
            yield metric, statistic, str(ours)


def _values_of(table: PublishedTable) -> list[Value]:
    if table.id == _GROUPS:
        return [_value(table, {**row, "metric": row["group"], "value": row["member"]}) for row in table.rows]
    if "metric" not in table.columns or "value" not in table.columns:
        return []
    rows = list(table.rows)
    if "published_per_run" in table.columns:
        rows += [{**row, "metric": "published_messages", "value": row["published_per_run"]} for row in table.rows]
    return [_value(table, row) for row in rows]


def _value(table: PublishedTable, row: Row) -> Value:
    printed = (row.get("value") or "").strip()
    match = _BOUNDED.match(printed)
    broker = row.get("broker") or None
    return Value(
        source=table.id,
        broker=None if broker is None else broker_name(broker),
        printed_broker=broker,
        version=row.get("version") or None,
        qos=row.get("qos") or None,
        environment=row.get("environment") or None,
        kind=row.get("class") or None,
        interval_ms=row.get("interval_ms") or None,
        statistic=row.get("statistic") or None,
        variant=_variant(row),
        feature=row.get("feature") or row.get("gateway") or None,
        outcome=next((row[name] for name in _OUTCOMES if row.get(name)), None),
        metric=metric_name(row["metric"]),
        value=float(match.group(2)) if match else None,
        bound=match.group(1) if match else "",
        printed=printed,
        unit=row.get("unit") or "",
        note=row.get("note") or "",
    )


def _variant(row: Row) -> str | None:
    parts = [row.get("architecture"), row.get("bridge_topic_bytes")]
    return ", ".join(part for part in parts if part) or None


@cache
def _names() -> Any:
    return YAML(typ="safe", pure=True).load((files("brokerlab.published") / "names.yaml").read_text(encoding="utf-8"))


@cache
def _aliases() -> dict[str, dict[str, str]]:
    names = _names()
    return {
        "brokers": {printed: ours for ours, printeds in names["brokers"].items() for printed in printeds},
        "metrics": {printed: name for name, about in names["metrics"].items() for printed in about["printed"]},
    }
