"""Subscriptions beside the load's own: how many filters the broker's table holds, and how often they change."""

from dataclasses import dataclass
from enum import StrEnum

TABLE_MARK = "brokerlab-table-"  # in every filter of the table, and in no topic of a load


class FilterKind(StrEnum):
    LITERAL = "literal"
    WILDCARD = "wildcard"  # with + and # in them


@dataclass(frozen=True, slots=True)
class FilterTable:
    """Filters that match nothing of the load; load/filters.py says what they are."""

    table: int = 0  # filters, of all its clients together
    kind: FilterKind = FilterKind.LITERAL
    churn_per_s: float | None = None  # SUBSCRIBE and UNSUBSCRIBE in turn, of all its clients together; None: none
    clients: int = 10

    @property
    def is_there(self) -> bool:
        return bool(self.table or self.churn_per_s)
