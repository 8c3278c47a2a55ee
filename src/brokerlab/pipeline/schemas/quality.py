"""What every broker got for every feature."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, TEXTS, Table, schema

TABLE = Table(
    columns=schema(
        sheets=TEXT,  # the set of brokers that are ranked together
        broker=TEXT,
        version=TEXT,
        feature=TEXT,
        feature_group=TEXT,
        roof=INT,
        raters=INT,
        rounds=INT,
        answers=INT,
        unknown=INT,  # of those
        sheet_low=REAL,  # mean of the levels in the sheets; null: nobody knows
        sheet_high=REAL,
        measured=REAL,  # the level that was measured, which then counts instead
        differs=BOOL,  # what was measured is not what the sheets say; null: only one of them is there
        level_low=REAL,  # what counts
        level_high=REAL,
        weight_low=REAL,  # level over roof; 0 and 1 where it is unknown
        weight_high=REAL,
        facts=TEXTS,  # that raters listed
        measured_facts=TEXTS,
        sources=TEXTS,
        because=TEXTS,
    ),
    grain=("sheets", "broker", "feature"),
    order=("sheets", "broker", "position"),
)
