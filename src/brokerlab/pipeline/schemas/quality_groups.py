"""The groups of brokers: multi-platform, multi-language and so on."""

from brokerlab.pipeline.schemas.kinds import BOOL, TEXT, Table, schema

TABLE = Table(
    columns=schema(sheets=TEXT, group=TEXT, broker=TEXT, member=BOOL),  # null: not known
    grain=("sheets", "group", "broker"),
    order=("sheets", "group", "broker"),
)
