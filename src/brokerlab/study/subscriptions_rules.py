"""What a table of filters needs beside it."""

from brokerlab.study.document import Document
from brokerlab.study.lookup import VARIABLES, WORKLOAD, read_or_none, values_of
from brokerlab.study.subscriptions import read_table
from brokerlab.study.table import TABLE_MARK

_SUBSCRIPTIONS = (*WORKLOAD, "subscriptions")
_OTHERS = {"kind": "filter_kind", "churn": "churn", "clients": "filter_clients"}  # key: factor


def check_subscriptions(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    tables = [read_or_none(read_table, written) for _, written in values_of(document, "subscriptions")]
    if not any(tables) and None not in tables:
        for key, factor in _OTHERS.items():
            for path in ((*_SUBSCRIPTIONS, key), (*VARIABLES, factor)):
                if path in document.places:
                    rule = "needs a table: write table in scenario.workload.subscriptions, such as table: 10000"
                    document.add(path, rule, of_key=True)
    if any(tables):
        for key in ("publish", "reply"):
            path = (*WORKLOAD, "topics", key)
            topic = document.get(*path)
            if isinstance(topic, str) and TABLE_MARK in topic:
                document.add(path, f"must not hold {TABLE_MARK}, which names the filters of subscriptions.table")
