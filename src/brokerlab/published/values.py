"""The printed tables as one long list of values, each under the names that all papers and our own results share.

    002/table8, EMQ X, QoS 0, average_system_cpu_usage, 98.71   ──►   emqx, 0, average_cpu_usage, 98.71

A printed bound such as >250000 keeps its sign in `bound` and its number in `value`; a dash or a word has no value.
What a paper varies stands in `levels`, in the words of our factors: a test there and back is the role echo.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML

from brokerlab.published.library import PublishedTable, Row, published, published_names
from brokerlab.study.quantity import per_s_text

_BOUNDED = re.compile(r"^([<>~]?)\s*([0-9]+(?:\.[0-9]+)?)$")
_OUTCOMES = ("satisfaction_level", "implemented_levels", "operating_systems", "languages", "protocols")
_GROUPS = "000/classification"
_PUBLISHED = 4000  # messages of a run of 004's Table IV, in all of its columns
# Words of the papers 003 and 004 for levels of our factors.
_ROLES = {"1-jitter": "one-way", "2-board-echo": "echo", "3-self-loop": "loop"}
_ROLES |= {"test1": "one-way", "test2": "echo", "test3": "loop"}
_BRIDGE_PER = {"AUT 1": "pair", "AUT 2": "publisher"}
_IN_NAME = re.compile(r"_([0-9]+)ms$")  # an interval that is part of a metric's name


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
    levels: tuple[tuple[str, str], ...] = ()  # of the circumstances that claims may be about, as a study writes them


@cache
def published_values() -> tuple[Value, ...]:
    """Every printed value that is a number or a bound of one, what follows from them, and memberships in groups."""
    tables = [published(name) for name in published_names()]
    return tuple(
        value for table in tables for value in (*_values_of(table), *(_value(table, row) for row in _derived(table)))
    )


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


def _derived(table: PublishedTable) -> Iterator[Row]:
    """What follows from what a table prints, or stands there as a mark: for claims, not to be shown as printed."""
    for row in table.rows if "metric" in table.columns else ():
        if "loss_pct" in row:
            yield {**row, "metric": "failure_rate", "value": row["loss_pct"], "unit": "%"}
        if row["metric"] == "latency_mean" and "flag" in row:
            yield {**row, "metric": "collapsed", "value": str(int(row["flag"] == "collapse")), "unit": ""}
        if row["metric"] == "lost_messages_end_to_end":
            yield {**row, "metric": "failure_rate", "value": str(100 * float(row["value"]) / _PUBLISHED), "unit": "%"}


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
        levels=tuple(_levels(row)),
    )


def _levels(row: Row) -> Iterator[tuple[str, str]]:
    """Factors of ours that the row is a level of."""
    if row.get("broker"):
        yield "broker", broker_name(row["broker"])
    if row.get("broker") == "clustered":  # 001: all of its clusters together
        yield "join", "cluster"
    for name in ("qos", "environment"):
        if row.get(name):
            yield name, row[name]
    in_name = _IN_NAME.search(row["metric"])
    interval_ms = row.get("interval_ms") or (in_name.group(1) if in_name else "")
    if interval_ms:
        yield "rate", per_s_text(1000 / float(interval_ms))
    if row.get("test") in _ROLES:
        yield "role", _ROLES[row["test"]]
    if row.get("architecture"):
        yield "bridge_per", _BRIDGE_PER[row["architecture"]]
        yield "length", f"{row['bridge_topic_bytes']} B"
        yield "behaviour", "per-message-abrupt"  # what its gateways did, whatever their paper calls it
    if row.get("payload_kb"):
        yield "payload", f"{row['payload_kb']} kB"


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
