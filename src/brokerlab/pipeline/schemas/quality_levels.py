"""How many brokers reached which level of a feature, beside what was printed."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, Table, schema

TABLE = Table(
    columns=schema(
        sheets=TEXT,
        feature=TEXT,
        level=INT,  # null: unknown
        label=TEXT,
        brokers=INT,
        percent=REAL,  # of the set, to the whole percent
        table=TEXT,  # where it was printed; null: nowhere
        printed_percent=REAL,
        agrees=BOOL,
        printed_for=TEXT,  # where they do not agree: the outcome for which the table prints our percent
    ),
    grain=("sheets", "feature", "label"),
    order=("sheets", "position", "level"),
)
