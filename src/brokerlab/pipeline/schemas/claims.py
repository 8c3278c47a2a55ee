"""What the papers say, held against numbers; written by `brokerlab claims`."""

from brokerlab.pipeline.schemas.kinds import INT, TEXT, Table, schema

TABLE = Table(
    columns=schema(
        claim=TEXT,
        paper=TEXT,
        section=TEXT,
        text=TEXT,  # in our words
        rule=TEXT,
        held_against=TEXT,  # the paper's own numbers, or a study of ours
        verdict=TEXT,  # holds | does not hold | undecided
        cells=INT,  # where the rule could be decided
        contradicted=INT,  # of those
        numbers=TEXT,  # what they say; where the claim does not hold, in the cells that contradict it
    ),
    grain=("claim",),
    order=("position",),
)
