"""Between jobs: what raters answered, what a paper counted, and what decides the groups of brokers."""

from brokerlab.pipeline.schemas.kinds import INT, REAL, TEXT, TEXTS, schema

# One row per set of sheets, broker, rater, round and feature; quality/answers.py says what the columns mean.
ANSWERS = schema(
    sheets=TEXT,
    broker=TEXT,
    version=TEXT,
    rater=TEXT,
    round=INT,
    feature=TEXT,
    position=INT,  # of the feature in its model
    feature_group=TEXT,
    roof=INT,
    low=INT,  # of the level; null for both: unknown
    high=INT,
    facts=TEXTS,
    source=TEXT,
    because=TEXT,
)

# One row per set, feature and level of a distribution that was printed without the brokers' names.
TALLIES = schema(
    sheets=TEXT,
    feature=TEXT,
    level=INT,  # null: an outcome without a level, such as Undefined
    label=TEXT,
    brokers=INT,
    printed_percent=REAL,
    by_name=INT,  # brokers that the text lists with this outcome; null: it lists none
    table=TEXT,
)

# One row per level of a feature, and one per feature that decides a group of brokers.
LEVELS_OF_MODEL = schema(feature=TEXT, position=INT, level=INT, label=TEXT)
MEMBERSHIPS = schema(feature=TEXT, group=TEXT, member_from=INT)

# What raters of one feature said, gathered for the agreement: one row per set and feature.
JUDGEMENTS = schema(sheets=TEXT, feature=TEXT, position=INT, units=TEXTS, raters=TEXTS, levels=TEXTS)
