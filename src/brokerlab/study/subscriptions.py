"""Filters that fill the broker's table beside the load: the mapping `subscriptions`, its readers, factors and rules."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import quantity
from brokerlab.study.factor import FactorKind, read_whole
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.table import FilterKind, FilterTable
from brokerlab.study.values import Level, Workload

_DEFAULT = FilterTable()
_MOST_FILTERS = 10_000_000
_MOST_CLIENTS = 100_000
_HIGHEST_CHURN_PER_S = 1e6


def read_table(written: object) -> int:
    return read_whole(written, least=0, most=_MOST_FILTERS)


def read_kind(written: object) -> FilterKind:
    return FilterKind(check_name("kind of filters", written, known=[each.value for each in FilterKind]))


def read_churn_per_s(written: object) -> float:
    churn_per_s = quantity.read_per_s(written)
    if not 0 < churn_per_s <= _HIGHEST_CHURN_PER_S:
        raise RuleError(
            f"must be above 0 and at most {quantity.per_s_text(_HIGHEST_CHURN_PER_S)}; without churn leave it out"
        )
    return churn_per_s


def read_table_clients(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_CLIENTS)


Table = Annotated[int, PlainValidator(read_table)]
Kind = Annotated[FilterKind, PlainValidator(read_kind)]
Churn = Annotated[float | None, PlainValidator(read_churn_per_s)]
TableClients = Annotated[int, PlainValidator(read_table_clients)]


class SubscriptionsPart(Part):
    table: Table = _DEFAULT.table
    kind: Kind = _DEFAULT.kind
    churn: Churn = None
    clients: TableClients = _DEFAULT.clients

    def value(self) -> FilterTable:
        return FilterTable(table=self.table, kind=self.kind, churn_per_s=self.churn, clients=self.clients)


def written(table: FilterTable) -> dict[str, Any]:
    """The key of a study file; none where there is no table."""
    if table == _DEFAULT:
        return {}
    churn = {} if table.churn_per_s is None else {"churn": quantity.per_s_text(table.churn_per_s)}
    return {"subscriptions": {"table": table.table, "kind": table.kind.value, **churn, "clients": table.clients}}


def _kind(
    name: str, key: str, field: str, read: Callable[[object], Any], shown: Callable[[Any], str | int]
) -> FactorKind:  # fmt: skip
    def apply(workload: Workload, level: Level) -> Workload:
        changed: dict[str, Any] = {field: FilterKind(str(level)) if field == "kind" else level}
        return replace(workload, subscriptions=replace(workload.subscriptions, **changed))

    return FactorKind(name, ("subscriptions", key), read, shown, apply)


KINDS = (
    _kind("subscriptions", "table", "table", read_table, int),
    _kind("filter_kind", "kind", "kind", read_kind, str),
    _kind("churn", "churn", "churn_per_s", read_churn_per_s, quantity.per_s_text),
    _kind("filter_clients", "clients", "clients", read_table_clients, int),
)
