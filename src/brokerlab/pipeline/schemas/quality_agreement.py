"""How far the raters agree, feature by feature."""

from brokerlab.pipeline.schemas.kinds import INT, REAL, TEXT, Table, schema

TABLE = Table(
    columns=schema(
        sheets=TEXT,
        feature=TEXT,
        raters=INT,
        units=INT,  # broker and round, judged by two raters or more
        alpha=REAL,  # Krippendorff's, for ordered levels; null: see why_not
        low=REAL,
        high=REAL,
        confidence_percent=REAL,
        why_not=TEXT,
    ),
    grain=("sheets", "feature"),
    order=("sheets", "feature"),
)
