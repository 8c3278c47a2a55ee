"""The score of every broker, its place, and who is chosen for the quantitative step."""

from brokerlab.pipeline.schemas.kinds import BOOL, INT, REAL, TEXT, Table, schema

TABLE = Table(
    columns=schema(
        sheets=TEXT,
        broker=TEXT,
        version=TEXT,
        score_low=REAL,  # sum of weights; the two differ where something is unknown
        score_high=REAL,
        score=REAL,  # their middle, by which brokers are ranked
        most=INT,  # the largest possible score
        unknown=INT,  # features of which nothing is known for sure
        rank=INT,
        rank_best=INT,  # what the ranges allow
        rank_worst=INT,
        selected=BOOL,  # among the first k
        selection_is_certain=BOOL,  # whatever the unknown turns out to be
    ),
    grain=("sheets", "broker"),
    order=("sheets", "rank", "broker"),
)
